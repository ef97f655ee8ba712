package model

import (
	"slices"
	"strconv"
	"strings"
)

// ImportSource is the service that exported the reports.
type ImportSource string

// The sources.
const (
	ImportPlausible ImportSource = "plausible"
	ImportUmami     ImportSource = "umami"
	ImportGA4       ImportSource = "ga4"
	ImportMatomo    ImportSource = "matomo"

	// ImportGoatCounterSums has neither visits nor the visitors of whole days.
	ImportGoatCounterSums ImportSource = "goatcounter-api"
)

// Service returns the name of the service as its own pages write it.
func (s ImportSource) Service() string {
	switch s {
	case ImportPlausible:
		return "Plausible"
	case ImportUmami:
		return "Umami"
	case ImportGoatCounterSums:
		return "GoatCounter"
	case ImportGA4:
		return "Google Analytics 4"
	case ImportMatomo:
		return "Matomo"
	}
	return string(s)
}

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
	ID          ImportID     `bun:",pk,autoincrement"`
	SiteID      SiteID       `bun:",notnull"`
	Source      ImportSource `bun:",notnull"`
	State       ImportState  `bun:",notnull"`
	CreatedAt   Instant      `bun:",notnull"`
	CompletedAt Instant      `bun:",nullzero"`
	CreatedBy   UserID       `bun:",notnull"` // the user; 0: a command

	// FirstDay and LastDay are days of the site's time zone for daily sums, and of UTC for visits.
	FirstDay, LastDay Day `bun:",notnull"`
	// VisitRows means that the source has single visits; otherwise it has daily sums.
	VisitRows  bool     `bun:",notnull"`
	Dimensions []string `bun:"-"` // of the daily sums, see ReportDimension

	Visitors, Visits, Pageviews, Events int64 `bun:",notnull"`
	Size                                int64 `bun:",notnull"` // daily sums, or page views and events

	// ImportedBy is the e-mail address of CreatedBy, if that is a member. Only lists for members
	// have it.
	ImportedBy string `bun:"-"`
}

// ByCommand reports whether an operator imported on the command line.
func (r *ReportImport) ByCommand() bool { return r.CreatedBy == 0 }

// HasDimension reports whether the import can be broken down by a dimension. Groups and names of
// sources are derived from sources.
func (r *ReportImport) HasDimension(by ReportDimension) bool {
	if by == DimensionSourceGroup || by == DimensionSourceName {
		by = DimensionSource
	}
	return r.VisitRows || slices.Contains(r.Dimensions, string(by))
}

// Codes of the notes about an export.
const (
	NoteEventsAlone = "events_alone"
	NoteOtherRows   = "other_rows"
	NoteEmptyRows   = "empty_rows"
	NoteEventNames  = "event_names"
	NoteFolders     = "folders"
	NoteGoatCounts  = "goatcounter_counts"
)

// MaxNoteEvents is how many names a note of NoteEventNames lists.
const MaxNoteEvents = 20

// ImportNote is a remark on what was read of an export.
type ImportNote struct {
	Code   string          `json:"code"`
	Count  int64           `json:"count,omitempty"`  // of rows, sessions or names, if the text has a number
	Column string          `json:"column,omitempty"` // of NoteEmptyRows
	Events []ImportedEvent `json:"events,omitempty"` // of NoteEventNames, by name; at most MaxNoteEvents
}

// ImportedEvent is an event with a name that the form of event names cannot spell.
type ImportedEvent struct {
	Name string `json:"name"` // in the export
	As   string `json:"as"`   // in reports
}

// noteTexts are the texts of notes, with the number and the column.
var noteTexts = map[string]string{
	NoteEventsAlone: "{count} sessions have events alone: their events count, but they are no visits",
	NoteOtherRows:   "{count} rows that are neither page views nor events are not imported",
	NoteEmptyRows:   "{count} rows with an empty {column} are not imported",
	NoteEventNames:  "{count} events have names that event names cannot spell",
	NoteFolders: "{count} rows of pages have no address and count as (other): folders, if the file was not downloaded " +
		"with flat=1",
	NoteGoatCounts: "GoatCounter counts each page once for a visitor's session: page views are these counts, and visits " +
		"and the visitors of whole days are not known",
}

// Text returns the note in English.
func (n ImportNote) Text() string {
	text := strings.NewReplacer("{count}", strconv.FormatInt(n.Count, 10), "{column}", n.Column).Replace(noteTexts[n.Code])
	for i, event := range n.Events {
		text += map[bool]string{true: ": ", false: ", "}[i == 0] + event.Name + " is " + event.As
	}
	return text
}
