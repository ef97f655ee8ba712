package scan

import (
	"math"
	"slices"
	"unsafe"

	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/reports/segment"
)

// Numbers asks for the numbers that events carried in a property.
type Numbers struct {
	Event    string // only events of this name; empty for all
	Property string
	Groups   NumberGroups
	By       Dimension // of NumberRows: what has a row for each of its values, see HasNumbers
	Least    int       // groups with fewer visitors, or with fewer who have a number, are small; 0: none
}

// NumberGroups are the groups whose numbers are counted.
type NumberGroups uint8

// The groups.
const (
	NumberTotals NumberGroups = iota // one group: all events
	NumberPoints                     // the points of the series
	NumberRows                       // the values of a dimension
)

// HasNumbers reports whether numbers are broken down by a dimension.
func HasNumbers(by Dimension) bool { return by < Dimensions && by != Event && by != Property }

// Percentiles are the percentiles of numbers, in percent.
var Percentiles = [...]int{50, 75, 90, 95, 99}

// NumberFigures are the figures of the numbers of a group.
type NumberFigures struct {
	Events   int64 // with a number or without
	Numbers  int64 // events with a number
	Unknown  int64 // events with properties without rows of their own, which may be any
	Visitors int64 // with such an event, as in the rows of Event
	Carriers int64 // visitors with a number
	Small    bool  // fewer Carriers than Numbers.Least, of a group that stays: the figures below are 0

	// Sum and Average are rounded once, to the nearest float64. They and the others are 0 without a
	// number.
	Sum, Average, Min, Max float64
	Percentiles            [len(Percentiles)]float64 // of the nearest rank
}

// NumberCount has the figures of the groups: one for NumberTotals, one for each point, or one for
// each value with such an event.
type NumberCount struct {
	Groups  NumberGroups
	Values  []string // of NumberRows: the values of the groups, ascending
	Figures []NumberFigures
	Other   bool // of NumberRows: there is a row OtherValue
}

// Of returns the figures of a value. ok is false if it has none.
func (c *NumberCount) Of(value string) (f NumberFigures, ok bool) {
	i := c.Place(value)
	if i < 0 {
		return NumberFigures{}, false
	}
	return c.Figures[i], true
}

// Place returns the index of a value, or -1 if it has no figures.
func (c *NumberCount) Place(value string) int {
	i, ok := slices.BinarySearch(c.Values, value)
	if !ok {
		return -1
	}
	return i
}

// Bytes estimates the memory of the count.
func (c *NumberCount) Bytes() int64 {
	n := int64(unsafe.Sizeof(*c)) + int64(len(c.Figures))*int64(unsafe.Sizeof(NumberFigures{}))
	for _, value := range c.Values {
		n += int64(unsafe.Sizeof(value)) + int64(len(value))
	}
	return n
}

// numberCount collects the numbers of each group.
type numberCount struct {
	*Numbers
	groups   []numberGroup
	set      numberSet
	visitors *table      // by group
	carriers *table      // by group: visitors with a number
	values   *dictionary // of NumberRows
	budget   *Budget
}

// numberGroup counts the events of a group. Those with a number are in the set.
type numberGroup struct{ events, unknown int64 }

func newNumberCount(n *Numbers, points int, budget *Budget) *numberCount {
	c := &numberCount{
		Numbers: n, set: numberSet{budget: budget}, budget: budget,
		visitors: &table{visitorsOnly: true, budget: budget, users: userSet{budget: budget}},
		carriers: &table{visitorsOnly: true, budget: budget, users: userSet{budget: budget}},
	}
	switch n.Groups {
	case NumberTotals:
		c.grow(1)
	case NumberPoints:
		c.grow(points)
	case NumberRows:
		c.values = newDictionary(budget)
		for _, text := range timeTexts[n.By] {
			c.values.add(text)
		}
		c.grow(len(c.values.texts))
	}
	return c
}

// resultBytes is the memory of a group in the result. It is counted with the group, because a count
// that has ended cannot fail.
const resultBytes = int(unsafe.Sizeof(NumberFigures{}) + unsafe.Sizeof("") + unsafe.Sizeof(uint32(0)))

// resultsEvery is how many groups are computed between two looks at the context.
const resultsEvery = 1 << 8

// grow makes room for groups below n.
func (c *numberCount) grow(n int) {
	c.budget.Take(max(n-len(c.groups), 0) * resultBytes)
	c.groups = grown(c.groups, n, c.budget)
	c.visitors.grow(n)
	c.carriers.grow(n)
}

// numbersOf are the numbers of a segment's values of properties, computed once.
type numbersOf struct {
	values []segment.Number // by index
	other  uint32           // the index of segment.Other; noText without it
	names  uint32           // the index of segment.Other among the names of properties; noText without it
}

// noText is no index of a text.
const noText = math.MaxUint32

// newNumbersOf parses the values of properties of a segment.
func newNumbersOf(g *segment.Segment) *numbersOf {
	texts := g.Texts[segment.PropValue]
	n := &numbersOf{values: make([]segment.Number, len(texts)), other: noText, names: noText}
	for i, text := range texts {
		n.values[i] = segment.ParseNumber(text)
		if text == segment.Other {
			n.other = uint32(i)
		}
	}
	if i := slices.Index(g.Texts[segment.PropName], segment.Other); i >= 0 {
		n.names = uint32(i)
	}
	return n
}

// askedNumbers is a question about numbers in the terms of a segment, computed once for it.
type askedNumbers struct {
	*numberCount
	event    uint32 // indexes of the names; noText for a name that the segment does not have, or for all events
	property uint32
	group    func(f *fact, event int) (group uint32, ok bool) // ok is false for an event in no group
}

// askedOf returns a question in the terms of the segment.
func (p *pass) askedOf(c *numberCount) askedNumbers {
	a := askedNumbers{numberCount: c, event: noText, property: noText}
	event, known := p.id(segment.EventName, c.Event)
	if c.Event == "" || known {
		a.group = p.groupOf(c)
	}
	if c.Event != "" && known {
		a.event = event
	}
	if property, known := p.id(segment.PropName, c.Property); known && property != p.parsed.names {
		a.property = property
	}
	return a
}

// groupOf returns a function that returns the group of an event.
func (p *pass) groupOf(c *numberCount) func(f *fact, event int) (group uint32, ok bool) {
	switch {
	case c.Groups == NumberTotals:
		return func(*fact, int) (uint32, bool) { return 0, true }
	case c.Groups == NumberPoints:
		points := p.pointIntervals(p.points)
		return func(_ *fact, event int) (uint32, bool) {
			point := points.at(p.g.EventAt[event])
			return uint32(max(point, 0)), point != noInterval
		}
	case isTime(c.By):
		// The dictionary has the empty text before those of the intervals.
		times := p.timeIntervals(c.By)
		return func(_ *fact, event int) (uint32, bool) { return uint32(times.at(p.g.EventAt[event])) + 1, true }
	}

	field, ofEvent := segment.EventPath, c.By == Page
	if !ofEvent {
		field = fields[c.By]
	}
	column, texts := &p.g.Columns[field], p.g.Texts[field.Domain()]
	c.values.beginSparse(texts)
	return func(f *fact, event int) (uint32, bool) {
		row := event
		if !ofEvent {
			row = int(f.visit)
		}
		text := column.At(row)
		if c.values.current[text] == unnumbered {
			c.number(texts, text)
		}
		return c.values.current[text], true
	}
}

// countNumbers adds the events of a window to the groups of a question.
func (p *pass) countNumbers(a *askedNumbers, w *window) {
	if a.group == nil {
		return
	}

	names := &p.g.Columns[segment.EventName]
	p.eachEvent(w, func(f *fact, e int, day uint8) {
		if a.event != noText && names.At(e) != a.event {
			return
		}
		group, ok := a.group(f, e)
		if !ok {
			return
		}

		a.groups[group].events++
		a.visitors.addVisitorOnly(group, f, day)
		switch number := p.parsed.carried(p.g, e, a.property); number {
		case segment.NoNumber:
		case segment.UnknownNumber:
			a.groups[group].unknown++
		default:
			a.carriers.addVisitorOnly(group, f, day)
			a.set.add(group, number)
		}
	})
}

// carried returns the number that event e of the segment carries in a property. If the segment has
// no such property, it is unknown for an event with properties that have no rows of their own,
// which may be any.
func (n *numbersOf) carried(g *segment.Segment, e int, property uint32) segment.Number {
	names, values := &g.Columns[segment.PropName], &g.Columns[segment.PropValue]
	others, hasOtherName := 0, false
	for i, to := g.Props(e); i < to; i++ {
		switch name, value := names.At(int(i)), values.At(int(i)); {
		case name == property && value == n.other:
			return g.OtherNumber(e, others)
		case name == property:
			return n.values[value]
		case name == n.names:
			hasOtherName = true
		case value == n.other:
			others++
		}
	}

	if hasOtherName && property == noText {
		return segment.UnknownNumber
	}
	return segment.NoNumber
}

// number numbers a text of the segment, and makes room for its group.
func (c *numberCount) number(texts []string, i uint32) {
	if c.By == SourceName && texts[i] != segment.Other {
		c.values.current[i] = c.values.add(model.NameOfSource(texts[i]))
	} else {
		c.values.use(texts, i)
	}
	c.grow(len(c.values.texts))
}

// result returns the figures of the groups. It ends with the count of the scanner, and then figures
// are missing. The count must not be used again.
func (c *numberCount) result(s *Scanner) *NumberCount {
	r := &NumberCount{Groups: c.Groups, Figures: make([]NumberFigures, len(c.groups))}
	order := make([]uint32, len(c.groups)) // the place of each group
	if c.Groups == NumberRows {
		r.Values = c.shownValues()
		r.Figures = make([]NumberFigures, len(r.Values))
		_, r.Other = r.Of(OtherValue)
	}

	for i := range c.groups {
		at := i
		if c.Groups == NumberRows {
			at, _ = slices.BinarySearch(r.Values, c.shown(i))
		}
		if at == len(r.Figures) || c.groups[i].events == 0 {
			continue // a text without an event
		}
		order[i] = uint32(at)
		r.Figures[at].Events += c.groups[i].events
		r.Figures[at].Unknown += c.groups[i].unknown
		r.Figures[at].Visitors += int64(c.visitors.visitorBuckets[i].visitors)
		r.Figures[at].Carriers += int64(c.carriers.visitorBuckets[i].visitors)
	}

	sum := new(decimalSum)
	entries := c.set.sorted(order)
	for n := 0; len(entries) > 0; n++ {
		if n%resultsEvery == 0 && s.err() != nil {
			return r
		}

		end := 1
		for end < len(entries) && entries[end].group == entries[0].group {
			end++
		}

		f := &r.Figures[entries[0].group]
		f.addNumbers(entries[:end], sum)
		if c.stays() && f.Carriers < int64(c.Least) {
			f.withhold()
		}
		entries = entries[end:]
	}
	return r
}

// stays reports whether small groups keep their places: points of a series, hours and days of the
// week are few.
func (c *numberCount) stays() bool {
	return c.Groups == NumberPoints || c.Groups == NumberRows && isTime(c.By)
}

// shown returns the value as which a group is shown: small groups are one. A group without a number
// shows none.
func (c *numberCount) shown(group int) string {
	text := c.values.texts[group]
	if text == "" || c.stays() {
		return text
	}
	visitors, carriers := c.visitors.visitorBuckets[group].visitors, c.carriers.visitorBuckets[group].visitors
	if int64(visitors) < int64(c.Least) || carriers > 0 && int64(carriers) < int64(c.Least) {
		return OtherValue
	}
	return text
}

// withhold removes the figures that show numbers.
func (f *NumberFigures) withhold() {
	*f = NumberFigures{
		Events: f.Events, Numbers: f.Numbers, Unknown: f.Unknown, Visitors: f.Visitors, Carriers: f.Carriers, Small: true,
	}
}

// shownValues returns the values of the groups with an event, ascending.
func (c *numberCount) shownValues() []string {
	values := make([]string, 0, len(c.groups))
	for i := range c.groups {
		if c.groups[i].events > 0 {
			values = append(values, c.shown(i))
		}
	}
	slices.Sort(values)
	return slices.Compact(values)
}

// addNumbers sets the figures of sorted numbers.
func (f *NumberFigures) addNumbers(entries []numberEntry, sum *decimalSum) {
	for _, e := range entries {
		f.Numbers += int64(e.n)
	}
	f.Min, f.Max = entries[0].value(), entries[len(entries)-1].value()

	sum.reset()
	var below int64
	next := 0
	for _, e := range entries {
		value := e.value()
		sum.add(value, int64(e.n))
		below += int64(e.n)
		for next < len(Percentiles) && below >= rankOf(Percentiles[next], f.Numbers) {
			f.Percentiles[next] = value
			next++
		}
	}
	f.Sum, f.Average = sum.figures(f.Numbers)
}

// rankOf returns the nearest rank of a percentile among n numbers: the least one, from 1, with at
// least so many percent of the numbers up to it. It is the rank of PostgreSQL's percentile_disc.
func rankOf(percent int, n int64) int64 {
	const whole = 100
	return (n*int64(percent) + whole - 1) / whole
}
