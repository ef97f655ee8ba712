package importer

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/reports/scan"
	"github.com/tallygate/tallygate/db/reports/segment"
)

// visitGap is the time between two hits from which the second one begins a new visit (analytics
// contract, section 1), where the export does not identify visits.
const visitGap = 30 * time.Minute

// hit is a page view or event of another service.
type hit struct {
	at       model.Instant
	session  uint32 // who: its number among all sessions
	visit    uint32 // its number among all visits; 0 if the export does not identify visits
	path     string // of an event: empty, for the page viewed last
	event    string // empty for a page view
	language string
	width    int16
	origin   *origin
	client   *model.Client
}

// origin is where a visit came from.
type origin struct {
	channel  string
	referrer string // host and path
	campaign model.Campaign
}

// hits collects the page views and events of an export by UTC day.
type hits struct {
	filter  *dayFilter
	byDay   map[model.Day][]hit
	n       int
	names   map[string]uint32 // of sessions and visits
	texts   map[string]string // each text once
	origins map[origin]*origin
	clients map[rawClient]*model.Client
	files   []span // of the files read
	file    span   // of the current one
	alone   int    // sessions of a day that have events alone
}

// span is the first and the last time of the rows of a file.
type span struct {
	name        string
	first, last model.Instant
}

// extend extends the span of the current file to a time.
func (h *hits) extend(at model.Instant) {
	if h.file.first == 0 || at < h.file.first {
		h.file.first = at
	}
	h.file.last = max(h.file.last, at)
}

// apart ends the current file. It fails if an earlier file has rows of the same time, because rows
// have no ids by which a page view in both files could be recognised. A file can begin in the
// second in which another one ends.
func (h *hits) apart(t *table) error {
	one := h.file
	one.name, h.file = t.name, span{}
	if t.rows == 0 {
		return nil
	}

	for _, other := range h.files {
		from, to := max(one.first, other.first), min(one.last, other.last)
		if from < to || one.first == other.first && one.last == other.last {
			return placed(model.Damaged(model.FaultRepeatedDays, model.ImportValues{
				Name: other.name, First: from.Day(), Last: to.Day(),
				Value: fmt.Sprintf("rows from %s to %s", from.Time().Format(time.DateTime), to.Time().Format(time.DateTime)),
			}), t.name, 0)
		}
	}
	h.files = append(h.files, one)
	return nil
}

func newHits(days *dayFilter) *hits {
	return &hits{
		filter: days, byDay: make(map[model.Day][]hit), names: make(map[string]uint32), texts: make(map[string]string),
		origins: make(map[origin]*origin), clients: make(map[rawClient]*model.Client),
	}
}

// text returns a text that is shared with equal texts and holds no row of the file in memory.
func (h *hits) text(text string) string {
	if shared, ok := h.texts[text]; ok || text == "" {
		return shared
	}
	text = strings.Clone(text)
	h.texts[text] = text
	h.filter.spend(textBytes + len(text))
	return text
}

// number returns the number of a session or visit, from 1.
func (h *hits) number(name string) uint32 {
	if n, ok := h.names[name]; ok {
		return n
	}
	n := uint32(len(h.names) + 1)
	h.names[strings.Clone(name)] = n
	h.filter.spend(textBytes + len(name))
	return n
}

// originOf returns an origin that is shared with equal origins.
func (h *hits) originOf(o origin) *origin {
	if shared, ok := h.origins[o]; ok {
		return shared
	}
	for _, text := range []*string{
		&o.referrer, &o.campaign.Source, &o.campaign.Medium, &o.campaign.Name, &o.campaign.Content, &o.campaign.Term,
	} {
		*text = h.text(*text)
	}
	h.origins[o] = &o
	h.filter.spend(originBytes)
	return &o
}

// clientOf returns what a visit keeps of a browser. Equal browsers share it.
func (h *hits) clientOf(raw rawClient) *model.Client {
	if shared, ok := h.clients[raw]; ok {
		return shared
	}
	for _, text := range []*string{&raw.country, &raw.browser, &raw.system, &raw.device, &raw.host} {
		*text = h.text(*text)
	}
	c := raw.client()
	h.clients[raw] = c
	h.filter.spend(clientBytes)
	return c
}

// keeps reports whether a hit of a time is imported.
func (h *hits) keeps(at model.Instant) bool { return h.filter.keeps(at.Day(), true) }

// add adds a hit that is kept.
func (h *hits) add(one hit) error {
	if h.n++; h.n > model.MaxImportRows {
		return tooLarge("more than %d page views and events. Import parts of the export, by days", model.MaxImportRows)
	}
	h.filter.spend(hitBytes)
	if err := h.filter.fits(); err != nil {
		return err
	}
	day := one.at.Day()
	h.byDay[day] = append(h.byDay[day], one)
	return nil
}

// finish builds the visits of each day.
func (h *hits) finish(r *Result) error {
	days := make([]model.Day, 0, len(h.byDay))
	for day := range h.byDay {
		days = append(days, day)
	}
	slices.Sort(days)
	if len(days) == 0 {
		return nil
	}
	r.Days, r.First, r.Last = len(days), days[0], days[len(days)-1]

	total := scan.New(&scan.Query{Zone: time.UTC, From: scan.DateOfNumber(r.First), To: scan.DateOfNumber(r.Last)})
	for _, day := range days {
		if err := h.filter.ctx.Err(); err != nil {
			return err
		}
		rows, err := dayRows(day, h.byDay[day])
		if err != nil {
			return err
		}
		h.alone += eventsAlone(rows)
		g, err := segment.Build(*rows)
		if err != nil {
			return err
		}
		if err := total.Add(g); err != nil {
			return err
		}
		r.Visits = append(r.Visits, g)
		delete(h.byDay, day)
	}
	r.Totals = total.Result().Totals
	if h.alone > 0 {
		r.Notes = append(r.Notes, model.ImportNote{Code: model.NoteEventsAlone, Count: int64(h.alone)})
	}
	return nil
}

// eventsAlone returns the number of sessions without a page view.
func eventsAlone(rows *segment.Rows) int {
	viewed := make(map[model.VisitorID]bool)
	for i := range rows.Views {
		viewed[rows.Views[i].Visitor] = true
	}

	n := 0
	for i := range rows.Visits {
		if v := &rows.Visits[i]; v.N == 1 && !viewed[v.Visitor] {
			n++
		}
	}
	return n
}

// dayRows groups the hits of a UTC day by visit. A visit ends with its day.
func dayRows(day model.Day, list []hit) (*segment.Rows, error) {
	slices.SortStableFunc(list, func(a, b hit) int {
		return cmp.Or(cmp.Compare(a.session, b.session), cmp.Compare(a.at, b.at))
	})

	d := &dayBuilder{rows: &segment.Rows{Day: day}}
	for i := range list {
		if err := d.add(&list[i], int64(i)); err != nil {
			return nil, err
		}
	}
	return d.rows, nil
}

// dayBuilder builds the rows of a day from hits in order of session and time.
type dayBuilder struct {
	rows    *segment.Rows
	session uint32
	last    model.Instant  // of the session
	visits  map[uint32]int // of the session: from the number of a visit to its place in rows
	count   int            // visits of the session
	open    int            // the place of the latest visit in rows
	pages   map[int]string // of the session: the page viewed last in a visit
}

func (d *dayBuilder) add(h *hit, id int64) error {
	fresh := h.session != d.session
	if fresh {
		d.session, d.count = h.session, 0
		d.visits, d.pages = make(map[uint32]int), make(map[int]string)
	}

	// Without numbers of visits a pause ends a visit.
	place, known := d.open, !fresh && h.at.Sub(d.last) < visitGap
	if h.visit != 0 {
		place, known = d.visits[h.visit]
	}
	if !known {
		if d.count++; d.count > math.MaxInt16 {
			return model.Damaged(model.FaultManyVisits, model.ImportValues{Limit: math.MaxInt16})
		}
		place = len(d.rows.Visits)
		d.visits[h.visit] = place
		d.rows.Visits = append(d.rows.Visits, newVisit(h, int16(d.count)))
	}
	d.open, d.last = place, h.at

	key := d.rows.Visits[place].VisitKey
	if h.event == "" {
		d.pages[place] = h.path
		d.rows.Views = append(d.rows.Views, segment.View{
			VisitKey: key, At: h.at, ID: id, Path: h.path, Language: h.language, Width: h.width,
		})
		return nil
	}

	// An event without a path belongs to the page viewed last.
	path := cmp.Or(h.path, d.pages[place], "/")
	d.rows.Events = append(d.rows.Events, segment.Event{VisitKey: key, At: h.at, ID: id, Name: h.event, Path: path})
	return nil
}

// newVisit returns the n-th visit of a session, which begins with a hit.
func newVisit(h *hit, n int16) segment.Visit {
	v := segment.Visit{
		StartedAt: h.at, Channel: h.origin.channel, Referrer: h.origin.referrer, Campaign: h.origin.campaign, Client: *h.client,
	}
	binary.BigEndian.PutUint32(v.Visitor[:], h.session)
	v.N = n
	return v
}
