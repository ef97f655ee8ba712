package exports

import (
	"context"

	"github.com/tallygate/tallygate/db"
)

// The bounds of a page, for tests.
const (
	PageRows   = exportPage
	PageBytes  = pageBytes
	PageVisits = pageVisits
)

// PageSize is the content of a page of events in memory.
type PageSize struct{ Rows, Bytes, Visits int }

// EventPages returns the size of each page of an export of events.
func EventPages(ctx context.Context, d *db.DB, r Range) (sizes []PageSize, err error) {
	in, err := d.OfSite(ctx, r.SiteID)
	if err != nil {
		return nil, err
	}

	for p := newPage(&exportedEvents); ; {
		if err := p.read(ctx, in, r); err != nil {
			return nil, err
		}

		size := PageSize{Rows: len(p.rows)}
		visits := make(map[string]bool)
		for i := range p.rows {
			row := &p.rows[i]
			size.Bytes += exportedEvents.bytes(row)
			if id := row.Visit.ID(); !visits[id] {
				visits[id] = true
				size.Bytes += row.Visit.bytes()
			}
		}
		size.Visits = len(visits)
		sizes = append(sizes, size)

		if !p.more || len(p.rows) == 0 {
			return sizes, nil
		}
		r = r.behind(exportedEvents.cursor(&p.rows[len(p.rows)-1]))
	}
}
