package segment

import (
	"fmt"
	"math"
)

// Merge joins segments of consecutive days into one with a single dictionary. The order of visits
// stays. Its columns are copies.
func Merge(segments []*Segment) (*Segment, error) {
	if len(segments) == 0 {
		return nil, fmt.Errorf("segment: nothing to merge")
	}

	b := newBuilder(segments[0].First)
	b.s.Days = nil

	for _, s := range segments {
		if int(s.First) != int(b.s.First)+len(b.s.Days) {
			return nil, fmt.Errorf("segment: %v does not follow on %d days from %v", s.First, len(b.s.Days), b.s.First)
		}
		if err := b.append(s); err != nil {
			return nil, err
		}
	}
	return b.segment(), nil
}

// append adds all rows of a segment whose first day follows the last one.
func (b *builder) append(s *Segment) error {
	to := b.s
	seconds := uint64(len(to.Days)) * 86_400
	if seconds+uint64(len(s.Days)+1)*86_400 > math.MaxUint32 {
		return fmt.Errorf("segment: more than %d days", len(to.Days))
	}

	for f := range fieldCount {
		b.appendTexts(s, f)
	}

	views, events := uint32(len(to.ViewAt)), uint32(len(to.EventAt))
	props := uint32(len(b.columns[PropName]) - s.Columns[PropName].Len())
	at := uint32(seconds)

	to.New = append(to.New, s.New...)
	to.Start = appendShifted(to.Start, s.Start, at)
	to.Engaged = append(to.Engaged, s.Engaged...)
	to.Bounced = append(to.Bounced, s.Bounced...)
	to.ViewsEnd = appendShifted(to.ViewsEnd, s.ViewsEnd, views)
	to.EventsEnd = appendShifted(to.EventsEnd, s.EventsEnd, events)

	to.ViewAt = appendShifted(to.ViewAt, s.ViewAt, at)
	to.ViewEngaged = append(to.ViewEngaged, s.ViewEngaged...)
	to.Scroll = append(to.Scroll, s.Scroll...)

	to.EventAt = appendShifted(to.EventAt, s.EventAt, at)
	to.Value = append(to.Value, s.Value...)
	to.PropsEnd = appendShifted(to.PropsEnd, s.PropsEnd, props)

	to.Days = append(to.Days, s.Days...)
	return nil
}

// appendTexts adds a field's column. Each text of the segment is looked up once.
func (b *builder) appendTexts(s *Segment, f Field) {
	domain := f.Domain()
	texts := s.Texts[domain]

	ids := make([]uint32, len(texts))
	for i, text := range texts {
		id, known := b.dictionary[domain][text]
		if !known {
			id = uint32(len(b.s.Texts[domain]))
			b.dictionary[domain][text] = id
			b.s.Texts[domain] = append(b.s.Texts[domain], text)
		}
		ids[i] = id
	}

	column := &s.Columns[f]
	for i := range column.Len() {
		b.columns[f] = append(b.columns[f], ids[column.At(i)])
	}
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
