package segment

import (
	"cmp"
	"slices"
	"strings"
)

// counter counts texts within bounded memory, by the algorithm of Misra and Gries: when it has too many
// texts, it lowers all counts by that of the first text that has no room, and forgets those that reach
// 0. A text that is more than one in size of all texts added is therefore never forgotten, whatever
// the order; with fewer different texts, all counts are exact.
type counter struct {
	size, most int // different texts, and their bytes
	bytes      int
	counts     map[string]int64
}

// counted is a text with its count.
type counted struct {
	text  string
	count int64
}

func newCounter(size, most int) *counter {
	return &counter{size: size, most: most, counts: make(map[string]int64)}
}

// add counts a text n times.
func (t *counter) add(text string, n int64) {
	if count, known := t.counts[text]; known {
		t.counts[text] = count + n
		return
	}

	text = strings.Clone(text)
	t.counts[text] = n
	t.bytes += len(text)
	if len(t.counts) > 2*t.size || t.bytes > 2*t.most {
		t.lower()
	}
}

// lower forgets the texts that have no room.
func (t *counter) lower() {
	all := t.sorted()
	n, bytes := 0, 0
	for n < len(all) && n < t.size && bytes+len(all[n].text) <= t.most {
		bytes += len(all[n].text)
		n++
	}

	by := all[n].count
	t.bytes = 0
	clear(t.counts)
	for _, c := range all[:n] {
		if c.count > by {
			t.counts[c.text] = c.count - by
			t.bytes += len(c.text)
		}
	}
}

// sorted returns the texts, the most frequent ones first.
func (t *counter) sorted() []counted {
	all := make([]counted, 0, len(t.counts))
	for text, count := range t.counts {
		all = append(all, counted{text, count})
	}
	slices.SortFunc(all, func(a, b counted) int {
		return cmp.Or(cmp.Compare(b.count, a.count), cmp.Compare(a.text, b.text))
	})
	return all
}

// top returns the n most frequent texts that have room in so many bytes, and their bytes.
func (t *counter) top(n, most int) (texts map[string]struct{}, bytes int) {
	texts = make(map[string]struct{})
	for _, c := range t.sorted() {
		if len(texts) == n || bytes+len(c.text) > most {
			break
		}
		texts[c.text] = struct{}{}
		bytes += len(c.text)
	}
	return texts, bytes
}
