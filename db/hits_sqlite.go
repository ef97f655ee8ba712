package db

import (
	"context"
	"database/sql"
	"errors"

	"github.com/tallygate/tallygate/db/model"
)

// sqliteHits runs a batch on the writing connection with prepared statements, row by row: the rows need no network here,
// and larger statements measured no faster.
type sqliteHits struct {
	db         *sql.DB
	statements *sqliteStatements // nil until needed
}

type sqliteStatements struct {
	readUsage, addUsage, readVisits, readAttribution, readTransaction, readAutomatic *sql.Stmt
	newVisit, continueVisit, pageview, engagement                                    *sql.Stmt
	event, transaction, delivery, setUsed                                            *sql.Stmt

	all []*sql.Stmt
}

func (s *sqliteStatements) close() {
	for _, stmt := range s.all {
		_ = stmt.Close() // it may have gone with its connection
	}
}

func newSQLiteHits(db *sql.DB) *sqliteHits { return &sqliteHits{db: db} }

func (h *sqliteHits) Update(ctx context.Context, keys HitKeys, decide func(*HitState) *HitChanges) error {
	return repeat(func() error { return h.update(ctx, keys, decide) })
}

func (h *sqliteHits) update(ctx context.Context, keys HitKeys, decide func(*HitState) *HitChanges) error {
	if err := h.prepare(ctx); err != nil {
		return err
	}
	tx, err := h.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	if err := h.run(tx, keys, decide); err != nil {
		return errors.Join(err, tx.Rollback())
	}
	return tx.Commit()
}

// run does not pass the context on: the transaction already ends with it, and nothing in here waits.
func (h *sqliteHits) run(tx *sql.Tx, keys HitKeys, decide func(*HitState) *HitChanges) error {
	state, err := h.read(tx, keys)
	if err != nil {
		return err
	}
	return h.write(tx, keys, decide(state))
}

func (h *sqliteHits) read(tx *sql.Tx, keys HitKeys) (*HitState, error) {
	state := newHitState(keys)
	for _, read := range []func(*sql.Tx, HitKeys, *HitState) error{
		h.readUsage, h.readVisits, h.readAttribution, h.readTransactions, h.readAutomatic,
	} {
		if err := read(tx, keys, state); err != nil {
			return nil, err
		}
	}
	return state, nil
}

func (h *sqliteHits) readUsage(tx *sql.Tx, keys HitKeys, state *HitState) error {
	read, add := tx.Stmt(h.statements.readUsage), tx.Stmt(h.statements.addUsage)
	for _, key := range keys.Usage {
		usage, err := sqliteUsage(read, key)
		if errors.Is(err, sql.ErrNoRows) { // the first hits of a month, or a site that is gone
			if _, err := add.Exec(key.SiteID, key.Month); err != nil {
				return err
			}
			usage, err = sqliteUsage(read, key)
		}
		switch {
		case err == nil:
			state.Usage[key] = usage
		case !errors.Is(err, sql.ErrNoRows):
			return err
		}
	}
	return nil
}

func sqliteUsage(stmt *sql.Stmt, key model.UsageKey) (u Usage, err error) {
	err = stmt.QueryRow(key.SiteID, key.Month).Scan(&u.Used, &u.Quota)
	return u, err
}

func (h *sqliteHits) readVisits(tx *sql.Tx, keys HitKeys, state *HitState) error {
	return queryEach(tx, h.statements.readVisits, keys.Visitors,
		func(k *model.VisitorKey) []any { return []any{k.SiteID, k.Visitor[:]} },
		func(k *model.VisitorKey, rows *sql.Rows) error {
			v := model.Visit{SiteID: k.SiteID, Visitor: k.Visitor}
			var source, campaign *string
			if err := rows.Scan(&v.ID, &v.StartedAt, &v.LastPageviewAt, &v.Pageviews, &v.UserID, &source, &campaign); err != nil {
				return err
			}
			v.Source, v.Name = orEmpty(source), orEmpty(campaign)
			state.keepNewest(v)
			return nil
		})
}

func (h *sqliteHits) readAttribution(tx *sql.Tx, keys HitKeys, state *HitState) error {
	return queryEach(tx, h.statements.readAttribution, keys.Converting,
		func(k *model.VisitorKey) []any { return []any{k.SiteID, k.Visitor[:]} },
		func(k *model.VisitorKey, rows *sql.Rows) error {
			v := model.Visit{SiteID: k.SiteID, Visitor: k.Visitor}
			var source, campaign, medium, gclid, gbraid, wbraid, fbclid, msclkid *string
			if err := rows.Scan(&v.ID, &v.StartedAt, &v.LastPageviewAt, &v.Pageviews, &v.UserID, &source, &campaign,
				&v.Channel, &medium, &gclid, &gbraid, &wbraid, &fbclid, &msclkid); err != nil {
				return err
			}
			v.Source, v.Name, v.Medium = orEmpty(source), orEmpty(campaign), orEmpty(medium)
			v.Gclid, v.Gbraid, v.Wbraid = orEmpty(gclid), orEmpty(gbraid), orEmpty(wbraid)
			v.Fbclid, v.Msclkid = orEmpty(fbclid), orEmpty(msclkid)
			state.keepNewest(v)
			return nil
		})
}

func (h *sqliteHits) readTransactions(tx *sql.Tx, keys HitKeys, state *HitState) error {
	return queryEach(tx, h.statements.readTransaction, keys.Transactions,
		func(k *model.TransactionKey) []any { return []any{k.SiteID, k.TransactionID} },
		func(k *model.TransactionKey, rows *sql.Rows) error {
			var event string
			err := rows.Scan(&event)
			state.Transactions[*k] = event
			return err
		})
}

func (h *sqliteHits) readAutomatic(tx *sql.Tx, keys HitKeys, state *HitState) error {
	window := DuplicateWindow.Microseconds()
	return queryEach(tx, h.statements.readAutomatic, keys.Manual,
		func(m *ManualPageview) []any {
			return []any{m.Visitor.SiteID, m.Visitor.Visitor[:], m.Path, int64(m.At) - window, int64(m.At) + window}
		},
		func(m *ManualPageview, rows *sql.Rows) error {
			var at *model.Instant
			err := rows.Scan(&at)
			if at != nil {
				state.AddAutomatic(AutomaticKey{Visitor: m.Visitor, Path: m.Path}, *at)
			}
			return err
		})
}

// queryEach asks one statement for each key and hands every row of the answers over.
func queryEach[Key any](tx *sql.Tx, stmt *sql.Stmt, keys []Key, args func(*Key) []any, scan func(*Key, *sql.Rows) error) error {
	if len(keys) == 0 {
		return nil
	}
	inTx := tx.Stmt(stmt)
	for i := range keys {
		rows, err := inTx.Query(args(&keys[i])...)
		if err != nil {
			return err
		}
		for err == nil && rows.Next() {
			err = scan(&keys[i], rows)
		}
		if err := errors.Join(err, rows.Err(), rows.Close()); err != nil {
			return err
		}
	}
	return nil
}

func (h *sqliteHits) write(tx *sql.Tx, keys HitKeys, changes *HitChanges) error {
	s := h.statements
	if err := execEach(tx, s.newVisit, changes.NewVisits, func(v *model.Visit) []any {
		return []any{v.SiteID, v.ID, v.Visitor[:], v.StartedAt, v.LastPageviewAt, v.Pageviews, v.Channel, blobOrNull(v.UserID), orNull(&v.Referrer),
			orNull(&v.Source), orNull(&v.Medium), orNull(&v.Name), orNull(&v.Content), orNull(&v.Term),
			orNull(&v.Gclid), orNull(&v.Gbraid), orNull(&v.Wbraid), orNull(&v.Fbclid), orNull(&v.Msclkid)}
	}); err != nil {
		return err
	}
	if err := execEach(tx, s.continueVisit, changes.Continued, func(v *model.Visit) []any {
		return []any{v.LastPageviewAt, v.Pageviews, blobOrNull(v.UserID), v.SiteID, v.ID}
	}); err != nil {
		return err
	}
	if err := execEach(tx, s.pageview, changes.Pageviews, func(p *model.Pageview) []any {
		return []any{p.SiteID, p.At, p.ID, p.VisitID, p.EngagedMS, p.Scroll, p.WidthRange, p.Manual, p.Path, orNull(&p.Language)}
	}); err != nil {
		return err
	}
	if err := execEach(tx, s.engagement, changes.Engagement, func(e *model.Engagement) []any {
		return []any{e.MS, model.MaxEngagement.Milliseconds(), e.Scroll, e.SiteID, e.PageviewID, keys.Since.Add(-EngagementWindow)}
	}); err != nil {
		return err
	}
	if err := execEach(tx, s.event, changes.Events, func(e *model.Event) []any {
		return []any{e.SiteID, e.At, e.ID, e.VisitID, e.Name, e.Path, valueOrNull(e), orNull(&e.Currency), orNull(&e.TransactionID),
			orNull(&e.Properties)}
	}); err != nil {
		return err
	}
	if err := execEach(tx, s.transaction, changes.Transactions, func(t *model.Transaction) []any {
		return []any{t.SiteID, t.TransactionID, t.Event, t.At}
	}); err != nil {
		return err
	}
	if err := execEach(tx, s.delivery, changes.Deliveries, func(d *model.Delivery) []any {
		return []any{d.SiteID, d.ID, d.Kind, d.Event, d.State, d.Attempts, d.CreatedAt, d.NextAttemptAt, d.Body}
	}); err != nil {
		return err
	}
	setUsed := tx.Stmt(s.setUsed)
	for key, used := range changes.Used {
		if _, err := setUsed.Exec(used, key.SiteID, key.Month); err != nil {
			return err
		}
	}
	return nil
}

func execEach[Row any](tx *sql.Tx, stmt *sql.Stmt, rows []Row, args func(*Row) []any) error {
	if len(rows) == 0 {
		return nil
	}
	inTx := tx.Stmt(stmt)
	for i := range rows {
		if _, err := inTx.Exec(args(&rows[i])...); err != nil {
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

func (h *sqliteHits) prepare(ctx context.Context) error {
	if h.statements != nil {
		return nil
	}
	var s sqliteStatements
	// INDEXED BY: without statistics SQLite believes that a site has ten visits, and reads them all.
	for text, stmt := range map[string]**sql.Stmt{
		`SELECT u.used, s.monthly_pageviews FROM site_usage u JOIN sites s ON s.id = u.site_id
		 WHERE u.site_id = ? AND u.month = ?`: &s.readUsage,
		`INSERT INTO site_usage (site_id, month, used) SELECT id, ?2, 0 FROM sites WHERE id = ?1`: &s.addUsage,
		`SELECT id, started_at, last_pageview_at, pageviews, user_id, utm_source, utm_campaign FROM visits
		 INDEXED BY visits_visitor WHERE site_id = ? AND visitor = ?`: &s.readVisits,
		`SELECT id, started_at, last_pageview_at, pageviews, user_id, utm_source, utm_campaign, channel, utm_medium,
		 gclid, gbraid, wbraid, fbclid, msclkid FROM visits
		 INDEXED BY visits_visitor WHERE site_id = ? AND visitor = ?`: &s.readAttribution,
		`SELECT event FROM transactions WHERE site_id = ? AND transaction_id = ?`: &s.readTransaction,
		`SELECT (SELECT at FROM pageviews WHERE site_id = v.site_id AND at BETWEEN ?4 AND min(?5, v.last_pageview_at)
		   AND visit_id = v.id AND path = ?3 AND NOT manual ORDER BY at DESC LIMIT 1)
		 FROM visits v INDEXED BY visits_visitor
		 WHERE site_id = ?1 AND visitor = ?2 AND last_pageview_at >= ?4`: &s.readAutomatic, // see pgReadAutomatic
		`INSERT INTO visits (site_id, id, visitor, started_at, last_pageview_at, pageviews, channel, user_id, referrer,
		 utm_source, utm_medium, utm_campaign, utm_content, utm_term, gclid, gbraid, wbraid, fbclid, msclkid)
		 VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`: &s.newVisit,
		`UPDATE visits SET last_pageview_at = ?, pageviews = ?, user_id = coalesce(?, user_id)
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
		 (SELECT max(at) FROM pageviews INDEXED BY pageviews_id WHERE site_id = ?4 AND id = ?5 AND at >= ?6)`: &s.engagement,
		`UPDATE site_usage SET used = ? WHERE site_id = ? AND month = ?`: &s.setUsed,
	} {
		prepared, err := h.db.PrepareContext(ctx, text)
		if err != nil {
			s.close()
			return err
		}
		*stmt = prepared
		s.all = append(s.all, prepared)
	}
	h.statements = &s
	return nil
}

// Close leaves the connection, which is the database's.
func (h *sqliteHits) Close() error {
	if h.statements != nil {
		h.statements.close()
		h.statements = nil
	}
	return nil
}
