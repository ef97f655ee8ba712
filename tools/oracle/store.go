package oracle

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/exports"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/reports/segment"
)

// Store stores the rows of days of a site, as ingestion does.
func Store(ctx context.Context, d *db.DB, siteID int64, days ...segment.Rows) error {
	return d.InSiteTx(ctx, model.SiteID(siteID), func(ctx context.Context, tx *db.CellTx) error {
		for i := range days {
			if err := storeDay(ctx, tx, siteID, &days[i]); err != nil {
				return err
			}
		}
		return nil
	})
}

// nullable returns nil for an empty value.
func nullable(text string) any {
	if text == "" {
		return nil
	}
	return text
}

func storeDay(ctx context.Context, tx *db.CellTx, siteID int64, rows *segment.Rows) error {
	var failed error
	exec := func(statement string, args ...any) {
		if _, err := tx.ExecContext(ctx, statement, args...); err != nil && failed == nil {
			failed = err
		}
	}

	word := func(v model.VisitorID) int64 { return int64(binary.BigEndian.Uint64(v[:])) }

	for i := range rows.Visits {
		v := &rows.Visits[i]
		exec(`INSERT INTO visits (site_id, day, visitor, n, started_at, last_pageview_at, pageviews, channel, user_id,
  attribution, client)
VALUES (?, ?, ?, ?, ?, ?, 1, ?, ?, ?, ?)`,
			siteID, rows.Day, word(v.Visitor), v.N, v.StartedAt, v.StartedAt, model.Channel(v.Channel).Number(),
			[]byte(v.UserID), model.PackAttribution(v.Referrer, &v.Campaign), v.Client.Pack())
	}

	for i := range rows.Views {
		v := &rows.Views[i]
		exec(`INSERT INTO pageviews (site_id, at, id, visitor, n, width_range, manual, path, language)
VALUES (?, ?, ?, ?, ?, ?, false, ?, ?)`,
			siteID, v.At, v.ID, word(v.Visitor), v.N, v.Width, v.Path, v.Language)
		exec("INSERT INTO engagement (site_id, day, id, ms, scroll) VALUES (?, ?, ?, ?, ?)",
			siteID, v.At.Day(), v.ID, v.EngagedMS, v.Scroll)
	}

	for i := range rows.Events {
		e := &rows.Events[i]
		var value any
		if e.Currency != "" {
			value = int64(e.Value)
		}
		exec(`INSERT INTO events (site_id, at, id, visitor, n, name, path, value, currency, properties)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
			siteID, e.At, e.ID, word(e.Visitor), e.N, e.Name, e.Path, value, nullable(e.Currency), nullable(e.Properties))
	}

	exec("INSERT INTO site_usage (site_id, month, used) VALUES (?, ?, 1) ON CONFLICT DO NOTHING", siteID, rows.Day.Start().Month())
	return failed
}

// Exported returns the rows of a site's export, which it reads as JSON.
func Exported(ctx context.Context, d *db.DB, siteID int64) ([]segment.Rows, error) {
	var views, events []Row
	add := func(to *[]Row, fields []exports.Field) error {
		text, err := exports.AppendJSON(nil, fields)
		if err != nil {
			return err
		}
		var row Row
		if err := json.Unmarshal(text, &row); err != nil {
			return fmt.Errorf("%s: %w", text, err)
		}
		*to = append(*to, row)
		return nil
	}

	store, all := exports.New(d), exports.Range{SiteID: model.SiteID(siteID), To: 1 << 60, Limit: 1 << 30}
	if err := store.ExportPageviews(ctx, all, func(p *exports.Pageview) error { return add(&views, p.Fields()) }); err != nil {
		return nil, err
	}
	if err := store.ExportEvents(ctx, all, func(e *exports.Event) error { return add(&events, e.Fields()) }); err != nil {
		return nil, err
	}
	return Days(views, events)
}
