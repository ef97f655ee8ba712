package resolver

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/tallygate/tallygate/db/nodeid"
	"github.com/tallygate/tallygate/tools/testkit"
)

func FuzzCursor(f *testing.F) {
	ids, err := nodeid.New(strings.Repeat("0f", nodeid.KeySize))
	testkit.NoError(f, err)

	sites, sitekeys := cursors{ids, nodeid.AfterSite}, cursors{ids, nodeid.AfterSitekey}
	for _, s := range []string{
		"", sites.encode(1), sites.encode(math.MaxInt64), sitekeys.encode(1), sites.encode(1) + "\n",
		sites.encode(1) + "~", sites.encode(1) + "~w6Q", ids.Of(nodeid.Site, 1),
	} {
		f.Add(s)
	}

	f.Fuzz(func(t *testing.T, s string) {
		if id, ok := sites.decode(s); ok && (sites.encode(id) != s || id < 1) {
			t.Errorf("%q is read as %d, which is written %q", s, id, sites.encode(id))
		}
		if at, ok := sites.decodeText(s); ok && (sites.encodeText(*at) != s || at.ID < 1) {
			t.Errorf("%q is read as %v, which is written %q", s, *at, sites.encodeText(*at))
		}
	})
}

func TestPercent(t *testing.T) {
	tests := []struct {
		used, quota int64
		want        float64
	}{
		{0, 10, 0}, {1, 3, 33.3}, {2, 3, 66.6}, {9_999_999, 10_000_000, 99.9}, {10, 10, 100}, {15, 10, 150},
		{0, 0, 100}, {1, 1_000_000, 0}, {999, 1000, 99.9}, {57, 1000, 5.7}, {29, 100, 29},
	}
	for _, test := range tests {
		if got := percent(test.used, test.quota); got != test.want {
			t.Errorf("%s: %v, want %v", fmt.Sprintf("%d of %d", test.used, test.quota), got, test.want)
		}
	}
}

// The deletions of one request share one purge time.
func TestDeletionsOfARequestShareTheirTime(t *testing.T) {
	state := &request{}
	if first, second := state.purgeEnd(), state.purgeEnd(); !first.Equal(second) || time.Until(first) > purgeTime {
		t.Errorf("they wait until %v, then until %v", first, second)
	}
}
