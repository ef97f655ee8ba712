package model

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"golang.org/x/net/publicsuffix"

	"github.com/tallygate/tallygate/tools/testkit"
)

var (
	bareName = regexp.MustCompile(`^[a-z0-9]([a-z0-9_-]*[a-z0-9])?$`)
	hostName = regexp.MustCompile(`^([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\.)+[a-z0-9-]{2,63}$`)
)

// Every file is sorted, and every entry is well-formed, listed once, and not implied by an entry
// for a parent domain.
func TestLists(t *testing.T) {
	fewest := map[SourceKind]int{
		SourceSearch: 400, SourceSocial: 400, SourceVideo: 200, SourceMail: 250, SourceAds: 250, SourceAffiliates: 100,
		SourceReferral: 100, SourceAssistants: 50, SourceShopping: 150, SourceNews: 150,
	}
	inFile := map[string]string{} // of a list of channels, or of groups with a mark

	for k, name := range sourceLists {
		mark := ""
		if k >= SourceAssistants {
			mark = "group "
		}
		entries := sourceList(name)
		if len(entries) < fewest[k] {
			t.Errorf("%s: %d entries, want at least %d", name, len(entries), fewest[k])
		}
		if !slices.IsSorted(entries) {
			t.Errorf("%s: not sorted", name)
		}

		for _, e := range entries {
			if other := inFile[mark+e]; other != "" {
				t.Errorf("%s: %q is in %s too", name, e, other)
			}

			inFile[mark+e] = name
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
			if parent := e[strings.IndexByte(e, '.')+1:]; kindIn(listOf(k), parent) == k {
				t.Errorf("%s: %q is already covered by a host above it", name, e)
			}
		}
	}

	if loaded := len(channelSites) + len(groupSites); len(inFile) != loaded {
		t.Errorf("%d entries loaded, want %d", loaded, len(inFile))
	}
}

// listOf returns the list that has the sites of a kind.
func listOf(k SourceKind) map[string]SourceKind {
	if k >= SourceAssistants {
		return groupSites
	}
	return channelSites
}

// TestGroupOfSource checks the groups of hosts and of names that campaigns use.
func TestGroupOfSource(t *testing.T) {
	for source, want := range map[string]SourceGroup{
		"":                      "",
		"google":                GroupSearch,
		"www.google.com":        GroupSearch,
		"duckduckgo.com":        GroupSearch,
		"m.facebook.com":        GroupSocial,
		"LinkedIn":              GroupSocial,
		"www.youtube.com":       GroupVideo,
		"chatgpt.com":           GroupAssistants,
		"gemini.google.com":     GroupAssistants,
		"www.perplexity.ai":     GroupAssistants,
		"copilot.microsoft.com": GroupAssistants,
		"www.amazon.co.uk":      GroupShopping,
		"shopping.google.com":   GroupShopping,
		"news.google.com":       GroupNews,
		"www.spiegel.de":        GroupNews,
		"mail.google.com":       GroupMail,
		"email":                 GroupMail,
		"accounts.google.com":   GroupOther,
		"newsletter":            GroupOther,
		"blog.example.org":      GroupOther,
		"com":                   GroupOther,
		"notchatgpt.com":        GroupOther,
	} {
		testkit.Equal(t, GroupOfSource(source), want, "%q is of", source)
	}
}

// An exception needs a listed parent domain of another kind.
func TestReferralExceptionsLieBelowListedHosts(t *testing.T) {
	for _, e := range sourceList(sourceLists[SourceReferral]) {
		switch KindOfHost(e[strings.IndexByte(e, '.')+1:]) {
		case SourceUnlisted, SourceReferral:
			t.Errorf("%q has no listed host above it", e)
		}
	}
}
