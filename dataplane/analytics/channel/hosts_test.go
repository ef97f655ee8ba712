package channel

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"golang.org/x/net/publicsuffix"
)

var (
	bareName = regexp.MustCompile(`^[a-z0-9]([a-z0-9_-]*[a-z0-9])?$`)
	hostName = regexp.MustCompile(`^([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\.)+[a-z0-9-]{2,63}$`)
)

// Every file is sorted, and every entry is well-formed, listed once, and not implied by an entry
// for a parent domain.
func TestLists(t *testing.T) {
	fewest := map[kind]int{search: 400, social: 400, video: 200, mail: 250, ads: 250, affiliates: 100, referral: 100}
	inFile := map[string]string{}

	for k, name := range listNames {
		entries := list(name)
		if len(entries) < fewest[k] {
			t.Errorf("%s: %d entries, want at least %d", name, len(entries), fewest[k])
		}
		if !slices.IsSorted(entries) {
			t.Errorf("%s: not sorted", name)
		}

		for _, e := range entries {
			if other := inFile[e]; other != "" {
				t.Errorf("%s: %q is in %s too", name, e, other)
			}

			inFile[e] = name
			if !strings.Contains(e, ".") {
				if !bareName.MatchString(e) {
					t.Errorf("%s: %q is not a name", name, e)
				}

				continue
			}

			if !hostName.MatchString(e) || len(e) > 253 {
				t.Errorf("%s: %q is not a host", name, e)
			}
			if suffix, icann := publicsuffix.PublicSuffix(e); icann && suffix == e {
				t.Errorf("%s: %q is a public suffix and would claim every site below it", name, e)
			}
			if parent := e[strings.IndexByte(e, '.')+1:]; kindOfHost(parent) == k {
				t.Errorf("%s: %q is already covered by a host above it", name, e)
			}
		}
	}

	if len(inFile) != len(sites) {
		t.Errorf("%d entries loaded, want %d", len(sites), len(inFile))
	}
}

// An exception needs a listed parent domain of another kind.
func TestReferralExceptionsLieBelowListedHosts(t *testing.T) {
	for _, e := range list(listNames[referral]) {
		switch kindOfHost(e[strings.IndexByte(e, '.')+1:]) {
		case unlisted, referral:
			t.Errorf("%q has no listed host above it", e)
		}
	}
}
