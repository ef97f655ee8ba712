// Package segment is the column form of what visitors did on one site: immutable columns of small
// integers, from which reports are counted.
//
// A segment holds the whole visits of one or more UTC days. A visit never crosses midnight UTC,
// because visitors get a new pseudonym there. The worker builds a segment from the rows of a
// finished day and merges the days of a finished month; the control plane decodes segments and
// counts. A segment holds no pseudonym: visits are sorted by visitor, and a flag marks the first
// visit of each. The package never reads a database, a clock or the network.
package segment

import (
	"github.com/tallygate/tallygate/db/model"
)

// Field names a column whose values are texts. A row stores the text's index in the dictionary of
// the field's domain.
type Field uint8

// The fields of a visit, of a page view, an event and a property, then further fields of a visit.
// Stored rollups number fields, so new fields come last.
const (
	Channel     Field = iota
	Source            // utm_source or, without one, the referring host
	Referrer          // host and path of the referring page
	UTMSource         // utm_source alone
	UTMMedium         //
	UTMCampaign       //
	UTMContent        //
	UTMTerm           //
	ClickID           // ad platform of the click id: google, bing or facebook
	Language          // of the first page view
	Width             // range of the screen width, of the first page view
	Entry             // path of the first page view
	Exit              // path of the last page view
	User              // keyed hash of the owner's pseudonymous user id, 16 bytes
	Path              // of a page view
	EventName         //
	EventPath         //
	Currency          // of an event with a value
	PropName          // of a flat property
	PropValue         //
	Country           // what the visit keeps of its browser, see model.Client
	Browser           //
	System            //
	Device            //
	Host              //
	SourceGroup       // see model.GroupOfSource
	fieldCount
)

// table is the kind of row that a field belongs to.
type table uint8

const (
	visits table = iota
	views
	events
	props
	tableCount
)

// table returns the kind of row that carries the field.
func (f Field) table() table {
	switch {
	case f <= User || f >= Country:
		return visits
	case f == Path:
		return views
	case f <= Currency:
		return events
	default:
		return props
	}
}

// Domain returns the field whose dictionary f shares: paths and sources have one each.
func (f Field) Domain() Field {
	switch f {
	case Entry, Exit, EventPath:
		return Path
	case UTMSource:
		return Source
	default:
		return f
	}
}

// Segment is the decoded form. Rows of visits, page views, events and properties lie in one slice
// per column. Slices may alias the encoded parts and must not be changed.
type Segment struct {
	First model.Day // the first UTC day
	Days  []Day     // one per UTC day from First on, days without visits included

	// Texts holds each domain's dictionary. Index 0 is the empty text, which means none.
	Texts [fieldCount][]string

	// Columns holds the field's index into Texts for each row of its table.
	Columns [fieldCount]Column

	// One entry per visit, sorted by day, visitor and start.
	New       []uint8  // 1 for the first visit of a visitor's day
	Start     []uint32 // seconds since First 00:00 UTC
	Engaged   []uint32 // time in view of all its page views, ms
	Bounced   []uint8  // 1: one page view, only automatic events, less than 10 s in view
	ViewsEnd  []uint32 // index after its last page view
	EventsEnd []uint32 // index after its last event

	// One entry per page view, in order of time within its visit.
	ViewAt      []uint32 // seconds since First 00:00 UTC
	ViewEngaged []uint32 // time in view, ms
	Scroll      []uint8  // percent; 0: none reported

	// One entry per event, in order of time within its visit.
	EventAt  []uint32 // seconds since First 00:00 UTC
	Value    []int64  // in millionths of the currency's unit; negative for a refund
	PropsEnd []uint32 // index after its last property
	Before   Column   // page views of its visit before it, those of its microsecond included

	// The numbers of properties with the value Other and a name of their own, in order. Both are
	// empty in segments without such properties.
	NumbersEnd []uint32 // by event: index after its last number
	Numbers    []Number
}

// Day counts the rows of one UTC day.
type Day struct {
	Visits, Views, Events uint32
}

// Column is a sequence of dictionary indexes in the narrowest of three widths. At most one slice is
// set.
type Column struct {
	U8  []uint8
	U16 []uint16
	U32 []uint32
}

// At returns the index in row i.
func (c *Column) At(i int) uint32 {
	switch {
	case c.U8 != nil:
		return uint32(c.U8[i])
	case c.U16 != nil:
		return uint32(c.U16[i])
	default:
		return c.U32[i]
	}
}

// Len returns the number of rows.
func (c *Column) Len() int { return len(c.U8) + len(c.U16) + len(c.U32) }

// newColumn packs indexes below n into the narrowest width.
func newColumn(ids []uint32, n int) Column {
	switch {
	case n <= 1<<8:
		return Column{U8: narrow[uint8](ids)}
	case n <= 1<<16:
		return Column{U16: narrow[uint16](ids)}
	default:
		return Column{U32: ids}
	}
}

func narrow[T uint8 | uint16](ids []uint32) []T {
	to := make([]T, len(ids))
	for i, id := range ids {
		to[i] = T(id)
	}
	return to
}

// Views returns the range of page views of visit i.
func (s *Segment) Views(i int) (from, to uint32) { return rangeOf(s.ViewsEnd, i) }

// Events returns the range of events of visit i.
func (s *Segment) Events(i int) (from, to uint32) { return rangeOf(s.EventsEnd, i) }

// Props returns the range of properties of event i.
func (s *Segment) Props(i int) (from, to uint32) { return rangeOf(s.PropsEnd, i) }

func rangeOf(ends []uint32, i int) (from, to uint32) {
	if i > 0 {
		from = ends[i-1]
	}
	return from, ends[i]
}

// Text returns the text of a field in row i.
func (s *Segment) Text(f Field, i int) string {
	return s.Texts[f.Domain()][s.Columns[f].At(i)]
}

// Total adds up the days.
func (s *Segment) Total() (total Day) {
	for _, d := range s.Days {
		total.Visits += d.Visits
		total.Views += d.Views
		total.Events += d.Events
	}
	return total
}
