package jobs_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/keys"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/outbox"
	"github.com/tallygate/tallygate/db/sites"
	"github.com/tallygate/tallygate/jobs"
	"github.com/tallygate/tallygate/tools/dbtest"
	"github.com/tallygate/tallygate/tools/redistest"
	"github.com/tallygate/tallygate/tools/testkit"
)

// speed is how many times faster the clock of these tests runs: the first four attempts of a
// delivery take two seconds.
const speed = 2000

// patientAttempt is an attempt's time in tests that write full parts of daily exports, which takes
// a busy machine longer than the product allows.
const patientAttempt = 2 * time.Minute

// startQuick starts a worker for receivers on loopback that sweeps often.
func startQuick(
	t *testing.T, d *db.DB, a *authority, now func() time.Time, change ...func(*jobs.Settings),
) *jobs.Worker {
	t.Helper()

	j := newQuick(t, d, a, now, change...)
	run(t, j)

	return j
}

// newQuick returns startQuick's worker before it starts.
func newQuick(
	t *testing.T, d *db.DB, a *authority, now func() time.Time, change ...func(*jobs.Settings),
) *jobs.Worker {
	t.Helper()

	dbtest.SetClock(d, now)

	j, err := jobs.NewWith(jobs.Options{
		DB: d, Now: now, Log: slog.New(slog.NewTextHandler(t.Output(), nil)), WebhookNets: loopback, WebhookAuthorities: a.pool,
	}, append([]func(*jobs.Settings){jobs.Quick(50*time.Millisecond, speed*30*time.Second)}, change...)...)
	testkit.NoError(t, err)

	return j
}

// refusingAddress returns an address that refuses connections while the test runs: a socket is
// bound to it and does not listen.
func refusingAddress(t *testing.T) string {
	t.Helper()

	socket, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	testkit.NoError(t, err)

	t.Cleanup(func() { syscall.Close(socket) })

	testkit.NoError(t, syscall.Bind(socket, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}))

	name, err := syscall.Getsockname(socket)
	testkit.NoError(t, err)

	return fmt.Sprintf("127.0.0.1:%d", name.(*syscall.SockaddrInet4).Port)
}

// TestReceivers: the outcome of a delivery for each behaviour of a receiver. There are at most five
// attempts, 2xx within ten seconds is success, redirects are not followed, and 410 ends it.
func TestReceivers(t *testing.T) {
	t.Parallel()

	a, untrusted := newAuthority(t), newAuthority(t)
	hold := make(chan struct{})
	t.Cleanup(func() { close(hold) })
	elsewhere := newReceiver(t, a, status(200))
	cases := []struct {
		name   string
		answer func(int, http.ResponseWriter, *http.Request)
		url    string // instead of a receiver
		signer *authority
		state  string
		error  string
		tries  int
		status int
	}{
		{name: "200", answer: status(200), state: "delivered", tries: 1, status: 200},
		{name: "204", answer: status(204), state: "delivered", tries: 1, status: 204},
		{name: "302 is not followed", answer: func(_ int, w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, elsewhere.URL, http.StatusFound)
		}, state: "failed", error: "redirect", tries: 5, status: 302},
		{name: "404", answer: status(404), state: "failed", error: "client_error", tries: 5, status: 404},
		{name: "410 ends it", answer: status(410), state: "failed", error: "gone", tries: 1, status: 410},
		{name: "429", answer: status(429), state: "failed", error: "rate_limited", tries: 5, status: 429},
		{name: "500", answer: status(500), state: "failed", error: "server_error", tries: 5, status: 500},
		{name: "second attempt succeeds", answer: func(n int, w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader([]int{503, 200}[min(n, 1)])
		}, state: "delivered", tries: 2, status: 200},
		{name: "hangs up", answer: func(int, http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
			state: "failed", error: "hang_up", tries: 5},
		{name: "endless response", answer: func(_ int, w http.ResponseWriter, r *http.Request) {
			for r.Context().Err() == nil {
				if _, err := w.Write([]byte(strings.Repeat("more ", 100))); err != nil {
					return
				}
				w.(http.Flusher).Flush()
			}
		}, state: "delivered", tries: 1, status: 200},
		{name: "response that stalls", answer: func(_ int, w http.ResponseWriter, r *http.Request) {
			w.Write([]byte("wait"))
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		}, state: "delivered", tries: 1, status: 200},
		{name: "huge header", answer: func(_ int, w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X", strings.Repeat("x", 64<<10))
		}, state: "failed", error: "bad_answer", tries: 5},
		{name: "wrong certificate", answer: status(200), signer: untrusted, state: "failed", error: "tls", tries: 5},
		{name: "connection refused", url: "https://" + refusingAddress(t), state: "failed", error: "connect", tries: 5},
		{name: "no such name", url: "https://nowhere.invalid", state: "failed", error: "no_address", tries: 5},
		{name: "not TLS", url: "https://" + plainServer(t), state: "failed", error: "tls", tries: 5},
	}

	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		clock := newFastClock(speed)
		type running struct {
			site     *model.Site
			delivery *model.Delivery
			receiver *receiver
		}

		all := make([]running, len(cases))
		for i, c := range cases {
			url := c.url
			if url == "" {
				signer := c.signer
				if signer == nil {
					signer = a
				}

				all[i].receiver = newReceiver(t, signer, c.answer)
				url = all[i].receiver.URL + "/hook?a=1"
			}

			all[i].site = newSite(t, d, fmt.Sprintf("site%d.example", i), url, "")
			all[i].delivery = due(t, d, all[i].site, noon)
		}

		startQuick(t, d, a, clock.Now)

		for i, c := range cases {
			log := awaitLast(t, d, clock, all[i].site, all[i].delivery.ID)
			if log.State != c.state || len(log.Attempts) != c.tries || int(log.Delivery.ScheduledAttempts) != c.tries {
				t.Errorf(
					"%s: %s after %d attempts (%d counted), want %s after %d", c.name, log.State, len(log.Attempts),
					log.Delivery.ScheduledAttempts, c.state, c.tries,
				)

				continue
			}

			last := log.Attempts[len(log.Attempts)-1]
			if last.Error != c.error || last.Status != c.status || last.Manual || last.N != int32(c.tries) {
				t.Errorf("%s: last attempt %+v, want error %q, status %d", c.name, *last, c.error, c.status)
			}

			if r := all[i].receiver; r != nil && c.signer == nil {
				calls := r.all()
				if len(calls) != c.tries {
					t.Errorf("%s: the receiver was called %d times, want %d", c.name, len(calls), c.tries)
				}

				for _, call := range calls {
					if call.body != all[i].delivery.Body || call.id() != calls[0].id() ||
						call.header.Get("Content-Type") != "application/json" {
						t.Errorf("%s: call %+v, want the body %s and the id of the first call", c.name, call, all[i].delivery.Body)
					}
				}
			}
		}

		if n := len(elsewhere.all()); n != 0 {
			t.Errorf("the target of a redirect was called %d times", n)
		}
	})
}

// TestSlowReceiver: a response that does not arrive in time is a timeout, whatever it would have
// been.
func TestSlowReceiver(t *testing.T) {
	t.Parallel()

	a := newAuthority(t)
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		r := newReceiver(t, a, func(_ int, _ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
		site := newSite(t, d, "shop.example", r.URL, "")
		delivery := due(t, d, site, noon)
		clock := newFastClock(speed)
		startQuick(t, d, a, clock.Now, jobs.CallTimeout(300*time.Millisecond))

		log := awaitLast(t, d, clock, site, delivery.ID)
		if log.State != model.DeliveryFailed || len(log.Attempts) != model.MaxAttempts {
			t.Errorf("%s after %d attempts", log.State, len(log.Attempts))
		}

		for _, attempt := range log.Attempts {
			if attempt.Error != model.AttemptTimeout || attempt.Status != 0 || attempt.DurationMS < 300 {
				t.Errorf("attempt %+v, want a timeout", *attempt)
			}
		}
	})
}

// plainServer is a server that does not speak TLS.
func plainServer(t *testing.T) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	testkit.NoError(t, err)

	server := &http.Server{Handler: http.NotFoundHandler(), ReadHeaderTimeout: time.Second}
	go server.Serve(l)
	t.Cleanup(func() { server.Close() })

	return l.Addr().String()
}

// TestAttemptsKeepTheSchedule: the five attempts come at 0, 5 s, 5 min, 1 h and 10 h after the
// previous one, a tenth more or less. Retry-After postpones one by up to two hours. The owner gets
// one mail.
func TestAttemptsKeepTheSchedule(t *testing.T) {
	t.Parallel()

	a := newAuthority(t)
	steps := []time.Duration{5 * time.Second, 5 * time.Minute, time.Hour, 10 * time.Hour}
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		clock := testkit.NewClock(noon)
		plain := newReceiver(t, a, status(500))
		patient := newReceiver(t, a, func(_ int, w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", "3600")
			w.WriteHeader(429)
		})

		forever := newReceiver(t, a, func(_ int, w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", noon.AddDate(1, 0, 0).Format(http.TimeFormat))
			w.WriteHeader(503)
		})

		var sites []*model.Site
		var deliveries []*model.Delivery
		for i, r := range []*receiver{plain, patient, forever} {
			sites = append(sites, newSite(t, d, fmt.Sprintf("site%d.example", i), r.URL, ""))
			deliveries = append(deliveries, due(t, d, sites[i], noon))
		}

		j := startQuick(t, d, a, clock.Now)

		// A run of this task with the time before a leap of the clock would take the retries for a
		// wrong clock's.
		awaitThat(t, func() (string, bool) {
			var metrics strings.Builder
			testkit.NoError(t, j.WriteMetrics(&metrics))
			return "the schedule is not corrected", strings.Contains(metrics.String(),
				`tallygate_task_runs_total{outcome="ok",task="housekeeping:schedule"} 1`)
		})

		for n, step := range append(steps, 0) {
			for i, wants := range [][2]time.Duration{
				{step, step}, {max(step, time.Hour), max(step, time.Hour)},
				{max(step, 2*time.Hour), max(step, 2*time.Hour)},
			} {
				var log dbtest.DeliveryLog
				awaitThat(t, func() (string, bool) {
					log = logOf(t, d, sites[i], deliveries[i].ID)
					return fmt.Sprintf("site %d: %d attempts, want %d ended", i, len(log.Attempts), n+1),
						len(log.Attempts) == n+1 && log.LeasedUntil == 0 && log.Attempts[n].Error != model.AttemptUnfinished
				})

				if step == 0 {
					if log = awaitEnd(t, d, sites[i], log.ID); log.State != model.DeliveryFailed {
						t.Errorf("site %d: %s after the last attempt", i, log.State)
					}

					continue
				}

				wait := log.NextAttemptAt.Sub(log.Attempts[n].At)
				if low, high := wants[0]*9/10, wants[1]*11/10; wait < low || wait > high {
					t.Errorf("site %d: attempt %d comes %v after the previous one, want %v to %v", i, n+2, wait, low, high)
				}
			}

			clock.Add(12 * time.Hour)
		}

		mails, err := dbtest.Rows[model.Mail](d, "SELECT * FROM mails WHERE kind = 'delivery_failed' ORDER BY id")
		if err != nil || len(mails) != len(sites) {
			t.Fatalf("%d mails, %v; want one for each site: %+v", len(mails), err, mails)
		}

		if m := mails[0]; m.Recipient != "owner@"+sites[0].Domain && m.Recipient != "owner@"+sites[1].Domain &&
			m.Recipient != "owner@"+sites[2].Domain {
			t.Errorf("mail to %s", m.Recipient)
		}
	})
}

// TestSignatures: both signatures are right, with a secret of either form, at each attempt and for
// a manual redelivery. The library of Standard Webhooks checks the second signature.
func TestSignatures(t *testing.T) {
	t.Parallel()

	a := newAuthority(t)
	for _, test := range []struct {
		name, secret string
		verifier     func(string) (*standardwebhooks.Webhook, error)
	}{
		{"plain", "correct horse battery staple", func(s string) (*standardwebhooks.Webhook, error) {
			return standardwebhooks.NewWebhookRaw([]byte(s))
		}},
		{"whsec", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", standardwebhooks.NewWebhook},
	} {
		t.Run(test.name, func(t *testing.T) {
			dbtest.Each(t, func(t *testing.T, d *db.DB) {
				r := newReceiver(t, a, func(n int, w http.ResponseWriter, _ *http.Request) {
					w.WriteHeader([]int{500, 200, 201}[n])
					fmt.Fprintf(w, "answer %d\x00\x1b", n)
				})

				site := newSite(t, d, "shop.example", r.URL, test.secret)

				// The library compares the timestamp with the machine's clock.
				now := testkit.NewClock(time.Now())
				delivery := due(t, d, site, now.Now())
				startQuick(t, d, a, now.Now, jobs.ShowAnswers)
				awaitThat(t, func() (string, bool) { return "no first attempt", len(r.all()) == 1 })
				awaitThat(t, func() (string, bool) {
					log := logOf(t, d, site, delivery.ID)
					return "the first attempt is not recorded", log.Attempts[0].Error == model.AttemptServerError
				})

				now.Add(10 * time.Second)

				awaitDelivered(t, d, site, delivery.ID)

				now.Add(time.Minute)

				if _, err := outbox.New(d).Redeliver(t.Context(), site.AccountID, site.ID, delivery.ID, model.At(now.Now())); err != nil {
					t.Fatal(err)
				}

				log := awaitEnd(t, d, site, delivery.ID)
				calls := r.all()
				if len(calls) != 3 || len(log.Attempts) != 3 || log.Delivery.ScheduledAttempts != 2 || !log.Attempts[2].Manual ||
					log.Attempts[1].Manual {
					t.Fatalf(
						"%d calls, delivery %+v, attempts %+v; want three calls, the last one manual", len(calls), log.Delivery,
						log.Attempts,
					)
				}

				testkit.Equal(t, log.Attempts[2].Answer, "answer 2", "the stored response")

				verifier, err := test.verifier(test.secret)
				testkit.NoError(t, err)

				ids, err := keys.New(d).NodeIDs(t.Context())
				testkit.NoError(t, err)

				for i, call := range calls {
					mac := hmac.New(sha256.New, []byte(test.secret))
					mac.Write([]byte(call.body))

					if want := "sha256=" + hex.EncodeToString(mac.Sum(nil)); call.header.Get("X-Service-Signature") != want {
						t.Errorf("call %d: X-Service-Signature %q, want %q", i, call.header.Get("X-Service-Signature"), want)
					}
					testkit.Succeeds(t, verifier.Verify([]byte(call.body), call.header), "call %d", i)
					if err := verifier.Verify([]byte(call.body+" "), call.header); err == nil {
						t.Errorf("call %d: another body passes the check, too", i)
					}

					if call.id() != ids.OfDelivery(delivery.SiteID, delivery.ID) || strings.Contains(call.id(), ".") ||
						call.body != delivery.Body {
						t.Errorf("call %d has id %q and body %s", i, call.id(), call.body)
					}
				}

				if calls[0].header.Get("webhook-timestamp") == calls[2].header.Get("webhook-timestamp") {
					t.Error("the last call has the timestamp of the first")
				}
			})
		})
	}
}

// TestOldWebhookSecretSigns: for exactly 24 hours after a change of the secret, a receiver with
// either secret accepts the calls. X-Service-Signature is the new secret's. Without a secret
// nothing is signed at once.
func TestOldWebhookSecretSigns(t *testing.T) {
	t.Parallel()

	const old, fresh = "an old secret of 16 or more", "a new secret of 16 or more"
	a := newAuthority(t)
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		r := newReceiver(t, a, status(200))
		site := newSite(t, d, "shop.example", r.URL, old)
		now := testkit.NewClock(noon)
		startQuick(t, d, a, now.Now)

		change := func(secret string) {
			t.Helper()
			by := model.ChangedBy{At: model.At(now.Now())}
			testkit.NoError(t, sites.New(d).Sites.SetWebhookSecret(t.Context(), site.AccountID, site.ID, &secret, by))
		}

		// check sends a delivery, and compares the number of signatures and the secrets that verify
		// it.
		sent := 0
		check := func(when string, signatures int, secrets ...string) {
			t.Helper()

			delivery := due(t, d, site, now.Now())
			awaitDelivered(t, d, site, delivery.ID)

			call := r.all()[sent]
			sent++

			if got := strings.Fields(call.header.Get("webhook-signature")); len(got) != signatures {
				t.Errorf("%s: signatures %q, want %d", when, got, signatures)
			}

			for _, secret := range secrets {
				verifier, err := standardwebhooks.NewWebhookRaw([]byte(secret))
				testkit.NoError(t, err)
				if err := verifier.VerifyIgnoringTimestamp([]byte(call.body), call.header); err != nil {
					t.Errorf("%s: a receiver with %q: %v", when, secret, err)
				}
			}

			want := ""
			if signatures > 0 {
				mac := hmac.New(sha256.New, []byte(secrets[0]))
				mac.Write([]byte(call.body))
				want = "sha256=" + hex.EncodeToString(mac.Sum(nil))
			}
			testkit.Equal(t, call.header.Get("X-Service-Signature"), want, "%s: X-Service-Signature", when)
		}

		check("before the change", 1, old)
		change(fresh)
		check("after the change", 2, fresh, old)

		// Setting the same secret again does not end the overlap.
		now.Add(time.Hour)
		change(fresh)
		check("after an hour", 2, fresh, old)

		now.Add(23*time.Hour - time.Second)
		check("a second before the end", 2, fresh, old)
		now.Add(time.Second)
		check("at the end", 1, fresh)

		change(old)
		check("after another change", 2, old, fresh)
		change("")
		check("without a secret", 0)
	})
}

// TestPrivateAnswersAreNotShown: of a receiver in a network that only the operator's setting
// allows, the site's owners see the status and not the response.
func TestPrivateAnswersAreNotShown(t *testing.T) {
	t.Parallel()

	a := newAuthority(t)
	for name, test := range map[string]struct {
		change []func(*jobs.Settings)
		want   string
	}{
		"private":   {nil, ""},
		"as public": {[]func(*jobs.Settings){jobs.ShowAnswers}, "internal"}, // shows that the first case proves something
	} {
		t.Run(name, func(t *testing.T) {
			dbtest.Each(t, func(t *testing.T, d *db.DB) {
				r := newReceiver(t, a, func(_ int, w http.ResponseWriter, _ *http.Request) {
					w.WriteHeader(http.StatusGone)
					fmt.Fprint(w, "internal")
				})

				site := newSite(t, d, "shop.example", r.URL, "")
				delivery := due(t, d, site, noon)
				startQuick(t, d, a, testkit.NewClock(noon).Now, test.change...)

				log := awaitEnd(t, d, site, delivery.ID)
				if a := log.Attempts[0]; a.Answer != test.want || a.Status != http.StatusGone || a.Error != model.AttemptGone {
					t.Errorf("attempt %+v, want the answer %q", a, test.want)
				}
			})
		})
	}
}

// TestTestWebhook: a test has a body of its own and is called once.
func TestTestWebhook(t *testing.T) {
	t.Parallel()

	a := newAuthority(t)
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		r := newReceiver(t, a, status(500))
		site := newSite(t, d, "shop.example", r.URL, "")
		delivery, err := outbox.New(d).QueueTestWebhook(t.Context(), site.AccountID, site.ID, model.DeliveryConversion, model.At(noon))
		testkit.NoError(t, err)

		clock := testkit.NewClock(noon)
		startQuick(t, d, a, clock.Now)

		log := awaitEnd(t, d, site, delivery.ID)
		if log.State != model.DeliveryFailed || len(log.Attempts) != 1 {
			t.Errorf("delivery %+v with %d attempts, want it failed after one", log.Delivery, len(log.Attempts))
		}

		want := `{"type":"test","site_key":"` + site.SiteKey + `","sent_at":"2026-11-20T12:00:00Z"}`
		if calls := r.all(); len(calls) != 1 || calls[0].body != want || calls[0].header.Get("webhook-signature") != "" {
			t.Errorf("calls %+v, want one, unsigned, with body %s", calls, want)
		}
		dbtest.HasRows(t, d, "mails", 0, "mails about a test")
	})
}

// TestWaitsForAddress checks that deliveries to a removed address wait without an attempt, and
// arrive when the site has an address again.
func TestWaitsForAddress(t *testing.T) {
	t.Parallel()

	a := newAuthority(t)
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		r := newReceiver(t, a, status(200))
		site := newSite(t, d, "shop.example", "https://shop.example/hook", "")
		delivery := due(t, d, site, noon)
		set := func(address string) {
			t.Helper()
			by := model.ChangedBy{At: model.At(noon)}
			testkit.NoError(t, sites.New(d).Sites.SetConversionWebhook(t.Context(), site.AccountID, site.ID, address, nil, by))
		}

		set("")
		startQuick(t, d, a, testkit.NewClock(noon).Now)
		if log := awaitEnd(t, d, site, delivery.ID); log.State != model.DeliveryWaiting || len(log.Attempts) != 0 {
			t.Errorf("without an address: %+v, attempts %+v", log.Delivery, log.Attempts)
		}

		set(r.URL)
		awaitThat(t, func() (string, bool) {
			log := logOf(t, d, site, delivery.ID)
			return fmt.Sprintf("delivery %+v", log.Delivery), log.State == model.DeliveryDelivered
		})

		log := logOf(t, d, site, delivery.ID)
		if calls := r.all(); len(calls) != 1 || calls[0].body != delivery.Body || len(log.Attempts) != 1 || log.ScheduledAttempts != 1 ||
			log.CalledURL != r.URL {
			t.Errorf("with an address: calls %+v, delivery %+v, attempts %+v", calls, log.Delivery, log.Attempts)
		}
		mails, err := dbtest.Rows[model.Mail](d, "SELECT * FROM mails WHERE kind = 'delivery_failed'")
		if err != nil || len(mails) != 0 {
			t.Errorf("mails %+v, %v", mails, err)
		}
	})
}

// TestOwnersRequests: through Redis, failed deliveries that are sent again keep their message ids,
// a day that is sent again has new message ids and the rows of the day, and a test reaches the
// webhook that it is for.
func TestOwnersRequests(t *testing.T) {
	t.Parallel()

	a := newAuthority(t)
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		// An attempt that failed on a busy machine is repeated 5 s later, long before the next day.
		tenfold := newFastClock(10).Now
		dbtest.SetClock(d, tenfold)
		conversions, days := newReceiver(t, a, status(200)), newReceiver(t, a, status(200))
		site := newSite(t, d, "shop.example", conversions.URL, "")
		now := model.At(noon)
		by := model.ChangedBy{At: now}
		testkit.NoError(t, sites.New(d).Sites.SetDailyExportWebhook(t.Context(), site.AccountID, site.ID, days.URL, by))

		failed := due(t, d, site, noon)
		testkit.NoError(t, dbtest.Exec(d, "UPDATE deliveries SET state = 'failed', attempts = 5, tries = 5"))

		yesterday := now.Day() - 1
		fill(t, d, site.ID, yesterday, model.DailyPartRows+1)

		store := outbox.New(d)
		test, err := store.QueueTestWebhook(t.Context(), site.AccountID, site.ID, model.DeliveryDailyExport, now)
		testkit.NoError(t, err)
		if sent, err := store.RedeliverFailed(t.Context(), site.AccountID, site.ID, now, now); err != nil || sent.Count != 1 {
			t.Fatalf("%+v, %v", sent, err)
		}

		parts, err := store.ResendDailyExport(t.Context(), site.AccountID, site.ID, yesterday, now)
		if err != nil || len(parts) != 2 {
			t.Fatalf("%d parts, %v", len(parts), err)
		}

		j, err := jobs.NewWith(jobs.Options{
			DB: d, RedisURL: redistest.New(t).URL(), Now: tenfold, Log: slog.New(slog.NewTextHandler(t.Output(), nil)),
			WebhookNets: loopback, WebhookAuthorities: a.pool,
		}, jobs.Quick(50*time.Millisecond, speed*30*time.Second), jobs.AttemptTimeout(patientAttempt))
		testkit.NoError(t, err)
		run(t, j)

		ids, err := keys.New(d).NodeIDs(t.Context())
		testkit.NoError(t, err)

		for _, delivery := range append(parts, *test, *failed) {
			awaitDelivered(t, d, site, delivery.ID)
		}

		if calls := conversions.all(); len(calls) == 0 || calls[0].id() != ids.OfDelivery(site.ID, failed.ID) || calls[0].body != failed.Body {
			t.Errorf("conversions: %+v", calls)
		}

		// A delivery is called at least once: its receiver recognizes a repeated call by the id.
		rows, seen := 0, make(map[string]bool)
		for _, call := range days.all() {
			if seen[call.id()] {
				t.Logf("called again: %s", call.id())
				continue
			}
			seen[call.id()] = true
			var body struct {
				Type, Webhook, Date string
				Part, Parts         int
				Rows                []any
			}
			testkit.NoError(t, json.Unmarshal([]byte(call.body), &body))

			switch call.id() {
			case ids.OfDelivery(site.ID, test.ID):
				if body.Type != "test" || body.Webhook != "daily_export" {
					t.Errorf("the test: %s", call.body)
				}
			default:
				rows += len(body.Rows)
				if body.Date != yesterday.String() || body.Parts != 2 || call.id() != ids.OfDelivery(site.ID, parts[body.Part-1].ID) {
					t.Errorf("part %d of %d of %s: %s", body.Part, body.Parts, body.Date, call.id())
				}
			}
		}

		if len(seen) != 3 || rows != model.DailyPartRows+1 {
			t.Errorf("%d deliveries with %d rows", len(seen), rows)
		}
	})
}
