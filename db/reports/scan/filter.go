package scan

import (
	"slices"

	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/reports/segment"
)

// matcher compares a text with the values of a filter or of a step.
type matcher func(text string) bool

// condition is a compiled filter.
type condition struct {
	*Filter
	match matcher
	none  bool // visits without a value match
	not   bool // the matching visits are dropped
}

// compile returns the condition of a filter. SourceName compares the names of sources.
func (f *Filter) compile() condition {
	c := condition{Filter: f, none: slices.Contains(f.Values, ""), not: f.Operator.IsNegative(), match: f.matcher()}
	if match := c.match; f.By == SourceName {
		c.match = func(source string) bool { return match(model.NameOfSource(source)) }
	}
	return c
}

// matcher returns a function that compares a text with the values, before the operator's negation.
func (f *Filter) matcher() matcher {
	isEquality := f.Operator == model.OperatorIs || f.Operator == model.OperatorIsNot
	if isEquality && len(f.Values) == 1 {
		only := f.Values[0]
		return func(text string) bool { return text == only }
	}

	compared := model.ReportFilter{Operator: f.Operator, Values: f.Values}
	return compared.Matcher()
}

// sieve applies the filters to the visits of a segment.
type sieve struct{ *pass }

// filter returns which visits every filter keeps; nil keeps all. Each filter is evaluated once per
// text of a dictionary, then by index.
func (s *sieve) filter() []bool {
	if len(s.conditions) == 0 {
		return nil
	}

	s.kept = slices.Grow(s.kept[:0], len(s.g.New))[:len(s.g.New)]
	s.having = slices.Grow(s.having[:0], len(s.g.New))[:len(s.g.New)]
	for i := range s.kept {
		s.kept[i] = true
	}
	for i := range s.conditions {
		c := &s.conditions[i]
		s.find(c)
		if s.err() != nil {
			break
		}
		for visit, has := range s.having {
			s.kept[visit] = s.kept[visit] && has != c.not
		}
	}
	return s.kept
}

// sparseBelow is the share of visits, one in so many, below which the texts of kept visits are
// numbered one by one, and not all texts of the segment.
const sparseBelow = 4

// isSparse reports whether filters keep few visits.
func isSparse(keep []bool) bool {
	kept := 0
	for _, is := range keep {
		if is {
			kept++
		}
	}
	return keep != nil && kept*sparseBelow < len(keep)
}

// find sets which visits have a value that a condition matches, or none if it matches none.
func (s *sieve) find(c *condition) {
	g := s.g
	switch {
	case c.By == Page:
		findRows(s.having, g.ViewsEnd, &g.Columns[segment.Path], s.matches(segment.Path, c), c.none)
	case c.By == Event:
		findRows(s.having, g.EventsEnd, &g.Columns[segment.EventName], s.matches(segment.EventName, c), c.none)
	case c.By == Property:
		s.findProperty(c)
	case isTime(c.By):
		times, match := s.timeIntervals(c.By), s.matchesOf(timeTexts[c.By], c.match)
		for visit, start := range g.Start {
			s.having[visit] = match[times.at(start)]
		}
	default:
		findValues(s.having, &g.Columns[fields[c.By]], s.matches(fields[c.By], c))
	}
}

// findProperty is find for the values of a property. Only values that events carry are compared.
func (s *sieve) findProperty(c *condition) {
	g, texts := s.g, s.g.Texts[segment.PropValue]
	property, known := s.id(segment.PropName, c.Property)
	compared, match := make([]bool, len(texts)), make([]bool, len(texts))
	matches := func(value uint32) bool {
		if !compared[value] {
			compared[value], match[value] = true, c.match(shown(texts[value]))
		}
		return match[value]
	}

	from := uint32(0)
	for visit, end := range g.EventsEnd {
		found, none := false, true
		for e := from; known && e < end && !found && !s.mustEnd(int(e-from)); e++ {
			if value, carried := s.valueOf(int(e), property, c.Event); carried {
				found, none = matches(value), false
			}
		}
		s.having[visit], from = found || c.none && none, end
	}
}

// matches evaluates a condition on the dictionary of a field.
func (s *sieve) matches(field segment.Field, c *condition) []bool {
	return s.matchesOf(s.g.Texts[field.Domain()], c.match)
}

// matchEvery is how many texts are matched between two looks at the context: a match of a long text
// can take long.
const matchEvery = 64

// matchesOf returns which texts match. It ends with the count.
func (s *Scanner) matchesOf(texts []string, match matcher) []bool {
	matches := make([]bool, len(texts))
	for id, text := range texts {
		if id%matchEvery == 0 && s.err() != nil {
			break
		}
		matches[id] = match(shown(text))
	}
	return matches
}

// findValues sets which visits have a matching index in a column of visits.
func findValues(having []bool, column *segment.Column, match []bool) {
	switch {
	case column.U8 != nil:
		findIndexes(having, column.U8, match)
	case column.U16 != nil:
		findIndexes(having, column.U16, match)
	default:
		findIndexes(having, column.U32, match)
	}
}

func findIndexes[I index](having []bool, column []I, match []bool) {
	for visit, id := range column {
		having[visit] = match[id]
	}
}

// findRows sets which visits have a row with a matching index, or no row if none. ends has where
// the rows of each visit end.
func findRows(having []bool, ends []uint32, column *segment.Column, match []bool, none bool) {
	switch {
	case column.U8 != nil:
		findRowIndexes(having, ends, column.U8, match, none)
	case column.U16 != nil:
		findRowIndexes(having, ends, column.U16, match, none)
	default:
		findRowIndexes(having, ends, column.U32, match, none)
	}
}

func findRowIndexes[I index](having []bool, ends []uint32, column []I, match []bool, none bool) {
	from := uint32(0)
	for visit, end := range ends {
		found := none && from == end
		for _, id := range column[from:end] {
			if match[id] {
				found = true
				break
			}
		}
		having[visit], from = found, end
	}
}
