package scan

import (
	"slices"

	"github.com/tallygate/tallygate/db/reports/segment"
)

// filter returns which visits every filter keeps; nil keeps all. Each filter is evaluated once per
// text of a dictionary, then by index.
func (p *pass) filter() []bool {
	if len(p.query.Filters) == 0 {
		return nil
	}

	keep := slices.Repeat([]bool{true}, len(p.g.New))
	for i := range p.query.Filters {
		f := &p.query.Filters[i]
		has := p.test(f)
		for visit, kept := range keep {
			if p.mustEnd(visit) {
				return keep
			}
			keep[visit] = kept && has(visit) != f.Not
		}
	}
	return keep
}

// test returns whether a visit has a value that the filter matches, or none if it matches none.
func (p *pass) test(f *Filter) func(visit int) bool {
	g := p.g

	switch f.By {
	case Page:
		match, path := p.matches(segment.Path, f), &g.Columns[segment.Path]
		return func(visit int) bool {
			from, to := g.Views(visit)
			return f.None && from == to || anyIn(g.Views, visit, func(v int) bool { return match[path.At(v)] })
		}
	case Event:
		match, name := p.matches(segment.EventName, f), &g.Columns[segment.EventName]
		return func(visit int) bool {
			from, to := g.Events(visit)
			return f.None && from == to || anyIn(g.Events, visit, func(e int) bool { return match[name.At(e)] })
		}
	case Property:
		property, known := p.id(segment.PropName, f.Property)
		match := make(map[uint32]bool) // of the property's values met
		return func(visit int) bool {
			none := true
			return known && anyIn(g.Events, visit, func(e int) bool {
				value, carried := p.valueOf(e, property, f.Event)
				if !carried {
					return false
				}
				none = false
				matches, met := match[value]
				if !met {
					matches = f.Match(shown(g.Texts[segment.PropValue][value]))
					match[value] = matches
				}
				return matches
			}) || f.None && none
		}
	case DayOfWeek, HourOfDay:
		s, match := p.timeSlots(f.By), p.matchesOf(timeTexts[f.By], f.Match)
		return func(visit int) bool { return match[s.at(g.Start[visit])] }
	default:
		match, column := p.matches(fields[f.By], f), &g.Columns[fields[f.By]]
		return func(visit int) bool { return match[column.At(visit)] }
	}
}

// matches evaluates the filter on the dictionary of a field.
func (p *pass) matches(field segment.Field, f *Filter) []bool {
	return p.matchesOf(p.g.Texts[field.Domain()], f.Match)
}

// matchEvery is how many texts are matched between two looks at the context: a match of a long text
// can take long.
const matchEvery = 64

// matchesOf returns which texts match. It ends with the count.
func (p *pass) matchesOf(texts []string, match func(string) bool) []bool {
	matches := make([]bool, len(texts))
	for id, text := range texts {
		if id%matchEvery == 0 && p.err() != nil {
			break
		}
		matches[id] = match(shown(text))
	}
	return matches
}

// anyIn reports whether one of the rows that belong to i is wanted.
func anyIn(of func(i int) (from, to uint32), i int, wanted func(row int) bool) bool {
	from, to := of(i)
	for row := from; row < to; row++ {
		if wanted(int(row)) {
			return true
		}
	}
	return false
}
