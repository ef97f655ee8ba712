package scan

import (
	"hash/maphash"
	"math"
	"slices"
	"strings"

	"github.com/tallygate/tallygate/db/reports/segment"
)

// dictionary numbers the texts of one domain over all segments, so that a text is looked up once
// for each segment. The empty text has the number 0. It is an open hash table, which takes half of
// a map's time: most of it is spent on waiting for memory, of which a map touches more.
type dictionary struct {
	texts   []string // by number
	slots   []slot   // their number is a power of two
	current []uint32 // numbers of the current segment's texts, by their index
	copies  strings.Builder
	only    bool // there is one segment: each text has its index as its number
	budget  *Budget

	hasOther bool // a segment has texts without a row of their own

	// The memory of begin: of each text, its hash and the first slot for it.
	hashes []uint64
	firsts []slot
}

// slot holds a text's number plus 1, or 0 if it is free, and half of the text's hash.
type slot struct {
	hash uint32
	next uint32
}

// hashSeed makes collisions unpredictable, because visitors choose texts.
var hashSeed = maphash.MakeSeed()

// OtherValue is the value of the row of all texts that have no row of their own, see
// segment.Limits.
const OtherValue = "(other)"

// shown returns a text of a segment as reports show it.
func shown(text string) string {
	if text == segment.Other {
		return OtherValue
	}
	return text
}

func newDictionary(budget *Budget) *dictionary {
	const slots = 64
	d := &dictionary{slots: make([]slot, slots), budget: budget}
	d.add("")
	return d
}

// begin numbers the texts of a segment. It keeps copies, because these are parts of the segment.
func (d *dictionary) begin(texts []string) {
	if d.only {
		d.texts, d.current = texts, slices.Grow(d.current[:0], len(texts))
		for i := range texts {
			d.current = append(d.current, uint32(i))
		}
		return
	}

	if other := slices.Index(texts, segment.Other); other >= 0 {
		d.hasOther = true
		texts = slices.Clone(texts)
		texts[other] = OtherValue
	}

	d.hashes = slices.Grow(d.hashes[:0], len(texts))
	d.firsts = slices.Grow(d.firsts[:0], len(texts))
	d.current = slices.Grow(d.current[:0], len(texts))

	// Most texts are known and in their first slot. Loops that do one thing only let the processor
	// wait for the memory of many texts at once.
	for _, text := range texts {
		d.hashes = append(d.hashes, maphash.String(hashSeed, text))
	}
	mask := uint64(len(d.slots) - 1)
	for _, hash := range d.hashes {
		d.firsts = append(d.firsts, d.slots[hash&mask])
	}
	for i, text := range texts {
		first, hash := d.firsts[i], d.hashes[i]
		if first.next == 0 || first.hash != uint32(hash>>32) || d.texts[first.next-1] != text {
			d.current = append(d.current, d.addHashed(text, hash))
			continue
		}
		d.current = append(d.current, first.next-1)
	}
}

// unnumbered stands in current for a text without a number.
const unnumbered = math.MaxUint32

// beginSparse begins a segment with few texts that count: use numbers them.
func (d *dictionary) beginSparse(texts []string) {
	d.current = slices.Grow(d.current[:0], len(texts))[:len(texts)]
	for i := range d.current {
		d.current[i] = unnumbered
	}
}

// use numbers text i of the segment, unless it has a number.
func (d *dictionary) use(texts []string, i uint32) {
	if d.current[i] == unnumbered {
		d.hasOther = d.hasOther || texts[i] == segment.Other
		d.current[i] = d.add(shown(texts[i]))
	}
}

// add returns the number of a text, which may be new.
func (d *dictionary) add(text string) uint32 {
	return d.addHashed(text, maphash.String(hashSeed, text))
}

// addHashed is add for a text whose hash is known.
func (d *dictionary) addHashed(text string, hash uint64) uint32 {
	s := d.slot(hash, text)
	if s.next == 0 {
		d.budget.Take(textBytes + len(text))
		d.texts = append(d.texts, d.copyOf(text))
		*s = slot{uint32(hash >> 32), uint32(len(d.texts))}
		if 2*len(d.texts) > len(d.slots) {
			d.grow()
		}
		return uint32(len(d.texts) - 1)
	}
	return s.next - 1
}

// number returns the number of a text. ok is false for a text that no segment had.
func (d *dictionary) number(text string) (number uint32, ok bool) {
	s := d.slot(maphash.String(hashSeed, text), text)
	return s.next - 1, s.next != 0
}

// slot returns the slot of a text, or the free one that it would have.
func (d *dictionary) slot(hash uint64, text string) *slot {
	mask := uint64(len(d.slots) - 1)
	for i := hash; ; i++ {
		s := &d.slots[i&mask]
		if s.next == 0 || s.hash == uint32(hash>>32) && d.texts[s.next-1] == text {
			return s
		}
	}
}

// grow doubles the slots.
func (d *dictionary) grow() {
	d.slots = make([]slot, 2*len(d.slots))
	for i, text := range d.texts {
		hash := maphash.String(hashSeed, text)
		*d.slot(hash, text) = slot{uint32(hash >> 32), uint32(i + 1)}
	}
}

// copyOf copies a text. Many copies share an allocation.
func (d *dictionary) copyOf(text string) string {
	const size = 16 << 10
	if d.copies.Len()+len(text) > d.copies.Cap() {
		d.copies = strings.Builder{}
		d.copies.Grow(max(size, len(text)))
	}
	d.copies.WriteString(text)
	return d.copies.String()[d.copies.Len()-len(text):]
}
