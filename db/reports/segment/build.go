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
	return cmp.Or(bytes.Compare(k.Visitor[:], other.Visitor[:]), cmp.Compare(k.N, other.N))
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

// Build makes the segment of one day. It sorts the slices of rows. A page view or event whose visit
// is missing is an error: the caller read an inconsistent state.
func Build(rows Rows) (*Segment, error) {
	b := newBuilder(rows.Day)
	sortRows(rows)

	v, e := rows.Views, rows.Events
	for i := range rows.Visits {
		visit := &rows.Visits[i]

		viewCount, err := ownRows(v, visit, func(v *View) *VisitKey { return &v.VisitKey })
		if err != nil {
			return nil, fmt.Errorf("page view: %w", err)
		}

		eventCount, err := ownRows(e, visit, func(e *Event) *VisitKey { return &e.VisitKey })
		if err != nil {
			return nil, fmt.Errorf("event: %w", err)
		}

		b.newVisitor = i == 0 || rows.Visits[i-1].Visitor != visit.Visitor
		b.user = userOf(rows.Visits, i)
		b.add(visit, v[:viewCount], e[:eventCount])
		v, e = v[viewCount:], e[eventCount:]
	}

	if len(v)+len(e) > 0 {
		return nil, errNoVisit
	}
	return b.segment(), nil
}

var errNoVisit = fmt.Errorf("its visit is missing")

// sortRows sorts visits by visitor and number, which is the order of their starts, and what belongs
// to them by visit, time and id.
func sortRows(rows Rows) {
	slices.SortFunc(rows.Visits, func(a, b Visit) int { return a.compare(&b.VisitKey) })
	slices.SortFunc(rows.Views, func(a, b View) int {
		return cmp.Or(a.compare(&b.VisitKey), cmp.Compare(a.At, b.At), cmp.Compare(a.ID, b.ID))
	})
	slices.SortFunc(rows.Events, func(a, b Event) int {
		return cmp.Or(a.compare(&b.VisitKey), cmp.Compare(a.At, b.At), cmp.Compare(a.ID, b.ID))
	})
}

// ownRows counts the first rows that belong to the visit. A row of an earlier visit is an error.
func ownRows[Row any](rows []Row, visit *Visit, key func(*Row) *VisitKey) (int, error) {
	for i := range rows {
		switch c := key(&rows[i]).compare(&visit.VisitKey); {
		case c < 0:
			return 0, errNoVisit
		case c > 0:
			return i, nil
		}
	}
	return len(rows), nil
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

// put appends the text of a field's next row.
func (b *builder) put(f Field, text string) {
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
func (b *builder) add(v *Visit, views []View, events []Event) {
	s := b.s
	own, engaged := false, int64(0)

	for i := range events {
		b.addEvent(&events[i])
		own = own || !model.IsAutomaticEvent(events[i].Name)
	}
	for i := range views {
		b.addView(&views[i])
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
func (b *builder) putAttributes(v *Visit, views []View) {
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
		first, last = views[0], views[len(views)-1]
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
