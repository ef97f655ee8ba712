package scan

import (
	"iter"
	"unsafe"
)

// Rows has the figures of each value of a breakdown in which anything was counted. The empty value
// stands for none. Rows must not be changed.
type Rows struct {
	texts          []string                          // values by number, those without a row included
	number         func(value string) (uint32, bool) // inverse of texts
	buckets        []bucket                          // by number, or
	visitorBuckets []visitorBucket                   // ditto, of a breakdown by visitors only
	length         int

	// Other reports whether there is a row OtherValue of values beyond the limits of a segment.
	Other bool

	imported map[string]Figures // in addition to the counted ones

	// viewed leaves out the row of the empty value if it has no visitors: visits that only server
	// events opened have no pages, and nothing of a browser.
	viewed bool

	least int64    // rows of fewer visitors are in small; 0: all have rows of their own
	small *Figures // of the row OtherValue if least is not 0; nil without the row
}

// newRows returns the rows of a table.
func newRows(by Dimension, t *table, texts []string, number func(value string) (uint32, bool)) *Rows {
	r := &Rows{
		texts: texts, number: number, buckets: t.buckets, visitorBuckets: t.visitorBuckets,
		viewed: isOfBrowser(by),
	}
	for i := range max(len(r.buckets), len(r.visitorBuckets)) {
		if _, ok := r.at(i); ok {
			r.length++
		}
	}
	return r
}

// Bytes estimates the memory of the rows and their texts.
func (r *Rows) Bytes() int64 {
	const perText, perCurrency = 40, 100 // perText with its place in the dictionary

	n := int64(len(r.buckets))*int64(unsafe.Sizeof(bucket{})) + int64(len(r.visitorBuckets))*int64(unsafe.Sizeof(visitorBucket{}))
	for _, text := range r.texts {
		n += perText + int64(len(text))
	}
	for i := range r.buckets {
		n += perCurrency * int64(len(r.buckets[i].Revenue))
	}
	for value := range r.imported {
		n += perText + int64(len(value)) + int64(unsafe.Sizeof(Figures{})+unsafe.Sizeof(Unknown{}))
	}
	return n
}

// Len returns the number of rows.
func (r *Rows) Len() int { return r.length }

// All returns the rows in no order. Those of a breakdown with VisitorsOnly have no other figure.
func (r *Rows) All() iter.Seq2[string, Figures] {
	if r.least == 0 {
		return r.each
	}
	return func(yield func(string, Figures) bool) {
		for value, f := range r.each {
			if !r.isSmall(value, &f) && !yield(value, f) {
				return
			}
		}
		if r.small != nil {
			yield(OtherValue, *r.small)
		}
	}
}

// each calls yield with the rows that WithoutSmall divides, in no order.
func (r *Rows) each(yield func(string, Figures) bool) {
	for i := range max(len(r.buckets), len(r.visitorBuckets)) {
		if f, ok := r.at(i); ok && !yield(r.texts[i], r.with(r.texts[i], f)) {
			return
		}
	}
	for value, f := range r.imported {
		if _, counted := r.counted(value); !counted && !yield(value, f) {
			return
		}
	}
}

// Of returns the figures of a value, which are 0 if it has no row.
func (r *Rows) Of(value string) Figures {
	f, _ := r.counted(value)
	f = r.with(value, f)
	switch {
	case !r.isSmall(value, &f):
		return f
	case value == OtherValue && r.small != nil:
		return *r.small
	}
	return Figures{}
}

// OnlySums reports whether all that is known of a value are daily sums of imports. Filters do not
// find them.
func (r *Rows) OnlySums(value string) bool {
	imported, ok := r.imported[value]
	return ok && !r.has(value) && imported.UnknownOf().Conversion == imported.Visitors
}

// at returns the figures counted for a number. ok is false if there are none.
func (r *Rows) at(i int) (f Figures, ok bool) {
	if i < len(r.buckets) {
		f, ok = r.buckets[i].Figures, r.buckets[i].Any()
	} else {
		h := &r.visitorBuckets[i]
		f, ok = Figures{Visitors: int64(h.visitors)}, h.any()
	}
	if r.viewed && f.Visitors == 0 && r.texts[i] == "" {
		return Figures{}, false
	}
	return f, ok
}

// counted returns the figures of a value without those of imports. ok is false if it has none.
func (r *Rows) counted(value string) (f Figures, ok bool) {
	if r.number == nil {
		return f, false
	}
	i, known := r.number(value)
	if !known || int(i) >= max(len(r.buckets), len(r.visitorBuckets)) {
		return f, false
	}
	return r.at(int(i))
}

// has reports whether a value has a row.
func (r *Rows) has(value string) bool {
	_, ok := r.counted(value)
	return ok
}

// with returns the figures of a value with those of imports.
func (r *Rows) with(value string, f Figures) Figures {
	if imported, ok := r.imported[value]; ok {
		f.Add(&imported)
	}
	return f
}

// WithoutSmall returns the rows with the values of fewer visitors than least together as
// OtherValue. The row of the empty value, about which nothing is known, stays. It takes no memory
// for each row.
func (r *Rows) WithoutSmall(least int64) *Rows {
	grouped := *r
	grouped.least, grouped.small, grouped.length = least, nil, 0
	for value, f := range r.All() {
		if !grouped.isSmall(value, &f) {
			grouped.length++
			continue
		}
		if grouped.small == nil {
			grouped.small, grouped.Other = new(Figures), true
			grouped.length++
		}
		grouped.small.Add(&f)
	}
	return &grouped
}

// isSmall reports whether a row is part of the row OtherValue.
func (r *Rows) isSmall(value string, f *Figures) bool {
	return r.least > 0 && value != "" && (value == OtherValue || f.Visitors < r.least)
}
