package schema_test

import (
	"testing"
	"time"

	"github.com/tallygate/tallygate/graph/schema"
)

// TestParseDeprecation reads reasons, and refuses other forms.
func TestParseDeprecation(t *testing.T) {
	t.Parallel()
	got, err := schema.ParseDeprecation("Use `Site.title`. Deprecated on 2026-11-27, removed on 2027-11-27 at the earliest.")
	want := schema.Deprecation{
		Replacement: "Site.title", Since: time.Date(2026, 11, 27, 0, 0, 0, 0, time.UTC), Removal: time.Date(2027, 11, 27, 0, 0, 0, 0, time.UTC),
	}
	if got != want || err != nil {
		t.Errorf("%+v, %v", got, err)
	}

	for _, reason := range []string{
		"", "No longer supported", "Use `title`.",
		"Use title. Deprecated on 2026-11-27, removed on 2027-11-27 at the earliest.",
		"Use ``. Deprecated on 2026-11-27, removed on 2027-11-27 at the earliest.",
		"Use `title`. Deprecated on 2026-11-27, removed on 2027-11-26 at the earliest.",
		"Use `title`. Deprecated on 2026-11-27, removed on 2026-11-27 at the earliest.",
		"Use `title`. Deprecated on 2026-11-31, removed on 2028-11-27 at the earliest.",
		"Use `title`. Deprecated on 2026-11-27, removed on 2027-13-27 at the earliest.",
		"Use `title`. Deprecated on 2026-11-27, removed on 2027-11-27 at the earliest. Sorry.",
		"Use `title`.\nDeprecated on 2026-11-27, removed on 2027-11-27 at the earliest.",
	} {
		if got, err := schema.ParseDeprecation(reason); err == nil {
			t.Errorf("%q is accepted as %+v", reason, got)
		}
	}
}
