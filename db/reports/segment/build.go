package segment

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/tallygate/tallygate/db/model"
)

// BounceBelow is the time in view from which a visit with one page view is no bounce.
const BounceBelow = 10 * time.Second

// Rows are the stored rows of one site and UTC day, in any order.
type Rows struct {
	Day    model.Day
	Visits []Visit
	Views  []View
	Events []Event
}

// VisitKey names a visit of the day: the visitor's n-th.
type VisitKey struct {
	Visitor model.VisitorID
	N       int16
}

func (k *VisitKey) compare(other *VisitKey) int {
	if c := bytes.Compare(k.Visitor[:], other.Visitor[:]); c != 0 {
		return c
	}
	return cmp.Compare(k.N, other.N)
}

// Visit is a stored visit.
type Visit struct {
	VisitKey
	StartedAt model.Instant
	UserID    string // keyed hash, 16 bytes; empty for none
	Channel   string
	Referrer  string // host and path; empty for none
	model.Campaign
}

// View is a stored page view.
type View struct {
	VisitKey
	At        model.Instant
	ID        int64 // breaks ties of At
	Path      string
	Language  string
	Width     int16 // see model.WidthRangeName
	EngagedMS int32
	Scroll    int16
}

// Event is a stored event.
type Event struct {
	VisitKey
	At         model.Instant
	ID         int64 // breaks ties of At
	Name       string
	Path       string
	Value      model.Money
	Currency   string // empty: the event has no value
	Properties string // JSON object; empty for none
}

// Build makes the segment of one day. It sorts the slice of visits. A page view or event whose visit
// is missing is an error: the caller read an inconsistent state.
func Build(rows Rows) (*Segment, error) {
	b := newBuilder(rows.Day)
	visits := rows.Visits
	sortVisits(visits)

	numbers := make(map[VisitKey]int32, len(visits))
	for i := range visits {
		numbers[visits[i].VisitKey] = int32(i)
	}
	views, err := groupRows(rows.Views, numbers, func(v *View) (VisitKey, model.Instant, int64) { return v.VisitKey, v.At, v.ID })
	if err != nil {
		return nil, fmt.Errorf("page view: %w", err)
	}
	events, err := groupRows(rows.Events, numbers, func(e *Event) (VisitKey, model.Instant, int64) { return e.VisitKey, e.At, e.ID })
	if err != nil {
		return nil, fmt.Errorf("event: %w", err)
	}

	b.grow(len(visits), len(rows.Views), len(rows.Events))
	for i := range visits {
		b.newVisitor = i == 0 || visits[i-1].Visitor != visits[i].Visitor
		b.user = userOf(visits, i)
		b.add(&visits[i], views.of(i), events.of(i))
	}
	return b.segment(), nil
}

var errNoVisit = fmt.Errorf("its visit is missing")

// sortVisits sorts visits by visitor and number, which is the order of their starts.
func sortVisits(visits []Visit) {
	byKey := func(a, b Visit) int { return a.compare(&b.VisitKey) }
	if !slices.IsSortedFunc(visits, byKey) {
		slices.SortFunc(visits, byKey)
	}
}

// grouped are rows in the order of their visits and, within a visit, of time and id.
type grouped[Row any] struct {
	rows []*Row
	ends []int32 // by visit
}

// of returns the rows of a visit.
func (g *grouped[Row]) of(visit int) []*Row {
	from := int32(0)
	if visit > 0 {
		from = g.ends[visit-1]
	}
	return g.rows[from:g.ends[visit]]
}

// groupRows groups rows by their visits' numbers. Rows that come in the order of time, as those of
// the database do, cost no sorting.
func groupRows[Row any](
	rows []Row, numbers map[VisitKey]int32, key func(*Row) (VisitKey, model.Instant, int64),
) (*grouped[Row], error) {
	g := &grouped[Row]{make([]*Row, len(rows)), make([]int32, len(numbers))}

	visitOf := make([]int32, len(rows))
	for i := range rows {
		visit, _, _ := key(&rows[i])
		number, ok := numbers[visit]
		if !ok {
			return nil, errNoVisit
		}
		visitOf[i] = number
		g.ends[number]++
	}

	// First ends holds where each visit begins, and at last where it ends.
	begin := int32(0)
	for i, count := range g.ends {
		g.ends[i] = begin
		begin += count
	}
	for i := range rows {
		at := &g.ends[visitOf[i]]
		g.rows[*at] = &rows[i]
		*at++
	}

	byTime := func(a, b *Row) int {
		_, atA, idA := key(a)
		_, atB, idB := key(b)
		return cmp.Or(cmp.Compare(atA, atB), cmp.Compare(idA, idB))
	}
	for i := range g.ends {
		if own := g.of(i); len(own) > 1 && !slices.IsSortedFunc(own, byTime) {
			slices.SortFunc(own, byTime)
		}
	}
	return g, nil
}

// userOf returns the user id that visit i counts by: its own, or else that of the nearest visit of
// the same visitor, an earlier one first. So a person who signs in between two visits counts once.
func userOf(visits []Visit, i int) string {
	visitor := visits[i].Visitor

	for j := i; j >= 0 && visits[j].Visitor == visitor; j-- {
		if visits[j].UserID != "" {
			return visits[j].UserID
		}
	}
	for j := i + 1; j < len(visits) && visits[j].Visitor == visitor; j++ {
		if visits[j].UserID != "" {
			return visits[j].UserID
		}
	}
	return ""
}

// builder collects the columns of a segment at full width.
type builder struct {
	s          *Segment
	dictionary [fieldCount]map[string]uint32 // by domain
	columns    [fieldCount][]uint32
	newVisitor bool   // of the visit that is added next
	user       string // of the visit that is added next
}

func newBuilder(first model.Day) *builder {
	b := &builder{s: &Segment{First: first, Days: make([]Day, 1)}}
	for f := range fieldCount {
		if f.Domain() == f {
			b.dictionary[f] = map[string]uint32{"": 0}
			b.s.Texts[f] = []string{""}
		}
	}
	return b
}

// grow makes room for the rows of each table.
func (b *builder) grow(visitCount, viewCount, eventCount int) {
	rows := [tableCount]int{visits: visitCount, views: viewCount, events: eventCount}
	for f := range fieldCount {
		b.columns[f] = make([]uint32, 0, rows[f.table()])
	}
	for _, column := range []*[]uint32{&b.s.Start, &b.s.Engaged, &b.s.ViewsEnd, &b.s.EventsEnd} {
		*column = make([]uint32, 0, visitCount)
	}
	for _, column := range []*[]uint32{&b.s.ViewAt, &b.s.ViewEngaged} {
		*column = make([]uint32, 0, viewCount)
	}
}

// put appends the text of a field's next row.
func (b *builder) put(f Field, text string) {
	if text == "" {
		b.columns[f] = append(b.columns[f], 0)
		return
	}

	domain := f.Domain()
	id, known := b.dictionary[domain][text]
	if !known {
		id = uint32(len(b.s.Texts[domain]))
		b.dictionary[domain][text] = id
		b.s.Texts[domain] = append(b.s.Texts[domain], text)
	}

	b.columns[f] = append(b.columns[f], id)
}

// add appends a visit with its page views and events.
func (b *builder) add(v *Visit, views []*View, events []*Event) {
	s := b.s
	own, engaged := false, int64(0)

	for i := range events {
		b.addEvent(events[i])
		own = own || !model.IsAutomaticEvent(events[i].Name)
	}
	for i := range views {
		b.addView(views[i])
		engaged += int64(views[i].EngagedMS)
	}

	s.New = append(s.New, bit(b.newVisitor))
	s.Start = append(s.Start, b.second(v.StartedAt))
	s.Engaged = append(s.Engaged, uint32(min(engaged, math.MaxUint32)))
	s.Bounced = append(s.Bounced, bit(len(views) == 1 && !own && engaged < BounceBelow.Milliseconds()))
	s.ViewsEnd = append(s.ViewsEnd, uint32(len(s.ViewAt)))
	s.EventsEnd = append(s.EventsEnd, uint32(len(s.EventAt)))

	s.Days[0].Visits++
	s.Days[0].Views += uint32(len(views))
	s.Days[0].Events += uint32(len(events))
	b.putAttributes(v, views)
}

// putAttributes appends the texts of a visit.
func (b *builder) putAttributes(v *Visit, views []*View) {
	b.put(Channel, v.Channel)
	b.put(Source, sourceOf(v))
	b.put(Referrer, v.Referrer)
	b.put(UTMSource, v.Source)
	b.put(UTMMedium, v.Medium)
	b.put(UTMCampaign, v.Name)
	b.put(UTMContent, v.Content)
	b.put(UTMTerm, v.Term)
	b.put(ClickID, platformOf(&v.Campaign))
	b.put(User, b.user)

	// A visit that only events opened has no page view.
	var first, last View
	first.Width = model.UnknownWidth
	if len(views) > 0 {
		first, last = *views[0], *views[len(views)-1]
	}

	b.put(Language, first.Language)
	b.put(Width, model.WidthRangeName(first.Width))
	b.put(Entry, first.Path)
	b.put(Exit, last.Path)
}

func (b *builder) addView(v *View) {
	b.put(Path, v.Path)
	b.s.ViewAt = append(b.s.ViewAt, b.second(v.At))
	b.s.ViewEngaged = append(b.s.ViewEngaged, uint32(max(v.EngagedMS, 0)))
	b.s.Scroll = append(b.s.Scroll, uint8(min(max(v.Scroll, 0), 100)))
}

func (b *builder) addEvent(e *Event) {
	b.put(EventName, e.Name)
	b.put(EventPath, e.Path)
	b.put(Currency, e.Currency)
	b.s.EventAt = append(b.s.EventAt, b.second(e.At))
	b.s.Value = append(b.s.Value, int64(e.Value))

	for _, p := range flatProperties(e.Properties) {
		b.put(PropName, p.name)
		b.put(PropValue, p.value)
	}
	b.s.PropsEnd = append(b.s.PropsEnd, uint32(len(b.columns[PropName])))
}

// second returns the whole seconds since the segment's first midnight.
func (b *builder) second(at model.Instant) uint32 {
	return uint32(max(0, at.Sub(b.s.First.Start())/time.Second))
}

// segment packs the columns and returns the segment. The builder must not be used again.
func (b *builder) segment() *Segment {
	for f := range fieldCount {
		b.s.Columns[f] = newColumn(b.columns[f], len(b.s.Texts[f.Domain()]))
	}
	return b.s
}

func bit(set bool) uint8 {
	if set {
		return 1
	}
	return 0
}

// sourceOf returns utm_source or, without one, the referring host.
func sourceOf(v *Visit) string {
	if v.Source != "" {
		return v.Source
	}
	host, _, _ := strings.Cut(v.Referrer, "/")
	return host
}

// platformOf returns the ad platform whose click id the visit carried. Meta's counts last, because
// it is on unpaid links too.
func platformOf(c *model.Campaign) string {
	switch {
	case c.Gclid != "" || c.Gbraid != "" || c.Wbraid != "":
		return "google"
	case c.Msclkid != "":
		return "bing"
	case c.Fbclid != "":
		return "facebook"
	default:
		return ""
	}
}

// property is a flat property as text.
type property struct {
	name, value string
}

// flatProperties lists the properties whose value is a text, a number, true or false, by name.
// Lists and objects are not broken down (analytics contract, section 2).
func flatProperties(object string) []property {
	if object == "" {
		return nil
	}

	var members map[string]json.RawMessage
	if json.Unmarshal([]byte(object), &members) != nil {
		return nil
	}

	list := make([]property, 0, len(members))
	for name, raw := range members {
		if value, ok := flatValue(raw); ok {
			list = append(list, property{name, value})
		}
	}

	slices.SortFunc(list, func(a, b property) int { return cmp.Compare(a.name, b.name) })
	return list
}

// flatValue returns a text without its quotes and a number, true or false as stored.
func flatValue(raw json.RawMessage) (string, bool) {
	switch raw[0] {
	case '{', '[', 'n':
		return "", false
	case '"':
		var text string
		err := json.Unmarshal(raw, &text)
		return text, err == nil
	default:
		return string(raw), true
	}
}
