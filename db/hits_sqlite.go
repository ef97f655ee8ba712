package db

import (
	"context"
	"database/sql"
	"database/sql/driver"

	"github.com/tallygate/tallygate/db/model"
)

// sqliteHits runs a batch on the writing connection with prepared statements, row by row: the rows
// need no network here, and larger statements measured no faster. See sqliteStmt for what did.
type sqliteHits struct {
	db *sql.DB
	*sqliteStatements
}

// sqliteStatements are prepared once per connection.
type sqliteStatements struct {
	readUsage, addUsage, readVisits, readAttribution, readViewed, readTransaction *sqliteStmt
	newVisit, continueVisit, pageview, engagement                                 *sqliteStmt
	event, transaction, delivery, setUsed                                         *sqliteStmt

	all []*sqliteStmt
}

// Close implements io.Closer.
func (s *sqliteStatements) Close() error {
	for _, stmt := range s.all {
		stmt.close()
	}
	return nil
}

func newSQLiteHits(db *sql.DB) *sqliteHits { return &sqliteHits{db: db} }

func (h *sqliteHits) Update(ctx context.Context, keys HitKeys, decide func(*HitState) *HitChanges) error {
	return RetryNewIDs(func() error {
		return withSQLiteConn(ctx, h.db, func(conn *SQLiteConn) error { return h.update(ctx, conn, keys, decide) })
	})
}

func (h *sqliteHits) update(ctx context.Context, conn *SQLiteConn, keys HitKeys, decide func(*HitState) *HitChanges) (err error) {
	statements, err := Prepared(conn, func(conn *SQLiteConn) (*sqliteStatements, error) { return prepareHits(ctx, conn) })
	if err != nil {
		return err
	}
	h.sqliteStatements = statements
	return conn.InTx(ctx, func() error { return h.run(keys, decide) })
}

func (h *sqliteHits) run(keys HitKeys, decide func(*HitState) *HitChanges) error {
	state, err := h.read(keys)
	if err != nil {
		return err
	}
	return h.write(keys, decide(state))
}

func (h *sqliteHits) read(keys HitKeys) (*HitState, error) {
	state := newHitState(keys)
	if err := h.usages(keys, state); err != nil {
		return nil, err
	}

	keys = keys.open(func(key model.UsageKey) bool { return state.Usage[key].Exhausted() })
	for _, read := range []func(HitKeys, *HitState) error{h.visits, h.attributions, h.viewed, h.transactions} {
		if err := read(keys, state); err != nil {
			return nil, err
		}
	}

	return state, nil
}

func (h *sqliteHits) usages(keys HitKeys, state *HitState) error {
	for _, key := range keys.Usage {
		found, err := h.usage(key, state)

		// the first hits of a month, or a site that is gone
		if err == nil && !found {
			if err = h.addUsage.exec(key.SiteID, key.Month); err == nil {
				_, err = h.usage(key, state)
			}
		}

		if err != nil {
			return err
		}
	}

	return nil
}

func (h *sqliteHits) usage(key model.UsageKey, state *HitState) (found bool, err error) {
	err = h.readUsage.query([]any{key.SiteID, key.Month}, func(row []driver.Value) {
		state.Usage[key] = Usage{Used: number(row[0]), Quota: number(row[1])}
		found = true
	})
	return found, err
}

func (h *sqliteHits) visits(keys HitKeys, state *HitState) error {
	for day := range keys.days() {
		if err := queryEach(h.readVisits, keys.Visitors,
			func(k *model.VisitorKey) []any { return []any{k.SiteID, int64(day), k.Visitor[:]} },
			func(k *model.VisitorKey, row []driver.Value) { state.addVisit(visitOf(k, row)) },
		); err != nil {
			return err
		}
	}

	return nil
}

func (h *sqliteHits) attributions(keys HitKeys, state *HitState) error {
	for day := range keys.days() {
		if err := queryEach(h.readAttribution, keys.Converting,
			func(k *model.VisitorKey) []any { return []any{k.SiteID, int64(day), k.Visitor[:]} },
			func(k *model.VisitorKey, row []driver.Value) { state.addVisit(attributedVisitOf(k, row)) },
		); err != nil {
			return err
		}
	}

	return nil
}

func (h *sqliteHits) viewed(keys HitKeys, state *HitState) error {
	for day := range keys.days() {
		if err := queryEach(h.readViewed, keys.Viewed,
			func(k *model.ViewKey) []any {
				return []any{k.Visitor.SiteID, int64(day), k.PageviewID, k.Visitor.Visitor[:]}
			},
			func(k *model.ViewKey, row []driver.Value) { state.Viewed[*k] = attributedVisitOf(&k.Visitor, row) },
		); err != nil {
			return err
		}
	}

	return nil
}

// attributedVisitOf reads the columns of the statements that read the whole attribution.
func attributedVisitOf(k *model.VisitorKey, row []driver.Value) model.Visit {
	v := visitOf(k, row)
	v.Channel, v.Medium = text(row[10]), text(row[11])
	v.Gclid, v.Gbraid, v.Wbraid = text(row[12]), text(row[13]), text(row[14])
	v.Fbclid, v.Msclkid = text(row[15]), text(row[16])
	return v
}

// visitOf reads the columns that all statements on visits begin with.
func visitOf(k *model.VisitorKey, row []driver.Value) model.Visit {
	return model.Visit{
		SiteID:         k.SiteID,
		Visitor:        k.Visitor,
		ID:             number(row[0]),
		StartedAt:      model.Instant(number(row[1])),
		LastPageviewAt: model.Instant(number(row[2])),
		Pageviews:      int32(number(row[3])),
		UserID:         blob(row[4]),
		N:              int16(number(row[5])),
		Recent:         blob(row[6]),
		Awaited:        blob(row[7]),
		Campaign:       model.Campaign{Source: text(row[8]), Name: text(row[9])},
	}
}

func (h *sqliteHits) transactions(keys HitKeys, state *HitState) error {
	return queryEach(h.readTransaction, keys.Transactions,
		func(k *model.TransactionKey) []any { return []any{k.SiteID, k.TransactionID} },
		func(k *model.TransactionKey, row []driver.Value) { state.Transactions[*k] = text(row[0]) })
}

// queryEach asks one statement for each key and hands every row of the answers over.
func queryEach[Key any](stmt *sqliteStmt, keys []Key, args func(*Key) []any, take func(*Key, []driver.Value)) error {
	for i := range keys {
		key := &keys[i]
		if err := stmt.query(args(key), func(row []driver.Value) { take(key, row) }); err != nil {
			return err
		}
	}
	return nil
}

func (h *sqliteHits) write(keys HitKeys, changes *HitChanges) error {
	if err := execEach(h.newVisit, changes.NewVisits, func(v *model.Visit) []any {
		return []any{v.SiteID, v.ID, v.Visitor[:], v.StartedAt, v.LastPageviewAt, v.Pageviews, v.N, blobOrNull(v.Recent), blobOrNull(v.Awaited),
			v.Channel, blobOrNull(v.UserID), orNull(&v.Referrer),
			orNull(&v.Source), orNull(&v.Medium), orNull(&v.Name), orNull(&v.Content), orNull(&v.Term),
			orNull(&v.Gclid), orNull(&v.Gbraid), orNull(&v.Wbraid), orNull(&v.Fbclid), orNull(&v.Msclkid)}
	}); err != nil {
		return err
	}

	if err := execEach(h.continueVisit, changes.Continued, func(v *model.Visit) []any {
		return []any{v.LastPageviewAt, v.Pageviews, blobOrNull(v.Recent), blobOrNull(v.Awaited), blobOrNull(v.UserID), v.SiteID, v.ID}
	}); err != nil {
		return err
	}

	if err := execEach(h.pageview, changes.Pageviews, func(p *model.Pageview) []any {
		return []any{p.SiteID, p.At, p.ID, p.VisitID, p.EngagedMS, p.Scroll, p.WidthRange, p.Manual, p.Path, orNull(&p.Language)}
	}); err != nil {
		return err
	}

	for i := range changes.Engagement {
		if err := h.engage(keys, &changes.Engagement[i]); err != nil {
			return err
		}
	}

	if err := execEach(h.event, changes.Events, func(e *model.Event) []any {
		return []any{e.SiteID, e.At, e.ID, e.VisitID, e.Name, e.Path, valueOrNull(e), orNull(&e.Currency), orNull(&e.TransactionID),
			orNull(&e.Properties)}
	}); err != nil {
		return err
	}

	if err := execEach(h.transaction, changes.Transactions, func(t *model.Transaction) []any {
		return []any{t.SiteID, t.TransactionID, t.Event, t.At}
	}); err != nil {
		return err
	}

	if err := execEach(h.delivery, changes.Deliveries, func(d *model.Delivery) []any {
		return []any{d.SiteID, d.ID, d.Kind, d.Event, d.State, d.Attempts, d.CreatedAt, d.NextAttemptAt, d.Body}
	}); err != nil {
		return err
	}

	for key, used := range changes.Used {
		if err := h.setUsed.exec(used, key.SiteID, key.Month); err != nil {
			return err
		}
	}

	return nil
}

// engage adds a report to its page view, the newest one with that id, which is most likely one of
// today.
func (h *sqliteHits) engage(keys HitKeys, e *model.Engagement) error {
	since := keys.Since.Add(-EngagementWindow)
	for day := keys.latest().Day(); day >= since.Day(); day-- {
		rows, err := h.engagement.change([]any{e.MS, model.MaxEngagement.Milliseconds(), e.Scroll, e.SiteID, e.PageviewID, since, int64(day)})
		if err != nil || rows > 0 {
			return err
		}
	}

	return nil
}

func execEach[Row any](stmt *sqliteStmt, rows []Row, args func(*Row) []any) error {
	for i := range rows {
		if err := stmt.exec(args(&rows[i])...); err != nil {
			return err
		}
	}
	return nil
}

// blobOrNull stores no bytes as NULL.
func blobOrNull(b []byte) any {
	if b == nil {
		return nil
	}
	return b
}

func prepareHits(ctx context.Context, conn *SQLiteConn) (*sqliteStatements, error) {
	var s sqliteStatements

	// INDEXED BY: without statistics SQLite believes that a site has ten visits, and reads them
	// all. The index ends with the primary key's id, so that a LIMIT bounds what is read whatever
	// the visitor did.
	const (
		visit       = `v.id, v.started_at, v.last_pageview_at, v.pageviews, v.user_id, v.n, v.recent, v.awaited, v.utm_source, v.utm_campaign`
		attribution = `v.channel, v.utm_medium, v.gclid, v.gbraid, v.wbraid, v.fbclid, v.msclkid`
		newest      = ` FROM visits v INDEXED BY visits_visitor
		 WHERE v.site_id = ? AND v.started_at / 86400000000 = ? AND v.visitor = ? ORDER BY v.id DESC LIMIT ` + newestVisits
	)
	for query, stmt := range map[string]**sqliteStmt{
		`SELECT u.used, s.monthly_pageviews FROM site_usage u JOIN sites s ON s.id = u.site_id
		 WHERE u.site_id = ? AND u.month = ?`: &s.readUsage,
		`INSERT INTO site_usage (site_id, month, used) SELECT id, ?2, 0 FROM sites WHERE id = ?1`: &s.addUsage,
		`SELECT ` + visit + newest:                      &s.readVisits,
		`SELECT ` + visit + `, ` + attribution + newest: &s.readAttribution,
		`SELECT ` + visit + `, ` + attribution + ` FROM (SELECT visit_id, at FROM pageviews INDEXED BY pageviews_id
		 WHERE site_id = ?1 AND at / 86400000000 = ?2 AND id = ?3 ORDER BY at DESC LIMIT 16) p
		 CROSS JOIN visits v ON v.site_id = ?1 AND v.id = p.visit_id AND v.visitor = ?4
		 ORDER BY p.at DESC LIMIT 1`: &s.readViewed,
		`SELECT event FROM transactions WHERE site_id = ? AND transaction_id = ?`: &s.readTransaction,
		`INSERT INTO visits (site_id, id, visitor, started_at, last_pageview_at, pageviews, n, recent, awaited, channel, user_id, referrer,
		 utm_source, utm_medium, utm_campaign, utm_content, utm_term, gclid, gbraid, wbraid, fbclid, msclkid)
		 VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`: &s.newVisit,
		`UPDATE visits SET last_pageview_at = ?, pageviews = ?, recent = ?, awaited = ?, user_id = coalesce(?, user_id)
		 WHERE site_id = ? AND id = ?`: &s.continueVisit,
		`INSERT INTO pageviews (site_id, at, id, visit_id, engaged_ms, scroll, width_range, manual, path, language)
		 VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`: &s.pageview,
		`INSERT INTO events (site_id, at, id, visit_id, name, path, value, currency, transaction_id, properties)
		 VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`: &s.event,
		`INSERT INTO transactions (site_id, transaction_id, event, at) VALUES (?, ?, ?, ?)`: &s.transaction,
		`INSERT INTO deliveries (site_id, id, kind, event, state, attempts, created_at, next_attempt_at, body)
		 VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)`: &s.delivery,
		`UPDATE pageviews SET engaged_ms = min(engaged_ms + ?1, ?2), scroll = max(scroll, ?3)
		 WHERE site_id = ?4 AND id = ?5 AND at =
		 (SELECT max(at) FROM pageviews INDEXED BY pageviews_id
		  WHERE site_id = ?4 AND at / 86400000000 = ?7 AND id = ?5 AND at >= ?6)`: &s.engagement,
		`UPDATE site_usage SET used = ? WHERE site_id = ? AND month = ?`: &s.setUsed,
	} {
		prepared, err := prepareSQLite(ctx, conn, query)
		if err != nil {
			_ = s.Close()
			return nil, err
		}

		*stmt = prepared
		s.all = append(s.all, prepared)
	}

	return &s, nil
}

// Close leaves the connection, which is the database's, and with it the statements.
func (h *sqliteHits) Close() error { return nil }
