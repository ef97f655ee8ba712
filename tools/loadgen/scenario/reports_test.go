package scenario

import (
	"os"
	"strings"
	"testing"

	"github.com/tallygate/tallygate/tools/testkit"
)

// TestUncachedDocument checks the change of the repository's dashboard, and that another document
// fails instead of being measured from the cache.
func TestUncachedDocument(t *testing.T) {
	document, err := os.ReadFile("../../../graph/test/testdata/dashboard.graphql")
	testkit.NoError(t, err)
	changed, err := uncachedDocument(string(document))
	if err != nil || !strings.Contains(changed, "$unknown: String, $filters") || !strings.Contains(changed, "propertyNames(event: $unknown)") {
		t.Errorf("error %v, document %s", err, changed)
	}
	if _, err := uncachedDocument("{ viewer { email } }"); err == nil {
		t.Error("no error for a document without a report")
	}
}

// TestRowsPerYear checks the page views that --per-year fills in.
func TestRowsPerYear(t *testing.T) {
	for _, test := range []struct{ perYear, days, want int }{
		{0, 30, 7}, {100_000_000, 30, 8_219_178}, {1_000_000_000, 5 * 365, 5_000_000_000}, {365, 2, 2}, {1, 2, 1},
	} {
		c := Reports{Rows: 7, Days: test.days, PerYear: test.perYear}
		testkit.Equal(t, c.rows(), test.want, "%d a year in %d days", test.perYear, test.days)
	}
}
