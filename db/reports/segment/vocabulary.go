package segment

import (
	"errors"
	"slices"
	"strings"
)

// errFull means that rows have more texts than the limits permit. They are then read again, to
// count the texts and to keep the most frequent ones.
var errFull = errors.New("segment: more texts than the limits permit")

// Text is the number of a text in its domain's dictionary. 0 is the empty text.
type Text uint32

// vocabulary numbers the texts of a segment within limits.
type vocabulary struct {
	limits Limits
	kept   *kept // the texts with a number of their own; nil for all, up to the limits

	numbers [fieldCount]map[string]Text // by domain
	texts   [fieldCount][]string        // by domain and number
	values  map[propertyRow]struct{}    // properties with their values
	count   map[Text]int                // values of a property, by its name's number

	text, propertyText int // bytes
	propertyRows       int
	full               bool // a limit was exceeded
}

// propertyRow is a property that an event carries.
type propertyRow struct{ name, value Text }

func newVocabulary(limits Limits, kept *kept) *vocabulary {
	v := &vocabulary{limits: limits, kept: kept, values: make(map[propertyRow]struct{}), count: make(map[Text]int)}
	for f := range fieldCount {
		if f.Domain() == f {
			v.numbers[f] = map[string]Text{"": 0}
			v.texts[f] = []string{""}
		}
	}
	return v
}

// of returns the number of a text of a field, which must not be a property's.
func (v *vocabulary) of(f Field, text string) Text {
	domain := f.Domain()
	if n, known := v.numbers[domain][text]; known {
		return n
	}
	return v.add(domain, text)
}

// ofBytes is of for a text that changes later.
func (v *vocabulary) ofBytes(f Field, text []byte) Text {
	domain := f.Domain()
	if n, known := v.numbers[domain][string(text)]; known {
		return n
	}
	return v.add(domain, string(text))
}

// add numbers a text that has no number yet.
func (v *vocabulary) add(domain Field, text string) Text {
	if v.kept != nil && !v.kept.has(domain, text) {
		return v.number(domain, Other)
	}

	if isBounded(domain) && v.kept == nil && text != Other {
		v.text += len(text)
		v.full = v.full || len(v.texts[domain]) > v.limits.of(domain) || v.text > v.limits.Text
	}
	return v.number(domain, text)
}

// number returns the number of a text, which it gives one if it has none. It keeps a copy, because
// the text can be a part of a row or of a segment.
func (v *vocabulary) number(domain Field, text string) Text {
	n, known := v.numbers[domain][text]
	if !known {
		text = strings.Clone(text)
		n = Text(len(v.texts[domain]))
		v.numbers[domain][text] = n
		v.texts[domain] = append(v.texts[domain], text)
	}
	return n
}

// property returns the numbers of a property that an event carries. A property without a row of its
// own is Other, with the value Other.
func (v *vocabulary) property(name, value string) propertyRow {
	if v.kept != nil {
		name, value = v.kept.property(name, value)
	}
	row := propertyRow{v.number(PropName, name), v.number(PropValue, value)}
	v.propertyRows++
	if _, known := v.values[row]; known || v.kept != nil {
		return row
	}

	v.values[row] = struct{}{}
	v.count[row.name]++
	v.propertyText += len(name) + len(value)
	v.full = v.full || v.count[row.name] > v.limits.ValuesOf
	return row
}

// checkProperties notes whether properties exceed a limit.
func (v *vocabulary) checkProperties() {
	if v.kept != nil {
		return
	}
	v.full = v.full || len(v.values) > v.limits.Values || len(v.texts[PropName]) > v.limits.Names+1 ||
		v.propertyText > v.limits.PropertyText || v.propertyRows > v.limits.PropertyRows
}

// bytes estimates the memory of the texts.
func (v *vocabulary) bytes() int {
	const perText, perValue = 80, 60
	n := v.text + v.propertyText + perValue*len(v.values)
	for _, texts := range v.texts {
		n += perText * len(texts)
	}
	return n
}

// kept says which texts keep rows of their own.
type kept struct {
	texts  [fieldCount]map[string]struct{} // by domain; nil: all
	values map[string]map[string]struct{}  // by the name of a property; nil: all
}

func (k *kept) has(domain Field, text string) bool {
	if k.texts[domain] == nil || text == "" {
		return true
	}
	_, ok := k.texts[domain][text]
	return ok
}

// property returns the name and value as which a property counts.
func (k *kept) property(name, value string) (keptName, keptValue string) {
	if k.values == nil {
		return name, value
	}
	values, known := k.values[name]
	if !known {
		return Other, Other
	}
	if _, ok := values[value]; !ok {
		return name, Other
	}
	return name, value
}

// census counts the texts of rows that have too many, within bounded memory, to find the most
// frequent ones.
type census struct {
	limits Limits
	texts  [fieldCount]*counter // by domain; nil for a domain without a limit
	names  *counter             // of properties
	values *counter             // of properties: name, Other and value
}

// spare is how many texts a census counts for each one that it keeps, and how many bytes for a
// byte.
const spare = 2

func newCensus(limits Limits) *census {
	c := &census{
		limits: limits,
		names:  newCounter(spare*limits.Names, spare*limits.PropertyText),
		values: newCounter(spare*limits.Values, spare*limits.PropertyText),
	}
	for f := range fieldCount {
		if f.Domain() == f && isBounded(f) {
			c.texts[f] = newCounter(spare*limits.of(f), spare*limits.Text)
		}
	}
	return c
}

// add counts a text of a field n times. The bytes of all domains are bounded together: beyond the
// bound, the largest domain gives up half of its own.
func (c *census) add(f Field, text string, n int64) {
	of := c.texts[f.Domain()]
	if of == nil || text == "" || text == Other {
		return
	}

	before := of.bytes
	of.add(text, n)
	if of.bytes > before && c.textBytes() > 2*spare*c.limits.Text {
		largest := of
		for _, other := range c.texts {
			if other != nil && other.bytes > largest.bytes {
				largest = other
			}
		}
		largest.lower(largest.bytes / 2)
	}
}

// textBytes returns the memory of the texts of all domains.
func (c *census) textBytes() (bytes int) {
	for _, of := range c.texts {
		if of != nil {
			bytes += of.bytes
		}
	}
	return bytes
}

// bytes returns the memory of the census.
func (c *census) bytes() int { return c.textBytes() + c.names.bytes + c.values.bytes }

// addProperty counts a property that n events carry.
func (c *census) addProperty(name, value string, n int64) {
	if name != Other {
		c.names.add(name, n)
		if value != Other {
			c.values.add(name+Other+value, n)
		}
	}
}

// keep returns the texts that keep rows of their own.
func (c *census) keep() *kept {
	k := &kept{values: make(map[string]map[string]struct{})}

	// All domains share the bytes. Each gets as much as it needs, or an equal part.
	domains := make([]Field, 0, fieldCount)
	for f, t := range c.texts {
		if t != nil {
			domains = append(domains, Field(f))
		}
	}
	slices.SortStableFunc(domains, func(a, b Field) int { return c.texts[a].bytes - c.texts[b].bytes })
	left := c.limits.Text
	for i, f := range domains {
		texts, bytes := c.texts[f].top(c.limits.of(f), left/(len(domains)-i))
		left -= bytes
		k.texts[f] = texts
	}

	// The rows of all other names together have a row in each event.
	names, rows := c.names.sorted(), int64(c.limits.PropertyRows)
	for _, name := range names[:min(len(names), c.limits.Names)] {
		if rows -= name.count; rows < 0 && len(k.values) > 0 {
			break
		}
		k.values[name.text] = make(map[string]struct{})
	}
	bytes, all := 0, 0
	for _, pair := range c.values.sorted() {
		name, value, _ := strings.Cut(pair.text, Other)
		of, ok := k.values[name]
		if !ok || len(of) >= c.limits.ValuesOf || all >= c.limits.Values || bytes+len(pair.text) > c.limits.PropertyText {
			continue
		}
		of[value] = struct{}{}
		bytes += len(pair.text)
		all++
	}
	return k
}
