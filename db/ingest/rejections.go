package ingest

import (
	"cmp"
	"context"
	"fmt"

	"github.com/uptrace/bun"

	"github.com/tallygate/tallygate/db/model"
)

// RejectionKey names the calls of one site on one UTC day to one endpoint that were refused or
// ignored for one reason.
type RejectionKey struct {
	SiteID   model.SiteID
	Day      model.Day
	Endpoint string // "collect" or "server"
	Code     string // the error code or the reason to ignore (analytics contract, sections 4 and 7)
}

// Rejection is the number of calls of a key.
type Rejection struct {
	RejectionKey `bun:",extend"`
	Count        int64
}

// Compare orders by site, day, endpoint and code.
func (k RejectionKey) Compare(other RejectionKey) int {
	return cmp.Or(cmp.Compare(k.SiteID, other.SiteID), cmp.Compare(k.Day, other.Day),
		cmp.Compare(k.Endpoint, other.Endpoint), cmp.Compare(k.Code, other.Code))
}

// AddRejections adds all counts to the stored counts. With an error it adds nothing. Counts of
// deleted sites are left out.
func (s *Store) AddRejections(ctx context.Context, counts map[RejectionKey]int64) error {
	return addCounts(ctx, s, counts, RejectionKey.Compare, func(key RejectionKey) Rejection {
		return Rejection{key, counts[key]}
	}, `
WITH added (site_id, day, endpoint, code, count, _order) AS (?)
INSERT INTO rejections (site_id, day, endpoint, code, count)
SELECT site_id, day, endpoint, code, count FROM added
WHERE EXISTS (SELECT 1 FROM sites WHERE sites.id = added.site_id)
ORDER BY _order
ON CONFLICT (site_id, day, endpoint, code) DO UPDATE SET count = rejections.count + excluded.count`)
}

// RejectionsOfSites returns the counts of each site since the day from: newest day first, then by
// endpoint and code. The caller must have loaded the sites, which checks the right to see them.
func (s *Store) RejectionsOfSites(ctx context.Context, siteIDs []model.SiteID, from model.Day) (map[model.SiteID][]Rejection, error) {
	if len(siteIDs) == 0 {
		return nil, nil
	}

	var rows []Rejection
	err := s.db.Read.NewSelect().Table("rejections").Column("site_id", "day", "endpoint", "code", "count").
		Where("site_id IN ?", bun.Tuple(siteIDs)).Where("day >= ?", from).
		OrderExpr("day DESC, endpoint, code").Scan(ctx, &rows)
	if err != nil {
		return nil, fmt.Errorf("read refused calls of %d sites: %w", len(siteIDs), err)
	}

	counts := make(map[model.SiteID][]Rejection)
	for _, row := range rows {
		counts[row.SiteID] = append(counts[row.SiteID], row)
	}

	return counts, nil
}
