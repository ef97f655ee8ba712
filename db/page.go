package db

import (
	"slices"

	"github.com/uptrace/bun"
)

// Page is a part of a list whose rows have a positive key: at most Limit rows between two
// positions. It is comparable.
type Page struct {
	After, Before int64 // keys of the rows around the page, in the list's order; 0: none
	Limit         int
	Backward      bool // the last rows between the positions instead of the first ones
	Descending    bool // the list begins with the largest key
}

// Bounds returns the keys between which the rows are: above one and below the other. The second one
// is 0 without an upper bound.
func (p Page) Bounds() (above, below int64) {
	if p.Descending {
		return p.Before, p.After
	}
	return p.After, p.Before
}

// Order returns the ORDER BY clause by a column that reads the page's rows first.
func (p Page) Order(column string) string {
	if p.Descending != p.Backward {
		return column + " DESC"
	}
	return column
}

// Select adds the page's conditions, order and limit to a query of a list by a column.
func (p Page) Select(q *bun.SelectQuery, column string) *bun.SelectQuery {
	above, below := p.Bounds()
	if q.Where("? > ?", bun.Ident(column), above); below > 0 {
		q.Where("? < ?", bun.Ident(column), below)
	}
	return q.OrderExpr(p.Order(column)).Limit(int64(p.Limit))
}

// InOrder returns rows that were read in the page's order in the list's order.
func InOrder[Row any](rows []Row, backward bool) []Row {
	if backward {
		slices.Reverse(rows)
	}
	return rows
}
