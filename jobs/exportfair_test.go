package jobs_test

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/dbtest"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/jobs"
)

// silentReceiver takes calls and answers none until the function it returns is called.
func silentReceiver(tb testing.TB, a *authority) (r *receiver, answer func()) {
	tb.Helper()
	hold := make(chan struct{})
	r = newReceiver(tb, a, func(_ int, _ http.ResponseWriter, _ *http.Request) { <-hold })
	return r, func() { close(hold) }
}

// endless makes a worker wait for receivers for as long as a test takes.
func endless(j *jobs.Jobs) {
	j.CallTimeout(2 * patience)
	j.AttemptTimeout(2 * patience)
}

// TestExportsHoldNobodyUp: while the exports of more sites than a worker has places for wait for a receiver that says nothing,
// a conversion of another site is delivered.
func TestExportsHoldNobodyUp(t *testing.T) {
	t.Parallel()
	a := newAuthority(t)
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		silent, answer := silentReceiver(t, a)
		at := model.At(noon)
		for i := range 300 {
			site := newSite(t, d, fmt.Sprintf("export%d.example", i), "", "")
			if err := d.SetDailyExportWebhook(t.Context(), site.AccountID, site.ID, silent.URL, at); err != nil {
				t.Fatal(err)
			}
			err := dbtest.Exec(d, `INSERT INTO deliveries (site_id, id, kind, event, state, attempts, created_at, next_attempt_at, body)
VALUES (?, ?, 'daily_export', '2026-11-19', 'pending', 0, ?, ?, ?)`, site.ID, model.NewTimeID(at), at, at,
				fmt.Sprintf(`{"day":%d,"part":1,"parts":1}`, at.Day()-1))
			if err != nil {
				t.Fatal(err)
			}
		}
		r := newReceiver(t, a, status(200))
		startQuick(t, d, a, (&clock{now: noon}).Now, func(j *jobs.Jobs) { j.Quick(500*time.Millisecond, time.Hour) }, endless)
		t.Cleanup(answer)
		awaitThat(t, func() (string, bool) { return "no export is called for", len(silent.all()) > 0 })
		site := newSite(t, d, "shop.example", r.URL, "")
		for i := range 20 { // the first ones may come before the exports have filled the places
			log := awaitEnd(t, d, site, due(t, d, site, noon.Add(-time.Duration(i)*time.Second)).ID)
			if log.State != model.DeliveryDelivered {
				t.Errorf("delivery %+v", log.Delivery)
			}
		}
	})
}
