package segment

import (
	"cmp"
	"slices"
	"strings"
)

// counter counts texts within bounded memory, by the algorithm of Misra and Gries: when it has too
// many texts, it lowers all counts by the count of the first text without room, and forgets texts
// that reach
// 0. A text that is more than one in size of all texts added is therefore never forgotten, whatever
// the order; with fewer different texts, all counts are exact.
type counter struct {
	size   int // different texts
	most   int // their bytes, as bytesOf counts them
	bytes  int
	counts map[string]int64
}

// perText is the memory of a counted text, in bytes, without its characters.
const perText = 64

// bytesOf returns the memory of a counted text, in bytes.
func bytesOf(text string) int { return perText + len(text) }

// counted is a text with its count.
type counted struct {
	text  string
	count int64
}

// newCounter returns a counter with room for size texts of so many bytes.
func newCounter(size, bytes int) *counter {
	return &counter{size: size, most: bytes + size*perText, counts: make(map[string]int64)}
}

// add counts a text n times.
func (c *counter) add(text string, n int64) {
	if count, known := c.counts[text]; known {
		c.counts[text] = count + n
		return
	}

	text = strings.Clone(text)
	c.counts[text] = n
	c.bytes += bytesOf(text)
	if len(c.counts) > 2*c.size || c.bytes > 2*c.most {
		c.lower(c.most)
	}
}

// lower forgets the texts that have no room among size texts of so many bytes.
func (c *counter) lower(most int) {
	all := c.sorted()
	n, bytes := 0, 0
	for n < len(all) && n < c.size && bytes+bytesOf(all[n].text) <= most {
		bytes += bytesOf(all[n].text)
		n++
	}
	if n == len(all) {
		return
	}

	by := all[n].count
	c.bytes = 0
	clear(c.counts)
	for _, one := range all[:n] {
		if one.count > by {
			c.counts[one.text] = one.count - by
			c.bytes += bytesOf(one.text)
		}
	}
}

// sorted returns the texts, the most frequent ones first.
func (c *counter) sorted() []counted {
	all := make([]counted, 0, len(c.counts))
	for text, count := range c.counts {
		all = append(all, counted{text, count})
	}
	slices.SortFunc(all, func(a, b counted) int {
		return cmp.Or(cmp.Compare(b.count, a.count), cmp.Compare(a.text, b.text))
	})
	return all
}

// top returns the n most frequent texts that have room in so many bytes, and their bytes.
func (c *counter) top(n, most int) (texts map[string]struct{}, bytes int) {
	texts = make(map[string]struct{})
	for _, one := range c.sorted() {
		if len(texts) == n || bytes+len(one.text) > most {
			break
		}
		texts[one.text] = struct{}{}
		bytes += len(one.text)
	}
	return texts, bytes
}
