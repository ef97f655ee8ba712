package schema

import (
	"fmt"
	"regexp"
	"time"
)

// DeprecationMonths is how long a deprecated field works at least.
const DeprecationMonths = 12

// Deprecation is the reason of a directive @deprecated.
type Deprecation struct {
	Replacement string // a name of the schema, such as "Site.name" or "updateSite"
	Since       time.Time
	Removal     time.Time // the earliest day
}

// deprecationForm is the one form of a reason.
var deprecationForm = regexp.MustCompile(
	"^Use `([A-Za-z][A-Za-z0-9.]*)`\\. Deprecated on (\\d{4}-\\d\\d-\\d\\d), removed on (\\d{4}-\\d\\d-\\d\\d) at the earliest\\.$")

// ParseDeprecation reads a reason. It fails for a text of another form, for days that do not exist,
// and for a removal within DeprecationMonths.
func ParseDeprecation(reason string) (Deprecation, error) {
	parts := deprecationForm.FindStringSubmatch(reason)
	if parts == nil {
		return Deprecation{}, fmt.Errorf("%q does not have the form %q", reason,
			"Use `NAME`. Deprecated on YYYY-MM-DD, removed on YYYY-MM-DD at the earliest.")
	}

	d := Deprecation{Replacement: parts[1]}
	for i, day := range []*time.Time{&d.Since, &d.Removal} {
		var err error
		if *day, err = time.Parse(time.DateOnly, parts[i+2]); err != nil {
			return Deprecation{}, err
		}
	}
	if earliest := d.Since.AddDate(0, DeprecationMonths, 0); d.Removal.Before(earliest) {
		return Deprecation{}, fmt.Errorf("%q: the removal is before %s", reason, earliest.Format(time.DateOnly))
	}

	return d, nil
}
