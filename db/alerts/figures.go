package alerts

import (
	"context"
	"fmt"
	"strings"

	"github.com/uptrace/bun"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/model"
)

// MaxCounted bounds the page views that are counted in one span, and so the cost of a site.
const MaxCounted = 100_000

// MaxFailures bounds the failed deliveries that are counted.
const MaxFailures = 1_000

// figuresPage is how many spans, or sites, one statement reads.
const figuresPage = 100

// Span is a time of a site from From until, but not including, To.
type Span struct {
	SiteID   model.SiteID
	From, To model.Instant
}

// CountPageviews returns the number of page views in each span, at most MaxCounted. The caller must
// have loaded the sites, which checks the right to see them.
func (s *Store) CountPageviews(ctx context.Context, spans []Span) ([]int64, error) {
	counts := make([]int64, len(spans))
	err := s.eachCell(ctx, spans, func(in *db.Cell, numbers []int) error {
		values, args := spanValues(spans, numbers)
		var rows []struct{ N, Found int64 }
		err := in.Read.NewRaw(`
WITH spans (n, site_id, since, until) AS (VALUES `+values+`)
SELECT n, (SELECT count(*) FROM (
  SELECT 1 FROM pageviews p WHERE p.site_id = spans.site_id AND p.at >= spans.since AND p.at < spans.until LIMIT ?
) counted) AS found FROM spans`, append(args, MaxCounted)...).Scan(ctx, &rows)
		for _, row := range rows {
			counts[row.N] = row.Found
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("count page views of %d spans: %w", len(spans), err)
	}
	return counts, nil
}

// LastPageviews returns the time of the last page view in each span; 0 without any.
func (s *Store) LastPageviews(ctx context.Context, spans []Span) ([]model.Instant, error) {
	last := make([]model.Instant, len(spans))
	err := s.eachCell(ctx, spans, func(in *db.Cell, numbers []int) error {
		values, args := spanValues(spans, numbers)
		var rows []struct {
			N     int64
			Found model.Instant
		}
		err := in.Read.NewRaw(`
WITH spans (n, site_id, since, until) AS (VALUES `+values+`)
SELECT n, coalesce((
  SELECT p.at FROM pageviews p WHERE p.site_id = spans.site_id AND p.at >= spans.since AND p.at < spans.until
  ORDER BY p.at DESC LIMIT 1
), 0) AS found FROM spans`, args...).Scan(ctx, &rows)
		for _, row := range rows {
			last[row.N] = row.Found
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("look for the last page views of %d sites: %w", len(spans), err)
	}
	return last, nil
}

// eachCell calls read with the numbers of spans of one cell, a page at a time.
func (s *Store) eachCell(ctx context.Context, spans []Span, read func(in *db.Cell, numbers []int) error) error {
	bySite := make(map[model.SiteID][]int)
	var siteIDs []model.SiteID
	for i, span := range spans {
		if bySite[span.SiteID] == nil {
			siteIDs = append(siteIDs, span.SiteID)
		}
		bySite[span.SiteID] = append(bySite[span.SiteID], i)
	}

	return s.db.PerCell(ctx, siteIDs, func(in *db.Cell, siteIDs []model.SiteID) error {
		var page []int
		for i, id := range siteIDs {
			if page = append(page, bySite[id]...); len(page) < figuresPage && i < len(siteIDs)-1 {
				continue
			}
			if err := read(in, page); err != nil {
				return err
			}
			page = nil
		}
		return nil
	})
}

// spanValues returns the rows of VALUES for some spans.
func spanValues(spans []Span, numbers []int) (values string, args []any) {
	rows := make([]string, len(numbers))
	for i, n := range numbers {
		// The types decide whether PostgreSQL can use the index.
		rows[i] = "(CAST(? AS bigint), CAST(? AS bigint), CAST(? AS bigint), CAST(? AS bigint))"
		args = append(args, n, spans[n].SiteID, spans[n].From, spans[n].To)
	}
	return strings.Join(rows, ", "), args
}

// Deliveries are the finished deliveries of one webhook of a site.
type Deliveries struct {
	SiteID    model.SiteID
	Failed    int64         // since a time, at most MaxFailures
	First     model.Instant // creation of the first failed one since then; 0: none
	Newest    model.Instant // creation of the newest failed one since then; 0: none
	Delivered model.Instant // creation of the newest delivered one; 0: none
	IsToday   bool          // a delivery of the site has failed for good on this UTC day
}

// FinishedDeliveries returns the deliveries of each webhook of sites that have failed ones since a
// time. The caller must have loaded the sites.
func (s *Store) FinishedDeliveries(
	ctx context.Context, siteIDs []model.SiteID, since, now model.Instant,
) ([]Deliveries, error) {
	if len(siteIDs) == 0 {
		return nil, nil
	}

	type row struct {
		SiteID                   model.SiteID
		Failed                   int64
		First, Newest, Delivered int64 // ids
	}
	rows, err := db.RowsPerCell(ctx, s.db, siteIDs, func(in *db.Cell, siteIDs []model.SiteID, rows *[]row) error {
		values := strings.TrimSuffix(strings.Repeat("(CAST(? AS bigint)), ", len(siteIDs)), ", ")
		var args []any
		for _, id := range siteIDs {
			args = append(args, id)
		}
		const of = "FROM deliveries d WHERE d.site_id = s.site_id AND d.kind = k.kind AND d.state = "
		from := model.FirstTimeID(since)
		args = append(args, model.DeliveryConversion, model.DeliveryDailyExport, from, MaxFailures, from, from)

		return in.Read.NewRaw(`
WITH of_sites (site_id) AS (VALUES `+values+`), kinds (kind) AS (VALUES (?), (?))
SELECT s.site_id,
  (SELECT count(*) FROM (SELECT 1 `+of+`'failed' AND d.id >= ? LIMIT ?) counted) AS failed,
  coalesce((SELECT d.id `+of+`'failed' AND d.id >= ? ORDER BY d.id LIMIT 1), 0) AS first,
  coalesce((SELECT d.id `+of+`'failed' AND d.id >= ? ORDER BY d.id DESC LIMIT 1), 0) AS newest,
  coalesce((SELECT d.id `+of+`'delivered' ORDER BY d.id DESC LIMIT 1), 0) AS delivered
FROM of_sites s CROSS JOIN kinds k`, args...).Scan(ctx, rows)
	})
	if err != nil {
		return nil, fmt.Errorf("read finished deliveries of %d sites: %w", len(siteIDs), err)
	}

	today, err := s.failedToday(ctx, siteIDs, now)
	if err != nil {
		return nil, err
	}

	var all []Deliveries
	for _, r := range rows {
		if r.Failed > 0 {
			all = append(all, Deliveries{
				SiteID: r.SiteID, Failed: r.Failed, First: timeOf(r.First), Newest: timeOf(r.Newest),
				Delivered: timeOf(r.Delivered), IsToday: today[r.SiteID],
			})
		}
	}
	return all, nil
}

// timeOf returns the time of an id of a delivery; 0 for 0.
func timeOf(id int64) model.Instant {
	if id == 0 {
		return 0
	}
	return model.TimeOfID(id)
}

// failedToday returns the sites with a delivery that has failed for good on the UTC day of now.
func (s *Store) failedToday(ctx context.Context, siteIDs []model.SiteID, now model.Instant) (map[model.SiteID]bool, error) {
	var ids []model.SiteID
	err := s.db.Read.NewSelect().Table("failure_notices").Column("site_id").Where("site_id IN ?", bun.Tuple(siteIDs)).
		Where("day = ?", now.Day()).Scan(ctx, &ids)
	if err != nil {
		return nil, fmt.Errorf("read which of %d sites have failed deliveries: %w", len(siteIDs), err)
	}

	today := make(map[model.SiteID]bool, len(ids))
	for _, id := range ids {
		today[id] = true
	}
	return today, nil
}

// Attack is the last attack on a sitekey.
type Attack struct {
	ID        model.SitekeyID // of the sitekey
	AccountID model.AccountID
	Attack    model.CaptchaAttack
}

// Attacks returns the last attack on each sitekey of accounts that was ever attacked.
func (s *Store) Attacks(ctx context.Context, accountIDs []model.AccountID) ([]Attack, error) {
	if len(accountIDs) == 0 {
		return nil, nil
	}

	var attacks []Attack
	err := s.db.Read.NewSelect().Table("sitekeys").Column("id", "account_id", "attack").
		Where("account_id IN ?", bun.Tuple(accountIDs)).Where("attack <> '{}'").Order("id").Scan(ctx, &attacks)
	if err != nil {
		return nil, fmt.Errorf("read attacks on sitekeys of %d accounts: %w", len(accountIDs), err)
	}
	return attacks, nil
}
