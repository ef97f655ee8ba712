package cells_test

import (
	"errors"
	"testing"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/cells"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/tools/dbtest"
)

// TestSetSlots checks what a change of slots refuses, and that it keeps the counts.
func TestSetSlots(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		site, store := dbtest.NewOwnSite(t, d, "giant.example"), cells.New(d)
		if !d.IsPostgres() {
			if err := store.SetSlots(t.Context(), site.ID, 4); !errors.Is(err, cells.ErrSlotsSQLite) {
				t.Errorf("error %v", err)
			}
			return
		}

		if err := store.SetSlots(t.Context(), site.ID+1, 4); !errors.Is(err, model.ErrNotFound) {
			t.Errorf("an unknown site: error %v", err)
		}
		for _, slots := range []int{0, -1, model.MaxUsageSlots + 1} {
			if err := store.SetSlots(t.Context(), site.ID, slots); err == nil {
				t.Errorf("%d slots: no error", slots)
			}
		}

		// Two months with counts that no number of slots divides.
		for month, used := range map[int]int{202610: 1_009, 202611: 7} {
			if err := dbtest.Exec(d, "INSERT INTO site_usage (site_id, month, used, reports, reached, noted) VALUES (?, ?, ?, 13, 80, 80)",
				site.ID, month, used); err != nil {
				t.Fatal(err)
			}
		}
		for _, slots := range []int{4, 64, 3, 1} {
			if err := store.SetSlots(t.Context(), site.ID, slots); err != nil {
				t.Fatal(err)
			}
			sums, err := dbtest.Rows[struct{ Rows, Used, Reports, Reached, Noted int64 }](d, `SELECT count(*) AS rows, sum(used)::bigint AS used,
				sum(reports)::bigint AS reports, sum(reached)::bigint AS reached, sum(noted)::bigint AS noted
				FROM site_usage WHERE site_id = ?`, site.ID)
			if err != nil {
				t.Fatal(err)
			}
			if got := sums[0]; got.Rows != int64(2*slots) || got.Used != 1_016 || got.Reports != 26 || got.Reached != 160 || got.Noted != 160 {
				t.Errorf("%d slots: %+v", slots, got)
			}
		}
	})
}
