package segment

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"math"
	"slices"

	"github.com/tallygate/tallygate/db/model"
)

// ErrTooLarge is returned for rows that need more memory than the budget of a build.
var ErrTooLarge = errors.New("segment: the rows need more memory than a build may use")

// errNoVisit is returned for a page view or event without its visit.
var errNoVisit = errors.New("segment: its visit is missing")

// DayBuilder collects the rows of one site and UTC day in a compact form: texts are numbers, and a
// row has 40 to 48 bytes. Visits must be added before their page views and events.
type DayBuilder struct {
	*vocabulary
	day    model.Day
	budget int // bytes; 0: any
	census *census
	reader propertyReader
	err    error

	visitOf map[VisitKey]int32 // place in visits
	origins []origin
	known   map[origin]Origin
	clients []client
	met     map[client]Client

	visits []visitRow
	views  []viewRow
	events []eventRow
	props  []propertyRow

	// The numbers of properties that isNumbered: their rows have numberFlag plus the index here as
	// their value.
	numbers []Number
}

// numberFlag marks the values of rows with a number. Numbers of texts are lower.
const numberFlag Text = 1 << 31

// Origin is where a visit came from, a number of the DayBuilder.
type Origin int32

// origin is what a visit's referrer and campaign say.
type origin struct {
	source, group, referrer, utmSource, medium, campaign, content, term, clickID Text
}

// Client is what a visit keeps of its browser, a number of the DayBuilder.
type Client int32

type client struct {
	country, browser, system, device, host Text
}

type visitRow struct {
	key       VisitKey
	origin    Origin
	client    Client
	user      Text
	channel   Text
	startedAt model.Instant
}

type viewRow struct {
	at             model.Instant
	id             int64 // breaks ties of at
	visit          int32
	path, language Text
	engagedMS      int32
	width, scroll  int16
}

type eventRow struct {
	at                   model.Instant
	id                   int64 // breaks ties of at
	value                int64
	visit                int32
	name, path, currency Text
	props                uint32 // its first property
	propCount            uint8
}

// BuildDay makes the segment of one day. read adds all rows to the builder and returns the
// builder's error as soon as there is one. It is called once, and three times for rows with more
// texts than DayLimits permit: to notice it, to count the texts, and to build with the most
// frequent ones. The rows and their order must be the same each time. budget bounds the memory of
// the build, in bytes; 0 means no bound. Rows that need more are ErrTooLarge.
func BuildDay(ctx context.Context, day model.Day, budget int, read func(*DayBuilder) error) (*Segment, error) {
	return buildDay(ctx, day, DayLimits, budget, read)
}

func buildDay(
	ctx context.Context, day model.Day, limits Limits, budget int, read func(*DayBuilder) error,
) (*Segment, error) {
	d := newDayBuilder(day, limits, nil, budget)
	err := read(d)
	if errors.Is(err, errFull) {
		counting := newDayBuilder(day, limits, nil, budget)
		counting.census = newCensus(limits)
		if err := read(counting); err != nil {
			return nil, err
		}
		d = newDayBuilder(day, limits, counting.census.keep(), budget)
		err = read(d)
	}
	if err != nil {
		return nil, err
	}
	return d.build(ctx)
}

func newDayBuilder(day model.Day, limits Limits, kept *kept, budget int) *DayBuilder {
	return &DayBuilder{
		vocabulary: newVocabulary(limits, kept), day: day, budget: budget,
		visitOf: make(map[VisitKey]int32), known: make(map[origin]Origin), met: make(map[client]Client),
	}
}

// Err returns why no more rows are to be added, or nil. The caller returns it from read.
func (d *DayBuilder) Err() error { return d.err }

// Grow makes room for page views.
func (d *DayBuilder) Grow(pageviews int) {
	if d.census == nil {
		d.views = make([]viewRow, 0, pageviews)
	}
}

// text numbers a text of a field, or counts it during a census.
func (d *DayBuilder) text(f Field, text []byte) Text {
	if d.census != nil {
		d.census.add(f, string(text), 1)
		return 0
	}
	return d.ofBytes(f, text)
}

// Client returns the number of what a visit keeps of its browser. Equal visits may share a number,
// as in Origin.
func (d *DayBuilder) Client(c *model.Client) Client {
	text := func(f Field, text string) Text { return d.text(f, []byte(text)) }
	of := client{
		country: text(Country, c.Country), browser: text(Browser, string(c.Browser)), system: text(System, string(c.System)),
		device: text(Device, string(c.Device)), host: text(Host, c.Host),
	}

	n, known := d.met[of]
	if !known {
		n = Client(len(d.clients))
		d.clients = append(d.clients, of)
		d.met[of] = n
	}
	return n
}

// Counts reports whether the builder only counts texts, so that Origin and Client must be called
// for each visit.
func (d *DayBuilder) Counts() bool { return d.census != nil }

// AddVisit adds a visit.
func (d *DayBuilder) AddVisit(
	key VisitKey, startedAt model.Instant, userID []byte, channel string, from Origin, of Client,
) {
	d.visitOf[key] = int32(len(d.visits))
	d.visits = append(d.visits, visitRow{
		key: key, startedAt: startedAt, user: d.text(User, userID), channel: d.text(Channel, []byte(channel)),
		origin: from, client: of,
	})
	d.check()
}

// HasVisit reports whether a visit was added.
func (d *DayBuilder) HasVisit(key VisitKey) bool {
	_, ok := d.visitOf[key]
	return ok
}

// AddView adds a page view and returns its number, for SetEngagement. ok is false for one that is
// left out: without a visit, and each one during a census.
func (d *DayBuilder) AddView(
	key VisitKey, at model.Instant, id int64, path, language []byte, width int16,
) (n int, ok bool) {
	visit, ok := d.visitOf[key]
	if !ok {
		return 0, false
	}

	row := viewRow{at: at, id: id, visit: visit, path: d.text(Path, path), language: d.text(Language, language), width: width}
	if d.census != nil {
		return 0, false
	}
	d.views = append(d.views, row)
	d.check()
	return len(d.views) - 1, true
}

// Views returns the number of page views added.
func (d *DayBuilder) Views() int { return len(d.views) }

// View returns the time and the id of a page view.
func (d *DayBuilder) View(n int) (at model.Instant, id int64) { return d.views[n].at, d.views[n].id }

// SetEngagement sets the time in view and the scroll depth of a page view.
func (d *DayBuilder) SetEngagement(n int, ms int32, scroll int16) {
	d.views[n].engagedMS, d.views[n].scroll = ms, scroll
}

// AddEvent adds an event. properties is a JSON object, or nothing. ok is false for an event without
// a visit, which is left out.
func (d *DayBuilder) AddEvent(
	key VisitKey, at model.Instant, id int64, name, path, currency []byte, value model.Money, properties []byte,
) (ok bool) {
	visit, ok := d.visitOf[key]
	if !ok {
		return false
	}

	row := eventRow{
		at: at, id: id, visit: visit, value: int64(value), props: uint32(len(d.props)),
		name: d.text(EventName, name), path: d.text(Path, path), currency: d.text(Currency, currency),
	}
	if d.census != nil {
		for _, p := range d.reader.read(properties) {
			if value, ok := p.of(); ok {
				d.census.addProperty(p.name, value, 1)
			}
		}
		return true
	}
	row.propCount = d.addProperties(properties)
	d.events = append(d.events, row)
	d.check()
	return true
}

// addProperties adds the properties of an event, and returns how many. All that are Other are one.
func (d *DayBuilder) addProperties(object []byte) (added uint8) {
	other := false
	for _, p := range d.reader.read(object) {
		value, ok := p.of()
		if !ok {
			continue
		}

		row := d.property(p.name, value)
		if d.texts[PropName][row.name] == Other {
			if other {
				continue
			}
			other = true
		}

		// The text of a value without a row of its own is lost, so its number is kept apart.
		if d.isNumbered(row) {
			d.numbers = append(d.numbers, ParseNumber(value))
			row.value = numberFlag + Text(len(d.numbers)-1)
		}
		d.props = append(d.props, row)
		added++
	}

	d.checkProperties()
	return added
}

// The memory of a row in bytes: in the builder, and in the columns that are made of it.
const (
	visitBytes    = 280
	clientBytes   = 130 // of a distinct client, with its place in the map
	viewBytes     = 70
	eventBytes    = 94
	propertyBytes = 24
	numberBytes   = 24

	checkEvery = 1_024 // rows
)

// check notes whether the rows exceed a limit or the budget.
func (d *DayBuilder) check() {
	switch rows := len(d.visits) + len(d.views) + len(d.events); {
	case d.err != nil:
	case d.full && d.kept == nil && d.census == nil:
		d.err = errFull
	case d.budget > 0 && rows%checkEvery == 0 && d.Bytes() > d.budget:
		d.err = ErrTooLarge
	}
}

// Bytes estimates the memory of the build.
func (d *DayBuilder) Bytes() int {
	n := d.vocabulary.bytes() + visitBytes*len(d.visits) + clientBytes*len(d.clients) + viewBytes*len(d.views) + eventBytes*len(d.events) +
		propertyBytes*len(d.props) + numberBytes*len(d.numbers)
	if d.census != nil {
		n += d.census.bytes()
	}
	return n
}

// build makes the segment. The builder must not be used again.
func (d *DayBuilder) build(ctx context.Context) (*Segment, error) {
	order, err := d.order(ctx)
	if err != nil {
		return nil, err
	}
	views := groupRows(order, len(d.views), func(i int32) int32 { return d.views[i].visit })
	events := groupRows(order, len(d.events), func(i int32) int32 { return d.events[i].visit })

	b := newBuilder(d.day)
	b.grow(len(d.visits), len(d.views), len(d.events), len(d.props))
	for n, i := range order {
		if n%checkEvery == 0 && ctx.Err() != nil {
			return nil, ctx.Err()
		}

		ofViews := views.sorted(n, func(a, b int32) int { return byTime(d.views[a].at, d.views[b].at, d.views[a].id, d.views[b].id) })
		ofEvents := events.sorted(n, func(a, b int32) int {
			return byTime(d.events[a].at, d.events[b].at, d.events[a].id, d.events[b].id)
		})
		b.newVisitor = n == 0 || d.visits[order[n-1]].key.Visitor != d.visits[i].key.Visitor
		b.user = d.userOf(order, n)
		d.addTo(b, &d.visits[i], ofViews, ofEvents)
	}
	return b.segment(&d.vocabulary.texts), nil
}

// order returns the places of the visits by visitor and start. Stored numbers of a visitor's visits
// follow the order in which visits were committed.
func (d *DayBuilder) order(ctx context.Context) ([]int32, error) {
	order := make([]int32, len(d.visits))
	for i := range order {
		order[i] = int32(i)
	}
	slices.SortFunc(order, func(a, b int32) int {
		v, w := &d.visits[a], &d.visits[b]
		if c := bytes.Compare(v.key.Visitor[:], w.key.Visitor[:]); c != 0 {
			return c
		}
		return cmp.Or(cmp.Compare(v.startedAt, w.startedAt), cmp.Compare(v.key.N, w.key.N))
	})
	return order, ctx.Err()
}

// userOf returns the user id that the n-th visit of the order counts by: its own, or else that of
// the nearest visit of the same visitor, an earlier one first. So a person who signs in between two
// visits counts once.
func (d *DayBuilder) userOf(order []int32, n int) Text {
	visitor := d.visits[order[n]].key.Visitor

	for j := n; j >= 0 && d.visits[order[j]].key.Visitor == visitor; j-- {
		if user := d.visits[order[j]].user; user != 0 {
			return user
		}
	}
	for j := n + 1; j < len(order) && d.visits[order[j]].key.Visitor == visitor; j++ {
		if user := d.visits[order[j]].user; user != 0 {
			return user
		}
	}
	return 0
}

// addTo appends a visit with its page views and events to the columns.
func (d *DayBuilder) addTo(b *builder, v *visitRow, views, events []int32) {
	s := b.s
	own, engaged := false, int64(0)

	before := 0
	for _, i := range events {
		for before < len(views) && d.views[views[before]].at <= d.events[i].at {
			before++
		}
		b.before = append(b.before, uint32(before))
		d.addEventTo(b, &d.events[i])
		own = own || !model.IsAutomaticEvent(d.texts[EventName][d.events[i].name])
	}
	for _, i := range views {
		d.addViewTo(b, &d.views[i])
		engaged += int64(d.views[i].engagedMS)
	}

	s.New = append(s.New, bit(b.newVisitor))
	s.Start = append(s.Start, b.second(v.startedAt))
	s.Engaged = append(s.Engaged, uint32(min(engaged, math.MaxUint32)))
	s.Bounced = append(s.Bounced, bit(len(views) == 1 && !own && engaged < BounceBelow.Milliseconds()))
	s.ViewsEnd = append(s.ViewsEnd, uint32(len(s.ViewAt)))
	s.EventsEnd = append(s.EventsEnd, uint32(len(s.EventAt)))

	s.Days[0].Visits++
	s.Days[0].Views += uint32(len(views))
	s.Days[0].Events += uint32(len(events))
	d.addAttributesTo(b, v, views)
}

// addAttributesTo appends the texts of a visit.
func (d *DayBuilder) addAttributesTo(b *builder, v *visitRow, views []int32) {
	o := &d.origins[v.origin]
	b.put(Channel, v.channel)
	b.put(Source, o.source)
	b.put(SourceGroup, o.group)
	b.put(Referrer, o.referrer)
	b.put(UTMSource, o.utmSource)
	b.put(UTMMedium, o.medium)
	b.put(UTMCampaign, o.campaign)
	b.put(UTMContent, o.content)
	b.put(UTMTerm, o.term)
	b.put(ClickID, o.clickID)
	b.put(User, b.user)

	c := &d.clients[v.client]
	b.put(Country, c.country)
	b.put(Browser, c.browser)
	b.put(System, c.system)
	b.put(Device, c.device)
	b.put(Host, c.host)

	// A visit that only events opened has no page view.
	var first, last viewRow
	first.width = model.UnknownWidth
	if len(views) > 0 {
		first, last = d.views[views[0]], d.views[views[len(views)-1]]
	}

	b.put(Language, first.language)
	b.put(Width, d.of(Width, model.WidthRangeName(first.width)))
	b.put(Entry, first.path)
	b.put(Exit, last.path)
}

func (d *DayBuilder) addViewTo(b *builder, v *viewRow) {
	b.put(Path, v.path)
	b.s.ViewAt = append(b.s.ViewAt, b.second(v.at))
	b.s.ViewEngaged = append(b.s.ViewEngaged, uint32(max(v.engagedMS, 0)))
	b.s.Scroll = append(b.s.Scroll, uint8(min(max(v.scroll, 0), 100)))
}

func (d *DayBuilder) addEventTo(b *builder, e *eventRow) {
	b.put(EventName, e.name)
	b.put(EventPath, e.path)
	b.put(Currency, e.currency)
	b.s.EventAt = append(b.s.EventAt, b.second(e.at))
	b.s.Value = append(b.s.Value, e.value)

	for _, p := range d.props[e.props:][:e.propCount] {
		b.put(PropName, p.name)
		if p.value >= numberFlag {
			b.putNumber(d.numbers[p.value-numberFlag])
			p.value = d.of(PropValue, Other)
		}
		b.put(PropValue, p.value)
	}
	b.s.PropsEnd = append(b.s.PropsEnd, uint32(len(b.columns[PropName])))
	b.endNumbers()
}

func bit(set bool) uint8 {
	if set {
		return 1
	}
	return 0
}
