package jobs_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/dbtest"
	"github.com/tallygate/tallygate/db/model"
)

// TestDeletedSitesArePurged: the worker deletes what a deleted site has left, however much that is, and secrets that are too
// old; the rows of other sites stay.
func TestDeletedSitesArePurged(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		const many = 2_500 // more than one transaction's share
		at := model.At(noon)
		user, err := d.SignUp(t.Context(), model.SignupsOpen, model.Account{Name: "a", CreatedAt: at},
			model.User{Email: "owner@example.com", PasswordHash: "-", CreatedAt: at})
		if err != nil {
			t.Fatal(err)
		}
		pageviews := `WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < %d)
			INSERT INTO pageviews (site_id, at, id, visit_id, engaged_ms, scroll, width_range, manual, path) SELECT %d, %d, i, 1, 0, 0, 0, false, '/' FROM n`
		for _, statement := range []string{
			fmt.Sprintf("INSERT INTO deleted_sites (site_id, deleted_at) VALUES (7, %d), (8, %d)", at, at.Add(-time.Hour)),
			fmt.Sprintf(pageviews, many, 7, at),
			fmt.Sprintf(pageviews, 3, 8, at),
			fmt.Sprintf(pageviews, 5, 9, at),
			fmt.Sprintf("INSERT INTO password_resets (token_hash, user_id, expires_at) VALUES ('old', %d, %d), ('new', %[1]d, %[3]d)", user.ID, at, at.Add(time.Second)),
		} {
			if err := dbtest.Exec(d, statement); err != nil {
				t.Fatal(err)
			}
		}
		startWorker(t, d, "", (&clock{now: noon}).Now, nil)
		awaitThat(t, func() (string, bool) {
			var got [3]int
			for i, table := range []string{"pageviews", "deleted_sites", "password_resets"} {
				if got[i], err = dbtest.Count(d, table); err != nil {
					t.Fatal(err)
				}
			}
			want := [3]int{5, 1, 1} // site 7 was deleted just now: it is looked after for an hour
			return fmt.Sprintf("page views, deleted sites, password resets left: %v, want %v", got, want), got == want
		})
	})
}
