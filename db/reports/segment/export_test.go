package segment

import "context"

// BuildWithin is Build with other limits.
func BuildWithin(rows Rows, limits Limits) (*Segment, error) {
	return buildDay(context.Background(), rows.Day, limits, 0, rows.addTo)
}

// MergeWithin is Merge with other limits.
func MergeWithin(limits Limits, segments ...*Segment) (*Segment, error) {
	return mergeEach(limits, func(take func(*Segment) error) error {
		for _, s := range segments {
			if err := take(s); err != nil {
				return err
			}
		}
		return nil
	})
}

// NewCounter makes a counter: add counts a text, and counts returns all counts.
func NewCounter(size, most int) (add func(string, int64), counts func() map[string]int64) {
	t := newCounter(size, most)
	return t.add, func() map[string]int64 { return t.counts }
}
