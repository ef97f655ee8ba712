package scan

import (
	"maps"
	"slices"
	"strings"

	"github.com/tallygate/tallygate/db/reports/segment"
)

// countProperty counts breakdown i, by the value of a property of events. Its table has the values
// of this property alone.
func (p *pass) countProperty(i int, w *window) {
	b, to := &p.query.Breakdowns[i], p.tables[i]
	name, known := p.id(segment.PropName, b.Property)
	if !known {
		return
	}

	of := make(map[int]uint32) // the value that an event with a sale carries
	p.eachEvent(w, func(f *fact, e int, day uint8) {
		value, carried := p.valueOf(e, name, b.Event)
		if !carried {
			return
		}

		id := p.numberOf(i, value)
		p.addEventTo(to, id, f, e, day, true)
		to.addVisitor(id, f, day)
		p.enter(&to.buckets[id], f)
		if p.kind[p.g.Columns[segment.EventName].At(e)] != noSale {
			of[e] = id
		}
	})
	for _, sale := range p.sales {
		if id, carried := of[sale.event]; carried {
			to.addRevenue(id, sale.currency, sale.revenue)
		}
	}
}

// numberOf returns the number of a value in the table of breakdown i, by a property.
func (p *pass) numberOf(i int, value uint32) uint32 {
	numbers := p.values[i]
	if numbers == nil {
		numbers = make(map[uint32]uint32)
		p.values[i] = numbers
	}

	id, known := numbers[value]
	if !known {
		to, text := p.tables[i], p.g.Texts[segment.PropValue][value]
		to.values.hasOther = to.values.hasOther || text == segment.Other
		id = to.values.add(shown(text))
		to.grow(int(id) + 1)
		numbers[value] = id
	}
	return id
}

// id looks a text up in a dictionary.
func (p *pass) id(f segment.Field, text string) (uint32, bool) {
	i := slices.IndexFunc(p.g.Texts[f.Domain()], func(other string) bool { return shown(other) == text })
	return uint32(max(i, 0)), i >= 0
}

// valueOf returns the value of the property that an event carries. event, when given, is the only
// name of events looked at.
func (p *pass) valueOf(e int, property uint32, event string) (value uint32, carried bool) {
	from, to := p.g.Props(e)
	if from == to || event != "" && p.g.Text(segment.EventName, e) != event {
		return 0, false
	}

	names := &p.g.Columns[segment.PropName]
	for i := from; i < to; i++ {
		if names.At(int(i)) == property {
			return p.g.Columns[segment.PropValue].At(int(i)), true
		}
	}
	return 0, false
}

// propertyCount collects the events and values of a property.
type propertyCount struct {
	events int64
	values map[string]struct{}
}

// countProperties counts the properties that events of the period carried.
func (p *pass) countProperties(w *window) {
	names, values := p.g.Texts[segment.PropName], p.g.Texts[segment.PropValue]
	seen := make(map[uint64]struct{})
	counts := make([]int64, len(names))

	p.eachEvent(w, func(_ *fact, e int, _ uint8) {
		if only := p.query.Properties.Event; only != "" && p.g.Text(segment.EventName, e) != only {
			return
		}
		from, to := p.g.Props(e)
		for i := from; i < to; i++ {
			name, value := p.g.Columns[segment.PropName].At(int(i)), p.g.Columns[segment.PropValue].At(int(i))
			counts[name]++
			seen[uint64(name)<<32|uint64(value)] = struct{}{}
		}
	})

	for name, n := range counts {
		if n > 0 {
			p.property(shown(names[name])).events += n
		}
	}
	for key := range maps.Keys(seen) {
		p.property(shown(names[key>>32])).add(shown(values[uint32(key)]), p.budget)
	}
}

func (p *pass) property(name string) *propertyCount {
	count := p.props[name]
	if count == nil {
		count = &propertyCount{values: make(map[string]struct{})}
		p.props[strings.Clone(name)] = count
		p.budget.Take(valueBytes + len(name))
	}
	return count
}

// add adds a value, of which it keeps a copy, because texts are part of a segment.
func (c *propertyCount) add(value string, budget *Budget) {
	if _, known := c.values[value]; !known {
		c.values[strings.Clone(value)] = struct{}{}
		budget.Take(valueBytes + len(value))
	}
}
