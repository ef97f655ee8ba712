package scan

import "iter"

// Rows has the figures of each value of a breakdown in which anything was counted. The empty value
// stands for none. Rows must not be changed.
type Rows struct {
	texts  []string                          // values by number, those without a row included
	number func(value string) (uint32, bool) // inverse of texts
	cells  []cell                            // by number, or
	heads  []head                            // ditto, of a breakdown by visitors only
	length int
}

// newRows returns the rows of a table.
func newRows(t *table, texts []string, number func(value string) (uint32, bool)) *Rows {
	r := &Rows{texts: texts, number: number, cells: t.cells, heads: t.heads}
	for i := range r.cells {
		if r.cells[i].any() {
			r.length++
		}
	}
	for i := range r.heads {
		if r.heads[i].any() {
			r.length++
		}
	}
	return r
}

// Len returns the number of rows.
func (r *Rows) Len() int { return r.length }

// All returns the rows in no order. Those of a breakdown with VisitorsOnly have no other figure.
func (r *Rows) All() iter.Seq2[string, Figures] {
	return func(yield func(string, Figures) bool) {
		for i := range r.cells {
			if c := &r.cells[i]; c.any() && !yield(r.texts[i], c.Figures) {
				return
			}
		}
		for i := range r.heads {
			if h := &r.heads[i]; h.any() && !yield(r.texts[i], Figures{Visitors: int64(h.visitors)}) {
				return
			}
		}
	}
}

// Of returns the figures of a value, which are 0 if it has no row.
func (r *Rows) Of(value string) Figures {
	if r.length == 0 {
		return Figures{}
	}

	i, known := r.number(value)
	switch {
	case known && int(i) < len(r.cells):
		return r.cells[i].Figures
	case known && int(i) < len(r.heads):
		return Figures{Visitors: int64(r.heads[i].visitors)}
	}
	return Figures{}
}
