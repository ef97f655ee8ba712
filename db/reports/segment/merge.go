package segment

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/tallygate/tallygate/db/model"
)

// ErrEmpty is returned for a merge of no segment.
var ErrEmpty = errors.New("segment: nothing to merge")

// Merge is MergeEach for segments in memory.
func Merge(segments []*Segment) (*Segment, error) {
	return MergeEach(func(take func(*Segment) error) error {
		for _, s := range segments {
			if err := take(s); err != nil {
				return err
			}
		}
		return nil
	})
}

// MergeEach joins segments of ascending days into one with a single dictionary. Days between them
// have no visits. The order of visits stays. Its columns are copies. each calls take for each
// segment in order and returns its error; take uses the segment only until it returns. each is
// called once, and three times for segments with more texts than MonthLimits permit: see BuildDay.
func MergeEach(each func(take func(*Segment) error) error) (*Segment, error) {
	return mergeEach(MonthLimits, each)
}

func mergeEach(limits Limits, each func(take func(*Segment) error) error) (*Segment, error) {
	m := newMerger(limits, nil)
	err := each(m.add)
	if errors.Is(err, errFull) {
		texts := newCensus(limits)
		if err := each(texts.addSegment); err != nil {
			return nil, err
		}
		m = newMerger(limits, texts.keep())
		err = each(m.add)
	}
	switch {
	case err != nil:
		return nil, err
	case len(m.s.Days) == 0:
		return nil, ErrEmpty
	}
	return m.segment(&m.texts), nil
}

// merger collects the rows of segments.
type merger struct {
	*vocabulary
	*builder
}

func newMerger(limits Limits, kept *kept) *merger {
	m := &merger{newVocabulary(limits, kept), newBuilder(0)}
	m.s.Days = nil
	return m
}

// add adds all rows of a segment whose first day follows the last one.
func (m *merger) add(s *Segment) error {
	to := m.s
	if len(to.Days) == 0 {
		to.First = s.First
	}
	next := to.First + model.Day(len(to.Days))
	if s.First < next {
		return fmt.Errorf("segment: %v does not follow on %d days from %v", s.First, len(to.Days), to.First)
	}
	days := uint64(s.First-to.First) + uint64(len(s.Days))
	if (days+1)*86_400 > math.MaxUint32 {
		return fmt.Errorf("segment: %d days", days)
	}
	to.Days = append(to.Days, make([]Day, s.First-next)...)

	views, events := uint32(len(to.ViewAt)), uint32(len(to.EventAt))
	at := uint32(len(to.Days)) * 86_400
	m.addTexts(s)
	m.addProperties(s)

	to.New = append(to.New, s.New...)
	to.Start = appendShifted(to.Start, s.Start, at)
	to.Engaged = append(to.Engaged, s.Engaged...)
	to.Bounced = append(to.Bounced, s.Bounced...)
	to.ViewsEnd = appendShifted(to.ViewsEnd, s.ViewsEnd, views)
	to.EventsEnd = appendShifted(to.EventsEnd, s.EventsEnd, events)

	to.ViewAt = appendShifted(to.ViewAt, s.ViewAt, at)
	to.ViewEngaged = append(to.ViewEngaged, s.ViewEngaged...)
	to.Scroll = append(to.Scroll, s.Scroll...)

	m.addBefore(s)
	to.EventAt = appendShifted(to.EventAt, s.EventAt, at)
	to.Value = append(to.Value, s.Value...)
	to.Days = append(to.Days, s.Days...)

	if m.full && m.kept == nil {
		return errFull
	}
	return nil
}

// addTexts adds the columns of all texts but those of properties. Each text of the segment is
// looked up once.
func (m *merger) addTexts(s *Segment) {
	var numbers [fieldCount][]Text // by domain and number in the segment
	for f := range fieldCount {
		if f.table() == props {
			continue
		}

		domain := f.Domain()
		if numbers[domain] == nil {
			for _, text := range s.Texts[domain] {
				numbers[domain] = append(numbers[domain], m.of(domain, text))
			}
		}
		column := &s.Columns[f]
		m.columns[f] = slices.Grow(m.columns[f], column.Len())
		for i := range column.Len() {
			m.put(f, numbers[domain][column.At(i)])
		}
	}
}

// addBefore adds the places of the events among the page views of their visits.
func (m *merger) addBefore(s *Segment) {
	m.before = slices.Grow(m.before, len(s.EventAt))
	for e := range s.EventAt {
		m.before = append(m.before, s.Before.At(e))
	}
}

// addProperties adds the properties of the events. All properties of an event that are Other are
// one. A property that becomes Other in the month keeps its number.
func (m *merger) addProperties(s *Segment) {
	known := make(map[propertyRow]propertyRow) // from the numbers of the segment
	names, values := &s.Columns[PropName], &s.Columns[PropValue]

	for e := range s.PropsEnd {
		other, numbers := false, 0
		for i, end := s.Props(e); i < end; i++ {
			from := propertyRow{Text(names.At(int(i))), Text(values.At(int(i)))}
			row, ok := known[from]
			if !ok {
				row = m.property(s.Texts[PropName][from.name], s.Texts[PropValue][from.value])
				known[from] = row
			}

			number := NoNumber
			if s.isNumbered(from) {
				number = s.OtherNumber(e, numbers)
				numbers++
			} else if m.isNumbered(row) {
				number = ParseNumber(s.Texts[PropValue][from.value])
			}

			isOther := m.texts[PropName][row.name] == Other
			if isOther && other {
				continue
			}
			other = other || isOther
			m.put(PropName, row.name)
			m.put(PropValue, row.value)
			if m.isNumbered(row) {
				m.putNumber(number)
			}
		}
		m.s.PropsEnd = append(m.s.PropsEnd, uint32(len(m.columns[PropName])))
		m.endNumbers()
	}
	m.checkProperties()
}

// addSegment counts the texts of a segment.
func (c *census) addSegment(s *Segment) error {
	var counts [fieldCount][]int64 // by domain and number
	for f := range fieldCount {
		domain := f.Domain()
		if f.table() == props || c.texts[domain] == nil {
			continue
		}
		if counts[domain] == nil {
			counts[domain] = make([]int64, len(s.Texts[domain]))
		}
		column := &s.Columns[f]
		for i := range column.Len() {
			counts[domain][column.At(i)]++
		}
	}
	for domain := range fieldCount {
		for n, count := range counts[domain] {
			if count > 0 {
				c.add(domain, s.Texts[domain][n], count)
			}
		}
	}

	pairs := make(map[propertyRow]int64)
	names, values := &s.Columns[PropName], &s.Columns[PropValue]
	for i := range names.Len() {
		pairs[propertyRow{Text(names.At(i)), Text(values.At(i))}]++
	}
	byNumber := func(a, b propertyRow) int { return cmp.Or(cmp.Compare(a.name, b.name), cmp.Compare(a.value, b.value)) }
	for _, pair := range slices.SortedFunc(maps.Keys(pairs), byNumber) {
		c.addProperty(s.Texts[PropName][pair.name], s.Texts[PropValue][pair.value], pairs[pair])
	}
	return nil
}

func appendShifted(to, from []uint32, by uint32) []uint32 {
	for _, v := range from {
		to = append(to, v+by)
	}
	return to
}

// WithoutUsers returns a copy without user ids, whose visits all count by visitor. It shares the
// other columns.
func (s *Segment) WithoutUsers() *Segment {
	c := *s
	c.Texts[User] = []string{""}
	c.Columns[User] = Column{U8: make([]uint8, len(s.New))}
	return &c
}
