package db

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/tallygate/tallygate/db/model"
)

// postgresHits sends a batch in two round trips on a connection of its own: begin, lock and read;
// then write and commit. Every list travels as arrays, so that each statement is one prepared plan
// at any batch size.
type postgresHits struct {
	pgWriter
	exhausted map[model.UsageKey]bool // months whose quota was used up when they were last read
}

// maxExhausted bounds the months that a writer remembers as used up. Forgetting them costs a lookup
// per refused hit, once.
const maxExhausted = 10_000

func newPostgresHits(config *pgx.ConnConfig) *postgresHits {
	return &postgresHits{pgWriter: newPGWriter(config), exhausted: make(map[model.UsageKey]bool)}
}

// Without statistics, as in a new table, the planner takes any index that a condition fits, also
// one that finds all rows of a site or of a day. Hence "site_id + 0", which fits none, where the
// other condition has an index of its own, and OFFSET 0, which keeps a look-up per key from being
// turned into a join. Conditions on the time, or on the id that grows with it, leave out the months
// that cannot hold the row. 86400000000 microseconds are a day, with which the indexes on random
// keys begin.
const (
	pgLockUsage = `
SELECT u.site_id, u.month, u.used, s.monthly_pageviews
FROM unnest($1::bigint[], $2::integer[]) AS k (site_id, month)
JOIN site_usage u USING (site_id, month)
JOIN sites s ON s.id = u.site_id
ORDER BY u.site_id, u.month
FOR NO KEY UPDATE OF u`

	pgAddUsage = `
INSERT INTO site_usage (site_id, month, used)
SELECT s.id, k.month, 0
FROM unnest($1::bigint[], $2::integer[]) AS k (site_id, month)
JOIN sites s ON s.id = k.site_id
ORDER BY s.id, k.month
ON CONFLICT DO NOTHING`

	pgVisit = `v.site_id, v.visitor, v.id, v.started_at, v.last_pageview_at, v.pageviews, v.user_id, v.n, v.recent, v.awaited,
  v.utm_source, v.utm_campaign`

	pgAttribution = `v.channel, v.utm_medium, v.gclid, v.gbraid, v.wbraid, v.fbclid, v.msclkid`

	pgNewestVisits = `
FROM unnest($1::bigint[], $2::bytea[]) AS k (site_id, visitor),
  LATERAL (SELECT * FROM visits WHERE (started_at / 86400000000)::integer = $3 AND visitor = k.visitor
    AND site_id + 0 = k.site_id AND id >= $4 AND id < $5 ORDER BY id DESC LIMIT ` + newestVisits + `) v`

	pgReadVisits = `SELECT ` + pgVisit + pgNewestVisits

	pgReadAttribution = `SELECT ` + pgVisit + `, ` + pgAttribution + pgNewestVisits

	// The index does not hold the site: see pgEngagement.
	pgReadViewed = `
SELECT k.number, ` + pgVisit + `, ` + pgAttribution + `
FROM unnest($1::bigint[], $2::bytea[], $3::bigint[]) WITH ORDINALITY AS k (site_id, visitor, pageview_id, number),
  LATERAL (SELECT visits.* FROM
    (SELECT site_id, visit_id, at FROM pageviews WHERE (at / 86400000000)::integer = $4 AND id = k.pageview_id
      AND at >= $5 AND at < $6 ORDER BY at DESC LIMIT 16) p,
    LATERAL (SELECT * FROM visits WHERE site_id = k.site_id AND id = p.visit_id AND id >= $7 AND id < $8 OFFSET 0) visits
    WHERE p.site_id = k.site_id AND visits.visitor = k.visitor ORDER BY p.at DESC LIMIT 1) v`

	pgReadTransactions = `
SELECT t.site_id, t.transaction_id, t.event
FROM unnest($1::bigint[], $2::text[]) AS k (site_id, transaction_id)
JOIN transactions t USING (site_id, transaction_id)`

	pgNewVisits = `
INSERT INTO visits (site_id, id, visitor, started_at, last_pageview_at, pageviews, n, recent, awaited, channel, user_id,
  referrer, utm_source, utm_medium, utm_campaign, utm_content, utm_term, gclid, gbraid, wbraid, fbclid, msclkid)
SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::bytea[], $4::bigint[], $5::bigint[], $6::integer[], $7::smallint[],
  $8::bytea[], $9::bytea[], $10::text[], $11::bytea[], $12::text[], $13::text[], $14::text[], $15::text[], $16::text[],
  $17::text[], $18::text[], $19::text[], $20::text[], $21::text[], $22::text[])`

	// An insert that always meets its row: a plain UPDATE is a join, and the planner may begin it
	// with all visits of the day, which then are read for each batch.
	pgContinueVisits = `
INSERT INTO visits (site_id, id, visitor, started_at, last_pageview_at, pageviews, recent, awaited, channel, user_id)
SELECT v.site_id, v.id, v.visitor, v.started_at, k.last_pageview_at, k.pageviews, k.recent, k.awaited, v.channel, k.user_id
FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::integer[], $5::bytea[], $6::bytea[], $7::bytea[])
  AS k (site_id, id, last_pageview_at, pageviews, recent, awaited, user_id),
  LATERAL (SELECT * FROM visits WHERE site_id = k.site_id AND id = k.id AND id >= $8 AND id < $9 OFFSET 0) v
ON CONFLICT (site_id, id) DO UPDATE SET last_pageview_at = excluded.last_pageview_at, pageviews = excluded.pageviews,
  recent = excluded.recent, awaited = excluded.awaited, user_id = coalesce(excluded.user_id, visits.user_id)`

	pgPageviews = `
INSERT INTO pageviews (site_id, at, id, visit_id, engaged_ms, scroll, width_range, manual, path, language)
SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[], $5::integer[], $6::smallint[],
  $7::smallint[], $8::boolean[], $9::text[], $10::text[])`

	// An insert for the same reason. The index does not hold the site, and anybody may repeat an id
	// on a site of their own: only an id's newest 16 page views are looked at. A page view's id is
	// a random number that only its own page knows, so no one can hide it behind others.
	pgEngagement = `
INSERT INTO pageviews (site_id, at, id, visit_id, engaged_ms, scroll, width_range, manual, path)
SELECT newest.site_id, newest.at, newest.id, newest.visit_id, e.ms, e.scroll, newest.width_range, newest.manual, newest.path
FROM unnest($1::bigint[], $2::bigint[], $3::integer[], $4::smallint[]) AS e (site_id, id, ms, scroll),
  LATERAL (SELECT found.* FROM generate_series($8::integer, $9::integer) AS day,
    LATERAL (SELECT * FROM (SELECT * FROM pageviews WHERE (at / 86400000000)::integer = day AND id = e.id
      AND at >= $6 AND at < $7 ORDER BY at DESC LIMIT 16) same_id
      WHERE same_id.site_id = e.site_id ORDER BY at DESC LIMIT 1) found
    ORDER BY found.at DESC LIMIT 1) newest
ON CONFLICT (site_id, at, id) DO UPDATE SET engaged_ms = least(pageviews.engaged_ms + excluded.engaged_ms, $5),
  scroll = greatest(pageviews.scroll, excluded.scroll)`

	pgEvents = `
INSERT INTO events (site_id, at, id, visit_id, name, path, value, currency, transaction_id, properties)
SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[], $5::text[], $6::text[], $7::bigint[],
  $8::text[], $9::text[], $10::text[])`

	pgTransactions = `
INSERT INTO transactions (site_id, transaction_id, event, at)
SELECT * FROM unnest($1::bigint[], $2::text[], $3::text[], $4::bigint[])`

	pgDeliveries = `
INSERT INTO deliveries (site_id, id, kind, event, state, attempts, created_at, next_attempt_at, body)
SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::text[], $4::text[], $5::text[], $6::integer[], $7::bigint[],
  $8::bigint[], $9::text[])`

	pgUsed = `
UPDATE site_usage u SET used = k.used
FROM unnest($1::bigint[], $2::integer[], $3::bigint[]) AS k (site_id, month, used)
WHERE u.site_id = k.site_id AND u.month = k.month`
)

func (h *postgresHits) Update(ctx context.Context, keys HitKeys, decide func(*HitState) *HitChanges) error {
	return RetryNewIDs(func() error { return h.update(ctx, keys, decide) })
}

func (h *postgresHits) update(ctx context.Context, keys HitKeys, decide func(*HitState) *HitChanges) (err error) {
	committed := false
	defer func() {
		// after a panic, too
		if !committed {
			h.abandon()
		}
	}()

	var state *HitState
	err = h.begin(ctx, func() (err error) {
		state, err = h.read(ctx, keys)
		return err
	})
	if err != nil {
		return err
	}

	if len(state.Usage) < len(keys.Usage) {
		// The first hits of a month, or a site that is gone. The missing rows are added outside the
		// transaction, which holds locks already, so that two processes cannot wait for each other.
		if state, err = h.addUsage(ctx, keys); err != nil {
			return err
		}
	}

	err = h.commit(ctx, keys, decide(state))
	committed = err == nil
	return err
}

// read locks and reads in one round trip. A site whose quota was used up is believed to be so
// still, and nothing else of it is read; where that turns out wrong, after an upgrade, the rest
// takes another one.
func (h *postgresHits) read(ctx context.Context, keys HitKeys) (*HitState, error) {
	state := newHitState(keys)
	var b pgx.Batch
	b.Queue(pgBegin)
	sites, months := usageColumns(keys.Usage)
	b.Queue(pgLockUsage, sites, months).Query(func(rows pgx.Rows) error { return scanUsage(rows, state) })
	queueReads(&b, keys.open(func(key model.UsageKey) bool { return h.exhausted[key] }), state)

	if err := h.conn.SendBatch(ctx, &b).Close(); err != nil {
		return nil, err
	}

	if h.noteExhausted(state) {
		var b pgx.Batch
		queueReads(&b, keys, state)
		return state, h.conn.SendBatch(ctx, &b).Close()
	}

	return state, nil
}

// queueReads adds the statements that read what the keys name, except the usage.
func queueReads(b *pgx.Batch, keys HitKeys, state *HitState) {
	firstVisit, endVisit := keys.visitIDs()

	if v := keys.Visitors; len(v) > 0 {
		sites, visitors := visitorColumns(v)
		for day := range keys.days() {
			b.Queue(pgReadVisits, sites, visitors, int32(day), firstVisit, endVisit).Query(func(rows pgx.Rows) error { return scanVisits(rows, state) })
		}
	}

	if v := keys.Converting; len(v) > 0 {
		sites, visitors := visitorColumns(v)
		for day := range keys.days() {
			b.Queue(pgReadAttribution, sites, visitors, int32(day), firstVisit, endVisit).Query(func(rows pgx.Rows) error { return scanAttribution(rows, state) })
		}
	}

	if v := keys.Viewed; len(v) > 0 {
		for day := range keys.days() {
			columns := append(viewColumns(v), int32(day), day.Start(), (day + 1).Start(), firstVisit, endVisit)
			b.Queue(pgReadViewed, columns...).Query(func(rows pgx.Rows) error { return scanViewed(rows, v, state) })
		}
	}

	if t := keys.Transactions; len(t) > 0 {
		b.Queue(pgReadTransactions, transactionKeyColumns(t)...).Query(func(rows pgx.Rows) error { return scanTransactions(rows, state) })
	}
}

// noteExhausted remembers which of the months read are used up, and reports whether one is open
// again.
func (h *postgresHits) noteExhausted(state *HitState) (reopened bool) {
	for key, usage := range state.Usage {
		if usage.Exhausted() {
			h.exhausted[key] = true
			continue
		}

		reopened = reopened || h.exhausted[key]
		delete(h.exhausted, key)
	}

	if len(h.exhausted) > maxExhausted {
		clear(h.exhausted)
	}

	return reopened
}

func (h *postgresHits) addUsage(ctx context.Context, keys HitKeys) (*HitState, error) {
	if _, err := h.conn.Exec(ctx, "rollback"); err != nil {
		return nil, err
	}

	sites, months := usageColumns(keys.Usage)
	if _, err := h.conn.Exec(ctx, pgAddUsage, sites, months); err != nil {
		return nil, err
	}

	return h.read(ctx, keys)
}

func (h *postgresHits) commit(ctx context.Context, keys HitKeys, changes *HitChanges) error {
	firstVisit, endVisit := keys.visitIDs()
	var b pgx.Batch

	if v := changes.NewVisits; len(v) > 0 {
		b.Queue(pgNewVisits, newVisitColumns(v)...)
	}
	if v := changes.Continued; len(v) > 0 {
		b.Queue(pgContinueVisits, append(continuedColumns(v), firstVisit, endVisit)...)
	}
	if p := changes.Pageviews; len(p) > 0 {
		b.Queue(pgPageviews, pageviewColumns(p)...)
	}

	if e := changes.Engagement; len(e) > 0 {
		since, until := keys.Since.Add(-EngagementWindow), keys.latest()
		b.Queue(pgEngagement, append(engagementColumns(e), since, until, int32(since.Day()), int32(until.Day()))...)
	}

	if e := changes.Events; len(e) > 0 {
		b.Queue(pgEvents, eventColumns(e)...)
	}
	if t := changes.Transactions; len(t) > 0 {
		b.Queue(pgTransactions, transactionColumns(t)...)
	}
	if d := changes.Deliveries; len(d) > 0 {
		b.Queue(pgDeliveries, deliveryColumns(d)...)
	}
	if u := changes.Used; len(u) > 0 {
		b.Queue(pgUsed, usedColumns(u)...)
	}

	b.Queue("commit")
	return h.conn.SendBatch(ctx, &b).Close()
}
