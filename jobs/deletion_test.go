package jobs_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/retention"
	"github.com/tallygate/tallygate/tools/dbtest"
	"github.com/tallygate/tallygate/tools/testkit"
	"github.com/tallygate/tallygate/tools/world"
)

// TestErasuresFinish: the worker finishes a requested erasure, and keeps the rows of other users.
func TestErasuresFinish(t *testing.T) {
	dbtest.Parallel(t, func(t *testing.T, d *db.DB) {
		site := newSite(t, d, "shop.example", "", "")
		userID := strings.Repeat("0a", 32)

		at := model.At(noon)
		for i, subject := range [][]byte{model.UserIDKey(model.ApplicationKey(dbtest.ApplicationKey).Derive("user id")).Of(site.ID, userID), []byte("another"), {}} {
			err := dbtest.Exec(
				d,
				"INSERT INTO visits (site_id, visitor, day, n, started_at, last_pageview_at, pageviews, channel, user_id) VALUES (?, ?, ?, 1, ?, ?, 1, 1, ?)",
				site.ID, i, at.Day(), at, at, subject,
			)
			testkit.NoError(t, err)
		}

		e, err := retention.New(d).RequestErasure(t.Context(), site.AccountID, site.ID, userID, at)
		testkit.NoError(t, err)

		startWorker(t, d, "", testkit.NewClock(noon).Now, nil)
		awaitThat(t, func() (string, bool) {
			now, err := retention.New(d).Erasure(t.Context(), site.AccountID, e.ID)
			return fmt.Sprintf("the erasure is %+v, %v", now, err), err == nil && now.FinishedAt == at && now.Visits == 1
		})

		dbtest.HasRows(t, d, "visits", 2, "visits remain")
	})
}

// TestDeletedSitesArePurged: the worker deletes the rows of a deleted site, however many there are,
// and expired secrets; the rows of other sites remain.
func TestDeletedSitesArePurged(t *testing.T) {
	dbtest.Parallel(t, func(t *testing.T, d *db.DB) {
		const many = 2_500 // more than one transaction deletes
		at := model.At(noon)
		user := world.New(t, d).User("owner@example.com")

		pageviews := `WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < %d)
			INSERT INTO pageviews (site_id, at, id, visitor, n, width_range, manual, path) SELECT %d, %d, i, 1, 1, 0, false, '/' FROM n`
		for _, statement := range []string{
			fmt.Sprintf("INSERT INTO deleted_sites (site_id, deleted_at) VALUES (7, %d), (8, %d)", at, at.Add(-time.Hour)),
			fmt.Sprintf(pageviews, many, 7, at),
			fmt.Sprintf(pageviews, 3, 8, at),
			fmt.Sprintf(pageviews, 5, 9, at),
			fmt.Sprintf("INSERT INTO password_resets (token_hash, user_id, expires_at) VALUES ('old', %d, %d), ('new', %[1]d, %[3]d)", user.ID, at,
				at.Add(time.Second)),
		} {
			testkit.NoError(t, dbtest.Exec(d, statement))
		}

		startWorker(t, d, "", testkit.NewClock(noon).Now, nil)
		awaitThat(t, func() (string, bool) {
			var got [3]int
			for i, table := range []string{"pageviews", "deleted_sites", "password_resets"} {
				n, err := dbtest.Count(d, table)
				testkit.NoError(t, err)
				got[i] = n
			}

			// Site 7 was deleted just now: it is purged for an hour.
			want := [3]int{5, 1, 1}
			return fmt.Sprintf("page views, deleted sites, password resets left: %v, want %v", got, want), got == want
		})
	})
}

// TestConsumedIsDeleted: the worker deletes consumed challenges and tokens a while after they
// expired.
func TestConsumedIsDeleted(t *testing.T) {
	dbtest.Parallel(t, func(t *testing.T, d *db.DB) {
		edge := model.At(noon).Add(-model.ConsumedRetention)
		for i, at := range []model.Instant{edge - 1, edge, model.At(noon)} {
			testkit.NoError(t, dbtest.Exec(d, "INSERT INTO captcha_spent (account_id, issued_at, id) VALUES (?, ?, ?)", i%2, at, []byte("0123456789abcdef")))
		}

		startWorker(t, d, "", testkit.NewClock(noon).Now, nil)
		awaitThat(t, func() (string, bool) {
			n, err := dbtest.Count(d, "captcha_spent")
			testkit.NoError(t, err)
			return fmt.Sprintf("%d consumed ones remain, want 2", n), n == 2
		})
	})
}
