package dbtest

import (
	"fmt"
	"strings"
	"testing"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/tools/testkit"
)

// DeliveryLog is a delivery with all its attempts, the first one first.
type DeliveryLog struct {
	*model.Delivery
	Attempts []*model.DeliveryAttempt
}

// Deliveries returns at most limit deliveries of a site, the newest first, starting below the id
// before (0 for the newest).
func Deliveries(d *db.DB, siteID model.SiteID, before int64, limit int) ([]DeliveryLog, error) {
	var deliveries []*model.Delivery
	var attempts []*model.DeliveryAttempt
	err := snapshot(d, func(rows func(into any, query string, args ...any) error) error {
		err := rows(&deliveries, "SELECT * FROM deliveries WHERE site_id = ? AND (? = 0 OR id < ?) ORDER BY id DESC LIMIT ?",
			siteID, before, before, limit)
		if err != nil {
			return err
		}
		return rows(&attempts, "SELECT * FROM delivery_attempts WHERE site_id = ? ORDER BY n", siteID)
	})
	if err != nil {
		return nil, err
	}

	of := make(map[int64][]*model.DeliveryAttempt)
	for _, attempt := range attempts {
		of[attempt.DeliveryID] = append(of[attempt.DeliveryID], attempt)
	}

	logs := make([]DeliveryLog, len(deliveries))
	for i, delivery := range deliveries {
		logs[i] = DeliveryLog{delivery, of[delivery.ID]}
	}

	return logs, nil
}

// RefuseDeliveries makes the database refuse new deliveries of some sites, with an error that
// contains "planted", until repair is called.
func RefuseDeliveries(tb testing.TB, d *db.DB, siteIDs ...model.SiteID) (repair func()) {
	tb.Helper()

	ids := strings.Trim(strings.Join(strings.Fields(fmt.Sprint(siteIDs)), ", "), "[]")
	plant := []string{"CREATE TRIGGER refuse_deliveries BEFORE INSERT ON deliveries WHEN NEW.site_id IN (" + ids + `)
		BEGIN SELECT RAISE(ABORT, 'planted'); END`}

	remove := []string{"DROP TRIGGER refuse_deliveries"}

	if d.Dialect() == "postgres" {
		// Citus has no triggers on distributed tables.
		plant = []string{"ALTER TABLE deliveries ADD CONSTRAINT planted CHECK (site_id NOT IN (" + ids + ")) NOT VALID"}
		remove = []string{"ALTER TABLE deliveries DROP CONSTRAINT planted"}
	}

	execAll(tb, d, plant)
	return func() {
		tb.Helper()
		execAll(tb, d, remove)
	}
}

// RefuseRows makes the database refuse new rows of a common table, with an error that contains
// "planted", until repair is called.
func RefuseRows(tb testing.TB, d *db.DB, table string) (repair func()) {
	tb.Helper()
	plant := "CREATE TRIGGER refuse_rows BEFORE INSERT ON " + table + " BEGIN SELECT RAISE(ABORT, 'planted'); END"
	remove := "DROP TRIGGER refuse_rows"
	if d.Dialect() == "postgres" {
		plant = "ALTER TABLE " + table + " ADD CONSTRAINT planted CHECK (false) NOT VALID"
		remove = "ALTER TABLE " + table + " DROP CONSTRAINT planted"
	}

	execAll(tb, d, []string{plant})
	return func() {
		tb.Helper()
		execAll(tb, d, []string{remove})
	}
}

func execAll(tb testing.TB, d *db.DB, statements []string) {
	tb.Helper()
	for _, statement := range statements {
		testkit.NoError(tb, Exec(d, statement))
	}
}
