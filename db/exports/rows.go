package exports

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"strconv"
	"strings"

	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/rawrows"
	"github.com/tallygate/tallygate/db/tables"
)

// Pageview is a page view with everything stored about it and its visit.
type Pageview struct {
	At         model.Instant
	ID         int64 // the page view id
	Path       string
	Language   string // empty if unknown
	WidthRange int16  // see model.WidthRangeName
	EngagedMS  int32
	Scroll     int16
	Manual     bool // sent by the page's own call, not automatically by the script
	Visit
}

// Event is an event with everything stored about it and its visit.
type Event struct {
	At            model.Instant
	ID            int64
	Name          string
	Path          string
	Value         *model.Money // negative for a refund; nil: the event has no value
	Currency      string       // empty: the event has no value
	TransactionID string       // of a purchase or refund; otherwise empty
	Properties    string       // JSON object; may be empty
	Visit
}

// Visit holds the columns of a row's visit.
type Visit struct {
	Visitor        model.VisitorID
	N              int16 // number of the visit among the visitor's visits of the day
	StartedAt      model.Instant
	LastPageviewAt model.Instant // meaningless while Pageviews is 0
	Pageviews      int32
	Channel        model.Channel
	Client         model.Client
	UserID         []byte // may be empty
	Referrer       string
	model.Campaign
}

// ID returns an id of the visit that is unique among all sites and days. Callers compare ids and
// read nothing from them.
func (v *Visit) ID() string {
	day, n := strconv.FormatInt(int64(v.StartedAt.Day()), 36), strconv.FormatInt(int64(v.N), 36)
	return day + hex.EncodeToString(v.Visitor[:]) + n
}

// exported is a table with exported rows. Each row has its visit.
type exported[Row any] struct {
	table      string
	own        columns[Row] // of the table
	visit      func(*Row) *Visit
	cursor     func(*Row) Cursor
	bytes      func(*Row) int                         // of the texts that are not the visit's
	setEngaged func(row *Row, ms int32, scroll int16) // nil: the rows have no engagement
}

// columns are columns of a table, each with its reader.
type columns[Row any] struct {
	names []string
	read  []reader[Row]
}

// reader reads one column of the current row.
type reader[Row any] func(to *Row, from rawrows.Row, column int)

// readers are readers by the names of their columns.
type readers[Row any] map[string]reader[Row]

// The exported columns follow db/tables, so that a new column is exported too: without a reader or
// an exception here, the program does not start.
var (
	exportedPageviews = newExported(exported[Pageview]{
		table:      tables.Pageviews.Name,
		visit:      func(p *Pageview) *Visit { return &p.Visit },
		cursor:     func(p *Pageview) Cursor { return Cursor{At: p.At, ID: p.ID} },
		bytes:      func(p *Pageview) int { return len(p.Path) + len(p.Language) },
		setEngaged: func(p *Pageview, ms int32, scroll int16) { p.EngagedMS, p.Scroll = ms, scroll },
	}, tables.Pageviews.Columns.Without("site_id").Names(), readers[Pageview]{
		"at":          func(p *Pageview, r rawrows.Row, i int) { p.At = model.Instant(r.Int64(i)) },
		"id":          func(p *Pageview, r rawrows.Row, i int) { p.ID = r.Int64(i) },
		"width_range": func(p *Pageview, r rawrows.Row, i int) { p.WidthRange = int16(r.Int64(i)) },
		"manual":      func(p *Pageview, r rawrows.Row, i int) { p.Manual = r.Int64(i) != 0 },
		"path":        func(p *Pageview, r rawrows.Row, i int) { p.Path = string(r.Bytes(i)) },
		"language":    func(p *Pageview, r rawrows.Row, i int) { p.Language = string(r.Bytes(i)) },
	})

	exportedEvents = newExported(exported[Event]{
		table:  tables.Events.Name,
		visit:  func(e *Event) *Visit { return &e.Visit },
		cursor: func(e *Event) Cursor { return Cursor{At: e.At, ID: e.ID} },
		bytes: func(e *Event) int {
			return len(e.Name) + len(e.Path) + len(e.Currency) + len(e.TransactionID) + len(e.Properties)
		},
	}, tables.Events.Columns.Without("site_id").Names(), readers[Event]{
		"at":             func(e *Event, r rawrows.Row, i int) { e.At = model.Instant(r.Int64(i)) },
		"id":             func(e *Event, r rawrows.Row, i int) { e.ID = r.Int64(i) },
		"name":           func(e *Event, r rawrows.Row, i int) { e.Name = string(r.Bytes(i)) },
		"path":           func(e *Event, r rawrows.Row, i int) { e.Path = string(r.Bytes(i)) },
		"currency":       func(e *Event, r rawrows.Row, i int) { e.Currency = string(r.Bytes(i)) },
		"transaction_id": func(e *Event, r rawrows.Row, i int) { e.TransactionID = string(r.Bytes(i)) },
		"properties":     func(e *Event, r rawrows.Row, i int) { e.Properties = string(r.Bytes(i)) },
		"value": func(e *Event, r rawrows.Row, i int) {
			if !r.IsNull(i) {
				value := model.Money(r.Int64(i))
				e.Value = &value
			}
		},
	})

	// exportedVisits are the columns of a visit that are not in its rows too. The other exceptions
	// only decide which visit a hit belongs to.
	exportedVisits = newColumns(
		tables.Visits.Columns.Without("site_id", "day", "visitor", "n", "recent", "awaited", "viewed").Names(),
		visitReaders)
)

var visitReaders = readers[Visit]{
	"visitor":          func(v *Visit, r rawrows.Row, i int) { binary.BigEndian.PutUint64(v.Visitor[:], uint64(r.Int64(i))) },
	"n":                func(v *Visit, r rawrows.Row, i int) { v.N = int16(r.Int64(i)) },
	"started_at":       func(v *Visit, r rawrows.Row, i int) { v.StartedAt = model.Instant(r.Int64(i)) },
	"last_pageview_at": func(v *Visit, r rawrows.Row, i int) { v.LastPageviewAt = model.Instant(r.Int64(i)) },
	"pageviews":        func(v *Visit, r rawrows.Row, i int) { v.Pageviews = int32(r.Int64(i)) },
	"channel":          func(v *Visit, r rawrows.Row, i int) { v.Channel = model.ChannelOf(int16(r.Int64(i))) },
	"attribution": func(v *Visit, r rawrows.Row, i int) {
		v.Referrer, v.Campaign = model.UnpackAttribution(string(r.Bytes(i)))
	},
	"client": func(v *Visit, r rawrows.Row, i int) { v.Client = model.UnpackClient(string(r.Bytes(i))) },
	"user_id": func(v *Visit, r rawrows.Row, i int) {
		if id := r.Bytes(i); len(id) > 0 {
			v.UserID = bytes.Clone(id)
		}
	},
}

// newExported adds the table's columns, including the visit's key.
func newExported[Row any](e exported[Row], names []string, own readers[Row]) exported[Row] {
	for name, read := range visitReaders {
		if own[name] == nil {
			own[name] = func(to *Row, from rawrows.Row, column int) { read(e.visit(to), from, column) }
		}
	}

	e.own = newColumns(names, own)
	return e
}

func newColumns[Row any](names []string, by readers[Row]) columns[Row] {
	c := columns[Row]{names: names}
	for _, name := range names {
		read := by[name]
		if read == nil {
			panic("exports: the column " + name + " has no reader")
		}
		c.read = append(c.read, read)
	}
	return c
}

// list returns the names of the columns, separated by commas, each with a prefix such as "v.".
func (c *columns[Row]) list(prefix string) string {
	return prefix + strings.Join(c.names, ", "+prefix)
}

// scan reads the columns of the current row. The first column has the number first.
func (c *columns[Row]) scan(to *Row, from rawrows.Row, first int) {
	for i, read := range c.read {
		read(to, from, first+i)
	}
}
