package model

import "slices"

// ImportSource is the service that exported the reports.
type ImportSource string

// The sources.
const (
	ImportPlausible   ImportSource = "plausible"
	ImportUmami       ImportSource = "umami"
	ImportGoatCounter ImportSource = "goatcounter"
	ImportGA4         ImportSource = "ga4"
)

// Limits of imports. The contract does not limit them.
const (
	MaxImports       = 10        // of a site
	MaxImportFigures = 2_000_000 // daily sums of one import
	MaxImportRows    = 4_000_000 // page views and events of one import
	MaxImportFigure  = 1 << 40   // a single sum of the source
)

// ImportState is how far an import is.
type ImportState int16

// The states.
const (
	ImportLoading  ImportState = iota // not visible
	ImportComplete                    // part of the reports
	ImportDeleting                    // not visible any more
)

// ReportImport is a part of a site's reports that another service has counted.
type ReportImport struct {
	ID          int64        `bun:",pk,autoincrement"`
	SiteID      int64        `bun:",notnull"`
	Source      ImportSource `bun:",notnull"`
	State       ImportState  `bun:",notnull"`
	CreatedAt   Instant      `bun:",notnull"`
	CompletedAt Instant      `bun:",nullzero"`

	// FirstDay and LastDay are days of the site's time zone for daily sums, and of UTC for visits.
	FirstDay, LastDay Day `bun:",notnull"`
	// VisitRows means that the source has single visits; otherwise it has daily sums.
	VisitRows  bool     `bun:",notnull"`
	Dimensions []string `bun:"-"` // of the daily sums, see ReportDimension

	Visitors, Visits, Pageviews, Events int64 `bun:",notnull"`
	Size                                int64 `bun:",notnull"` // daily sums, or page views and events
}

// HasDimension reports whether the import can be broken down by a dimension.
func (r *ReportImport) HasDimension(by ReportDimension) bool {
	return r.VisitRows || slices.Contains(r.Dimensions, string(by))
}
