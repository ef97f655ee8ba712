package jobs_test

import (
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/hibiken/asynq"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/outbox"
	"github.com/tallygate/tallygate/db/sites"
	"github.com/tallygate/tallygate/jobs"
	"github.com/tallygate/tallygate/tools/dbtest"
	"github.com/tallygate/tallygate/tools/redistest"
	"github.com/tallygate/tallygate/tools/testkit"
)

// faultRounds is the number of faults on each database.
const faultRounds = 55

// TestFaultsRealRedis checks that faults of Redis and of the workers lose no due delivery, and that
// no delivery is sent more often than the schedule allows. Two workers, each with its own schedule,
// run all the time.
func TestFaultsRealRedis(t *testing.T) {
	dbtest.ParallelURL(t, func(t *testing.T, databaseURL string) {
		t.Parallel()

		d := dbtest.Open(t, databaseURL)
		server := redistest.New(t)
		a := newAuthority(t)
		random := rand.New(rand.NewPCG(1, 2))

		// The worker that is killed during its next call.
		var victim atomic.Pointer[process]
		var r *receiver
		r = newReceiver(t, a, func(n int, w http.ResponseWriter, _ *http.Request) {
			if p := victim.Swap(nil); p != nil {
				_ = p.Process.Kill()

				// There is no response, even if the other worker called.
				panic(http.ErrAbortHandler)
			}

			code := 200

			if n%7 == 3 {
				code = 500
			}

			r.answered(n, code)
			w.WriteHeader(code)
		})

		sites := make([]*model.Site, 3)
		for i := range sites {
			sites[i] = newSite(t, d, fmt.Sprintf("site%d.example", i), r.URL, "")
		}

		began := time.Now()
		clock := &fastClock{start: noon, began: began, factor: speed}
		usual := fate{DatabaseURL: databaseURL, RedisURL: server.URL(), CA: pemOf(a), Began: began}
		workers := []*process{startProcess(t, usual), startProcess(t, usual)}
		for round := range faultRounds {
			for _, site := range sites {
				due(t, d, site, clock.Now())
			}

			mortal := usual

			switch kind := round % 6; kind {
			case 0:
				testkit.NoError(t, server.Client().FlushAll(t.Context()).Err())

				continue
			case 1:
				// A restart takes long, so it is done now and then.
				if round%4 == 1 {
					server.Kill()
					server.Start()
				} else if err := server.Client().FlushAll(t.Context()).Err(); err != nil {
					t.Fatal(err)
				}

				continue
			case 2:
				mortal.DieBefore = 1 + random.Int32N(3)
			case 3:
				mortal.DieAfter = 1 + random.Int32N(3)
			case 4, 5:
				// It is killed during a call, or at any time; see below.
			}

			i := random.IntN(2)
			workers[i].kill()
			workers[i] = startProcess(t, mortal)

			switch round % 6 {
			case 4:
				victim.Store(workers[i])
			case 5:
				time.AfterFunc(time.Duration(random.IntN(50))*time.Millisecond, func() { _ = workers[i].Process.Kill() })
			}

			for p := workers[i]; ; {
				due(t, d, sites[random.IntN(3)], clock.Now())

				select {
				case <-p.ended:
				case <-time.After(20 * time.Millisecond):
					continue
				}

				break
			}

			victim.Store(nil)
			workers[i] = startProcess(t, usual)
		}

		awaitThat(t, func() (string, bool) {
			backlog, err := outbox.New(d).DeliveryBacklog(t.Context(), model.At(clock.Now()))
			return fmt.Sprintf("%+v, %v", backlog, err), err == nil && backlog.Pending == 0
		})

		all, twice := checkOutcome(t, d, sites, r, func(call received) bool { return call.status == 200 })
		t.Logf(
			"%d rounds: %d deliveries in %v, %d calls, %d arrived twice", faultRounds, all,
			time.Since(began).Round(time.Second), len(r.all()), twice,
		)
	})
}

// TestPausedWorkerRealRedis: a worker that was paused between its lease and its call, for longer
// than the lease, does not make the call when it continues: another worker has made it.
func TestPausedWorkerRealRedis(t *testing.T) {
	dbtest.ParallelURL(t, func(t *testing.T, databaseURL string) {
		t.Parallel()

		d := dbtest.Open(t, databaseURL)
		a := newAuthority(t)
		r := newReceiver(t, a, status(200))
		site := newSite(t, d, "shop.example", r.URL, "")
		began := time.Now()
		clock := &fastClock{start: noon, began: began, factor: speed}
		f := fate{DatabaseURL: databaseURL, RedisURL: redistest.New(t).URL(), CA: pemOf(a), Began: began, StopBefore: 1}
		paused := startProcess(t, f)
		delivery := due(t, d, site, clock.Now())
		awaitThat(t, func() (string, bool) {
			return "no attempt has begun", len(logOf(t, d, site, delivery.ID).Attempts) == 1
		})

		// It stops some time after it has begun the attempt. A signal to continue before that would
		// be lost.
		awaitThat(t, func() (string, bool) { return "the worker has not stopped", paused.isStopped() })

		f.StopBefore = 0
		startProcess(t, f)
		log := awaitEnd(t, d, site, delivery.ID)

		testkit.NoError(t, paused.Process.Signal(syscall.SIGCONT))

		// The paused worker records its attempt.
		awaitThat(t, func() (string, bool) {
			log = logOf(t, d, site, delivery.ID)
			return fmt.Sprintf("the first attempt is %q", log.Attempts[0].Error), log.Attempts[0].Error == model.AttemptTimeout
		})

		// On a busy machine an attempt of the other worker may time out as well.
		tries, calls := len(log.Attempts), len(r.all())
		if log.State != model.DeliveryDelivered || tries < 2 || calls > tries-1 {
			t.Errorf("%s after %d attempts and %d calls, want delivered, and no call by the first attempt", log.State, tries, calls)
		}
	})
}

// TestClockSteps sets the clock by an hour and back while deliveries are in progress, and checks
// that each delivery is made once.
func TestClockSteps(t *testing.T) {
	t.Parallel()

	a := newAuthority(t)
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		clock := newFastClock(1)

		// Each call sets the clock.
		r := newReceiver(t, a, func(n int, _ http.ResponseWriter, _ *http.Request) {
			clock.Add([]time.Duration{time.Hour, -time.Hour}[n%2])
		})

		site := newSite(t, d, "shop.example", r.URL, "")
		const n = 60
		for i := range n {
			due(t, d, site, noon.Add(-time.Duration(100*i)*time.Hour))
		}

		startQuick(t, d, a, clock.Now, jobs.Quick(50*time.Millisecond, time.Minute))
		awaitThat(t, func() (string, bool) {
			// The last step must not set the clock back.
			clock.Add(time.Hour)
			backlog, err := outbox.New(d).DeliveryBacklog(t.Context(), model.At(noon.AddDate(1, 0, 0)))
			return fmt.Sprintf("%+v, %v", backlog, err), err == nil && backlog.Pending == 0
		})

		checkOutcome(t, d, []*model.Site{site}, r, func(received) bool { return true })

		testkit.Equal(t, len(r.all()), n, "calls for %d deliveries", n)
	})
}

// TestLostInACallRealRedis loses Redis during a call, and restarts it empty. Neither this nor
// asynq, which cancels the call's task, must end the call or its lease. No delivery is lost or made
// twice, including deliveries that became due during the outage and were made without Redis.
func TestLostInACallRealRedis(t *testing.T) {
	dbtest.Parallel(t, func(t *testing.T, d *db.DB) {
		const n = 5
		server, a, logged := redistest.New(t), newAuthority(t), &countHandler{}
		silent, answer := silentReceiver(t, a)
		r := newReceiver(t, a, status(200))
		held, other := newSite(t, d, "held.example", silent.URL, ""), newSite(t, d, "shop.example", r.URL, "")
		startOn(t, server.URL(), a, jobs.Options{DB: d, Now: testkit.NewClock(noon).Now, Log: slog.New(logged)}, endless)
		t.Cleanup(answer)
		called := due(t, d, held, noon)
		awaitThat(t, func() (string, bool) { return "no call has begun", len(silent.all()) > 0 })

		server.Kill()
		var later []*model.Delivery
		for range n {
			later = append(later, due(t, d, other, noon))
		}

		awaitThat(t, func() (string, bool) {
			return "the outage is not logged", logged.of("the queue is unavailable; workers take due work from the database") > 0
		})

		for _, delivery := range later {
			if log := awaitEnd(t, d, other, delivery.ID); log.State != model.DeliveryDelivered || len(log.Attempts) != 1 {
				t.Errorf("%s after %d attempts", log.State, len(log.Attempts))
			}
		}

		server.Start()
		failed := logged.of("task failed")
		inspector := asynq.NewInspectorFromRedisClient(server.Client())

		// asynq does so by itself after an outage of half a minute.
		awaitThat(t, func() (string, bool) {
			err := inspector.CancelProcessing(fmt.Sprintf("%d:%d:1", held.ID, called.ID))
			return fmt.Sprintf("asynq has not canceled the call's task, %v", err), logged.of("task failed") > failed
		})

		if log := logOf(t, d, held, called.ID); log.State != model.DeliveryPending || len(log.Attempts) != 1 ||
			log.Attempts[0].Error != model.AttemptUnfinished {
			t.Errorf("during the call: delivery %+v, attempts %s", log.Delivery, describe(log.Attempts))
		}

		answer()

		if log := awaitEnd(t, d, held, called.ID); log.State != model.DeliveryDelivered || len(log.Attempts) != 1 ||
			log.Attempts[0].Error != "" ||
			log.Attempts[0].Status != 200 {
			t.Errorf("delivery %+v, attempts %s", log.Delivery, describe(log.Attempts))
		}

		if len(silent.all()) != 1 || len(r.all()) != n {
			t.Errorf("%d and %d calls, want 1 and %d", len(silent.all()), len(r.all()), n)
		}
	})
}

// TestSecretThatDoesNotOpen checks that a delivery is never sent unsigned if its secret was
// encrypted with another key. It fails after five attempts of the class internal, and the owner
// gets a mail; other sites' deliveries are not delayed. With a new secret it can be sent again.
func TestSecretThatDoesNotOpen(t *testing.T) {
	t.Parallel()

	a := newAuthority(t)
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		clock := testkit.NewClock(noon)
		r, well := newReceiver(t, a, status(200)), newReceiver(t, a, status(200))
		site := newSite(t, d, "shop.example", r.URL, "a secret of the site")

		other := newSite(t, d, "other.example", well.URL, "a secret of the site")
		if err := dbtest.Exec(d, "UPDATE sites SET conversion_webhook_secret = (SELECT conversion_webhook_secret FROM sites WHERE id = ?) WHERE id = ?", other.ID, site.ID); err != nil {
			// The encryption binds the secret to its site.
			t.Fatal(err)
		}

		delivery := due(t, d, site, noon)
		startQuick(t, d, a, clock.Now)

		// A correction of times that had read the clock before it jumped makes an attempt due early.
		for n := range model.MaxAttempts {
			awaitThat(t, func() (string, bool) {
				log := logOf(t, d, site, delivery.ID)
				return fmt.Sprintf("%+v, attempts %s; want %d", log.Delivery, describe(log.Attempts), n+1),
					len(log.Attempts) > n && log.Attempts[n].Error == model.AttemptInternal && log.LeasedUntil == 0
			})

			behind := due(t, d, other, clock.Now())
			awaitDelivered(t, d, other, behind.ID)
			log := logOf(t, d, site, delivery.ID)
			if len(log.Attempts) < model.MaxAttempts && log.State != model.DeliveryPending {
				t.Errorf("%s after attempt %d", log.State, len(log.Attempts))
			}

			clock.Add(12 * time.Hour)
		}

		log := awaitEnd(t, d, site, delivery.ID)
		if log.State != model.DeliveryFailed || len(log.Attempts) != model.MaxAttempts ||
			log.Delivery.ScheduledAttempts != model.MaxAttempts {
			t.Errorf("delivery %+v, attempts %s", log.Delivery, describe(log.Attempts))
		}

		for _, attempt := range log.Attempts {
			if attempt.Error != model.AttemptInternal || attempt.Status != 0 || attempt.Answer != "" {
				t.Errorf("attempt %+v, want an internal error without a response", *attempt)
			}
		}

		testkit.Equal(t, len(r.all()), 0, "calls were made without the secret")

		mails, err := dbtest.Rows[model.Mail](d, "SELECT * FROM mails WHERE kind = 'delivery_failed'")
		if err != nil || len(mails) != 1 || mails[0].Recipient != "owner@shop.example" {
			t.Errorf("mails %+v, %v; want one to the site's owner", mails, err)
		}

		secret := "another secret of the site"
		testkit.NoError(t, sites.New(d).Sites.SetConversionWebhook(t.Context(), site.AccountID, site.ID, r.URL, &secret, model.ChangedBy{}))
		if _, err := outbox.New(d).Redeliver(t.Context(), site.AccountID, site.ID, delivery.ID, model.At(clock.Now())); err != nil {
			t.Fatal(err)
		}

		if log := awaitEnd(t, d, site, delivery.ID); log.State != model.DeliveryDelivered ||
			len(log.Attempts) != model.MaxAttempts+1 {
			t.Errorf("delivery %+v, attempts %s", log.Delivery, describe(log.Attempts))
		}

		if calls := r.all(); len(calls) != 1 || calls[0].header.Get("X-Service-Signature") == "" {
			t.Errorf("calls %+v, want one that is signed", calls)
		}
	})
}
