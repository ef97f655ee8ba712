package scan

import (
	"slices"
	"strings"
)

// dictionary numbers the texts of one domain over all segments, so that a text is looked up once for
// each segment. The empty text has the number 0.
type dictionary struct {
	numbers map[string]uint32
	texts   []string // by number
	current []uint32 // numbers of the current segment's texts, by their index
}

func newDictionary() *dictionary {
	return &dictionary{numbers: map[string]uint32{"": 0}, texts: []string{""}}
}

// begin numbers the texts of a segment. It keeps copies, because these are parts of the segment.
func (d *dictionary) begin(texts []string) {
	d.current = slices.Grow(d.current[:0], len(texts))

	for _, text := range texts {
		number, known := d.numbers[text]
		if !known {
			number = uint32(len(d.texts))
			text = strings.Clone(text)
			d.numbers[text] = number
			d.texts = append(d.texts, text)
		}
		d.current = append(d.current, number)
	}
}

// number returns the number of a text. ok is false for a text that no segment had.
func (d *dictionary) number(text string) (number uint32, ok bool) {
	number, ok = d.numbers[text]
	return number, ok
}
