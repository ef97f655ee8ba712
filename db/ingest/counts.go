package ingest

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/uptrace/bun"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/model"
)

// CaptchaCountKey names a counter of one sitekey on one UTC day, see model.CaptchaChallenge.
type CaptchaCountKey struct {
	SitekeyID model.SitekeyID
	Day       model.Day
	Name      string
}

// Compare orders by sitekey, day and name.
func (k CaptchaCountKey) Compare(other CaptchaCountKey) int {
	return cmp.Or(cmp.Compare(k.SitekeyID, other.SitekeyID), cmp.Compare(k.Day, other.Day),
		cmp.Compare(k.Name, other.Name))
}

type captchaCount struct {
	CaptchaCountKey `bun:",extend"`
	Count           int64
}

// AddCaptchaCounts adds all counts to the stored counts. With an error it adds nothing. Counts of
// deleted sitekeys are left out.
func (s *Store) AddCaptchaCounts(ctx context.Context, counts map[CaptchaCountKey]int64) error {
	return addCounts(ctx, s, counts, CaptchaCountKey.Compare, func(key CaptchaCountKey) captchaCount {
		return captchaCount{key, counts[key]}
	}, `
WITH added (sitekey_id, day, name, count, _order) AS (?)
INSERT INTO captcha_counts (sitekey_id, day, name, count)
SELECT sitekey_id, day, name, count FROM added
WHERE EXISTS (SELECT 1 FROM sitekeys WHERE sitekeys.id = added.sitekey_id)
ORDER BY _order
ON CONFLICT (sitekey_id, day, name) DO UPDATE SET count = captcha_counts.count + excluded.count`)
}

// UnknownEventKey names an event of one site on one UTC day that was refused because its name is
// not registered.
type UnknownEventKey struct {
	SiteID model.SiteID
	Day    model.Day
	Name   string
}

// Site returns the site of the key.
func (k UnknownEventKey) Site() int64 { return int64(k.SiteID) }

// Compare orders by site, day and name.
func (k UnknownEventKey) Compare(other UnknownEventKey) int {
	return cmp.Or(cmp.Compare(k.SiteID, other.SiteID), cmp.Compare(k.Day, other.Day), cmp.Compare(k.Name, other.Name))
}

type unknownEvent struct {
	UnknownEventKey `bun:",extend"`
	Count           int64
}

// maxUnknownEvents is how many names of unknown events a site has for a day. Concurrent processes
// can exceed it by the names that they add at the same time.
const maxUnknownEvents = 100

// AddUnknownEvents adds all counts to the stored counts. With an error it adds nothing. Names
// beyond maxUnknownEvents of a site and day are left out, as are counts of deleted sites.
func (s *Store) AddUnknownEvents(ctx context.Context, counts map[UnknownEventKey]int64) error {
	return addCounts(ctx, s, counts, UnknownEventKey.Compare, func(key UnknownEventKey) unknownEvent {
		return unknownEvent{key, counts[key]}
	}, fmt.Sprintf(`
WITH added (site_id, day, name, count, _order) AS (?),
fresh AS (
  SELECT a.*, row_number() OVER (PARTITION BY a.site_id, a.day ORDER BY a._order) AS n FROM added a
  WHERE NOT EXISTS (SELECT 1 FROM unknown_events u WHERE u.site_id = a.site_id AND u.day = a.day AND u.name = a.name)
)
INSERT INTO unknown_events (site_id, day, name, count)
SELECT site_id, day, name, count FROM added
WHERE EXISTS (SELECT 1 FROM sites WHERE sites.id = added.site_id)
AND NOT EXISTS (
  SELECT 1 FROM fresh WHERE fresh._order = added._order
  AND fresh.n + (SELECT count(*) FROM unknown_events u WHERE u.site_id = added.site_id AND u.day = added.day) > %d
)
ORDER BY _order
ON CONFLICT (site_id, day, name) DO UPDATE SET count = unknown_events.count + excluded.count`, maxUnknownEvents))
}

// countsPerStatement keeps the text of one statement below about 100 KB.
const countsPerStatement = 1_000

// addCounts runs a statement for the rows of counts, in the order of their keys. The statement
// takes the rows with their position as _order: the database may order texts in another way than
// compare.
func addCounts[Key comparable, Row any](
	ctx context.Context, s *Store, counts map[Key]int64, compare func(Key, Key) int, rowOf func(Key) Row, statement string,
) error {
	if len(counts) == 0 {
		return nil
	}

	// Each process locks the rows in this order, within and across statements, so that no two wait
	// for each other.
	keys := slices.SortedFunc(maps.Keys(counts), compare)
	err := s.db.InDataTx(ctx, func(ctx context.Context, tx *db.Tx) error {
		for chunk := range slices.Chunk(keys, countsPerStatement) {
			rows := make([]Row, len(chunk))
			for i, key := range chunk {
				rows[i] = rowOf(key)
			}

			if _, err := tx.NewRaw(statement, tx.NewValues(&rows).WithOrder()).Exec(ctx); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("add %d counts: %w", len(counts), err)
	}

	return nil
}

// CaptchaActivity returns the activity of each sitekey on the days since from, newest first. Days
// without any are left out. The caller must have loaded the sitekeys, which checks the right to see
// them.
func (s *Store) CaptchaActivity(
	ctx context.Context, sitekeyIDs []model.SitekeyID, from model.Day,
) (map[model.SitekeyID][]*model.CaptchaActivity, error) {
	if len(sitekeyIDs) == 0 {
		return nil, nil
	}

	var rows []captchaCount
	err := s.db.Read.NewSelect().Table("captcha_counts").Column("sitekey_id", "day", "name", "count").
		Where("sitekey_id IN ?", bun.Tuple(sitekeyIDs)).Where("day >= ?", from).
		OrderExpr("sitekey_id, day DESC").Scan(ctx, &rows)
	if err != nil {
		return nil, fmt.Errorf("read counts of %d sitekeys: %w", len(sitekeyIDs), err)
	}

	activity := make(map[model.SitekeyID][]*model.CaptchaActivity)
	for len(rows) > 0 {
		first, counts := rows[0], make(map[string]int64)
		for len(rows) > 0 && rows[0].SitekeyID == first.SitekeyID && rows[0].Day == first.Day {
			counts[rows[0].Name] = rows[0].Count
			rows = rows[1:]
		}
		activity[first.SitekeyID] = append(activity[first.SitekeyID], model.NewCaptchaActivity(first.Day, counts))
	}

	return activity, nil
}

// CaptchaVerifications returns the verifications of each sitekey by UTC month, from the first day
// of a month on. The caller must have loaded the sitekeys, which checks the right to see them.
func (s *Store) CaptchaVerifications(
	ctx context.Context, sitekeyIDs []model.SitekeyID, from model.Month,
) (map[model.SitekeyID]map[model.Month]int64, error) {
	if len(sitekeyIDs) == 0 {
		return nil, nil
	}

	var rows []captchaCount
	err := s.db.Read.NewSelect().Table("captcha_counts").Column("sitekey_id", "day", "count").
		Where("sitekey_id IN ?", bun.Tuple(sitekeyIDs)).Where("day >= ?", model.At(from.Start()).Day()).
		Where("name = ?", model.CaptchaVerified).Scan(ctx, &rows)
	if err != nil {
		return nil, fmt.Errorf("read verifications of %d sitekeys: %w", len(sitekeyIDs), err)
	}

	used := make(map[model.SitekeyID]map[model.Month]int64)
	for _, row := range rows {
		if used[row.SitekeyID] == nil {
			used[row.SitekeyID] = make(map[model.Month]int64)
		}
		used[row.SitekeyID][row.Day.Start().Month()] += row.Count
	}

	return used, nil
}

// UnknownEvent is a name of events that were refused because it is not registered.
type UnknownEvent struct {
	SiteID model.SiteID
	Name   string
	Count  int64
	Last   model.Day // UTC day of the last one
}

// ShownUnknownEvents is how many names of unknown events are returned for a site.
const ShownUnknownEvents = 50

// UnknownEventsOfSites returns the most frequent unknown events of each site since the day from, at
// most ShownUnknownEvents, without names that are registered now. The caller must have loaded the
// sites, which checks the right to see them.
func (s *Store) UnknownEventsOfSites(
	ctx context.Context, siteIDs []model.SiteID, from model.Day,
) (map[model.SiteID][]UnknownEvent, error) {
	if len(siteIDs) == 0 {
		return nil, nil
	}

	var rows []UnknownEvent
	err := s.db.Read.NewRaw(`
SELECT site_id, name, sum(count) AS count, max(day) AS last FROM unknown_events u
WHERE site_id IN ? AND day >= ?
AND NOT EXISTS (SELECT 1 FROM registered_events r WHERE r.site_id = u.site_id AND r.name = u.name)
GROUP BY site_id, name`, bun.Tuple(siteIDs), from).Scan(ctx, &rows)
	if err != nil {
		return nil, fmt.Errorf("read unknown events of %d sites: %w", len(siteIDs), err)
	}

	slices.SortFunc(rows, func(a, b UnknownEvent) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(b.Last, a.Last), cmp.Compare(a.Name, b.Name))
	})

	bySite := make(map[model.SiteID][]UnknownEvent)
	for _, row := range rows {
		if len(bySite[row.SiteID]) < ShownUnknownEvents {
			bySite[row.SiteID] = append(bySite[row.SiteID], row)
		}
	}

	return bySite, nil
}
