package jobs_test

import (
	"fmt"
	"testing"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/dbtest"
	"github.com/tallygate/tallygate/db/model"
)

// TestConsumedIsDeleted: the worker deletes consumed challenges and tokens a while after they
// expired.
func TestConsumedIsDeleted(t *testing.T) {
	t.Parallel()

	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		edge := model.At(noon).Add(-model.ConsumedRetention)
		for i, at := range []model.Instant{edge - 1, edge, model.At(noon)} {
			if err := dbtest.Exec(d, "INSERT INTO captcha_spent (account_id, issued_at, id) VALUES (?, ?, ?)", i%2, at, []byte("0123456789abcdef")); err != nil {
				t.Fatal(err)
			}
		}

		startWorker(t, d, "", (&clock{now: noon}).Now, nil)
		awaitThat(t, func() (string, bool) {
			n, err := dbtest.Count(d, "captcha_spent")
			if err != nil {
				t.Fatal(err)
			}
			return fmt.Sprintf("%d consumed ones remain, want 2", n), n == 2
		})
	})
}
