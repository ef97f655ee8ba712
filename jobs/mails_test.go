package jobs_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"math"
	"mime"
	"mime/multipart"
	"mime/quotedprintable"
	"net"
	"net/mail"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/emersion/go-sasl"
	"github.com/emersion/go-smtp"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/accounts"
	"github.com/tallygate/tallygate/db/ingest"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/outbox"
	"github.com/tallygate/tallygate/jobs"
	jobmail "github.com/tallygate/tallygate/jobs/mail"
	"github.com/tallygate/tallygate/jobs/webhook"
	"github.com/tallygate/tallygate/tools/dbtest"
	"github.com/tallygate/tallygate/tools/testkit"
)

// mailbox is an SMTP server that requires TLS and a password. refuse returns the response to the
// nth command with a recipient.
type mailbox struct {
	addr   string
	refuse func(to string, n int) error

	mu       sync.Mutex
	attempts map[string]int
	mails    []string
	to       []string
}

func newMailbox(t *testing.T, a *authority, tlsFirst bool, refuse func(to string, n int) error) *mailbox {
	t.Helper()

	m := &mailbox{refuse: refuse, attempts: make(map[string]int)}
	server := smtp.NewServer(smtp.BackendFunc(func(*smtp.Conn) (smtp.Session, error) { return &mailSession{box: m}, nil }))
	server.Domain = "mail.example"
	server.ErrorLog = slogPrinter{}
	server.TLSConfig = &tls.Config{Certificates: []tls.Certificate{a.certificate(t)}}

	l, err := net.Listen("tcp", "127.0.0.1:0")
	testkit.NoError(t, err)

	m.addr = l.Addr().String()

	if tlsFirst {
		l = tls.NewListener(l, server.TLSConfig)
	}

	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Serve(l)
	}()

	t.Cleanup(func() {
		server.Close()
		<-done
	})

	return m
}

type slogPrinter struct{}

func (slogPrinter) Printf(string, ...any) {}
func (slogPrinter) Println(...any)        {}

type mailSession struct {
	box *mailbox
	in  bool
	to  string
}

// AuthMechanisms offers NTLM as well, as Exchange does. A client that chooses it is refused.
func (s *mailSession) AuthMechanisms() []string { return []string{"NTLM", sasl.Plain} }

func (s *mailSession) Auth(string) (sasl.Server, error) {
	return sasl.NewPlainServer(func(_, user, password string) error {
		if user != "worker" || password != "p@ss word" {
			return smtp.ErrAuthFailed
		}
		s.in = true
		return nil
	}), nil
}

func (s *mailSession) Mail(string, *smtp.MailOptions) error {
	if !s.in {
		return smtp.ErrAuthRequired
	}
	return nil
}

func (s *mailSession) Rcpt(to string, _ *smtp.RcptOptions) error {
	s.box.mu.Lock()
	defer s.box.mu.Unlock()
	s.to = to
	s.box.attempts[to]++
	return s.box.refuse(to, s.box.attempts[to])
}

func (s *mailSession) Data(r io.Reader) error {
	text, err := io.ReadAll(r)
	if err != nil {
		return err
	}

	s.box.mu.Lock()
	defer s.box.mu.Unlock()

	s.box.mails, s.box.to = append(s.box.mails, string(text)), append(s.box.to, s.to)
	return nil
}

func (s *mailSession) Reset()        {}
func (s *mailSession) Logout() error { return nil }

func welcome(string, int) error { return nil }

// server returns the mailbox as a worker uses it.
func (m *mailbox) server(t *testing.T, a *authority, scheme, password string) *jobmail.Server {
	t.Helper()
	server, err := jobmail.NewServer(scheme+"://worker:"+password+"@"+m.addr, "Tallygate <noreply@mail.example>", a.pool)
	testkit.NoError(t, err)
	return server
}

func startMailer(t *testing.T, d *db.DB, now func() time.Time, server *jobmail.Server, log slog.Handler) *jobs.Worker {
	t.Helper()

	if log == nil {
		log = slog.NewTextHandler(t.Output(), nil)
	}

	dbtest.SetClock(d, now)

	j, err := jobs.NewWith(jobs.Options{DB: d, Now: now, Log: slog.New(log), Mail: server, BaseURL: "https://app.example"},
		jobs.Quick(50*time.Millisecond, time.Minute))
	testkit.NoError(t, err)

	run(t, j)
	return j
}

func queueMail(t *testing.T, d *db.DB, kind, recipient, data string) {
	t.Helper()
	queueMailIn(t, d, model.English, kind, recipient, data)
}

func queueMailIn(t *testing.T, d *db.DB, language model.Language, kind, recipient, data string) {
	t.Helper()
	mail := model.Mail{
		AccountID: 1, Recipient: recipient, Language: language, Kind: kind, Data: data, CreatedAt: model.At(noon),
	}
	testkit.NoError(t, outbox.New(d).QueueMail(t.Context(), mail))
}

// states returns the states and attempts of all mails, in the order of their ids.
func states(t *testing.T, d *db.DB) string {
	t.Helper()

	mails, err := dbtest.Rows[model.Mail](d, "SELECT * FROM mails ORDER BY id")
	testkit.NoError(t, err)

	var all []string
	for _, m := range mails {
		all = append(all, fmt.Sprintf("%s %d", m.State, m.Attempts))
	}

	return strings.Join(all, ", ")
}

func awaitStates(t *testing.T, d *db.DB, want string) {
	t.Helper()
	awaitThat(t, func() (string, bool) {
		got := states(t, d)
		return fmt.Sprintf("mails are %q, want %q", got, want), got == want
	})
}

// TestMails: mails arrive once, over STARTTLS and over TLS, in the recipient's language, with a
// plain text and an HTML part that contain the data and name the account. Data cannot break out of
// the HTML or the header. Package mail tests each kind.
func TestMails(t *testing.T) {
	t.Parallel()

	a := newAuthority(t)

	kinds := []struct{ kind, language, data, subject, contains, button string }{
		{
			"quota_80", "en", `{"product":"analytics","site":"shop.example","siteId":7,"month":"2026-11","quota":10000}`,
			"80% of the monthly quota used: shop.example",
			"page views and events of shop.example have reached 80% of the month's quota of 10,000 in November 2026.",
			"Open the usage",
		},
		{
			"quota_100", "de", `{"product":"captcha","month":"2026-11","quota":1000000}`,
			"Das Monatskontingent ist verbraucht: Captcha",
			"Die Captcha-Prüfungen des Kontos „Shop·Ltd“ haben im November 2026 100\u00a0% des Monatskontingents von 1.000.000 erreicht.",
			"Verbrauch ansehen",
		},
		{
			"delivery_failed", "en", `{"site":"shop.example","kind":"conversion","event":"purchase","attempts":5,"error":"timeout"}`,
			"A webhook call failed: shop.example",
			"the event “purchase” of shop.example could not be delivered in 5 attempts. The last error was: no response within 10 seconds.",
			"Open the deliveries",
		},
		{
			"invitation", "en", `{"url":"https://app.example/i?a=1&b=2"}`, "You are invited to “Shop·Ltd”",
			"https://app.example/i?a=1&b=2", "Accept the invitation",
		},
		{
			"password_reset", "de", `{"url":"https://app.example/r?t=x"}`, "Setzen Sie ein neues Passwort", "https://app.example/r?t=x",
			"Neues Passwort setzen",
		},
		{
			"webhook_changed", "en",
			`{"site":"shop.example","siteId":7,"kind":"daily_export","by":"me@example.com","token":"ci\r\nBcc: x@example.com","at":1795168800000000,"old":"old.example","new":"new.example"}`,
			"A webhook address was changed: shop.example",
			"the API token “ciBcc: x@example.com” of me@example.com, on 20 November 2026, 10:00:00 UTC.\r\n\r\nThey are sent to new.example; before, they were sent to old.example.",
			"Check the webhooks",
		},
		{
			"own_alert", "en",
			`{"site":"shop.example","siteId":7,"channelId":9,"event":"monthly","phase":"once","from":"2026-11-01","to":"2026-11-30","summary":{"figures":{"visitors":7},"pages":[{"value":"/<b>","visitors":4}]}}`,
			"Month on shop.example", "Pages by visitors\r\n/<b>  4", "Open Tallygate",
		},
		{"test", "xx", `{}`, "Test", "only shows that mails arrive", "Open the console"}, // a language that mails are not written in
	}
	for _, scheme := range []string{"smtp", "smtps"} {
		t.Run(scheme, func(t *testing.T) {
			dbtest.Each(t, func(t *testing.T, d *db.DB) {
				box := newMailbox(t, a, scheme == "smtps", welcome)
				testkit.NoError(t, dbtest.Exec(d, "INSERT INTO accounts (id, name, created_at) VALUES (1, 'Shop.Ltd', 1)"))

				for i, k := range kinds {
					queueMailIn(t, d, model.Language(k.language), k.kind, fmt.Sprintf("owner%d@example.com", i), k.data)
				}

				startMailer(t, d, testkit.NewClock(noon).Now, box.server(t, a, scheme, "p%40ss%20word"), nil)
				awaitStates(t, d, strings.TrimSuffix(strings.Repeat("sent 1, ", len(kinds)), ", "))
				box.mu.Lock()
				defer box.mu.Unlock()

				testkit.Require(t, len(box.mails), len(kinds), "mails arrived")

				for i, raw := range box.mails {
					var n int
					fmt.Sscanf(box.to[i], "owner%d@", &n)
					k := kinds[n]
					header, text, html := parts(t, raw)
					subject, err := new(mime.WordDecoder).DecodeHeader(header.Get("Subject"))
					if err != nil || subject != k.subject || header.Get("Bcc") != "" || header.Get("From") == "" ||
						header.Get("Message-ID") == "" {
						t.Errorf("%s: header %v, want subject %q", k.kind, header, k.subject)
					}

					if !strings.Contains(text, k.contains) {
						t.Errorf("%s: text %q does not contain %q", k.kind, text, k.contains)
					}

					if !strings.Contains(text, "Tallygate · app.example\r\n") || !strings.Contains(text, ": Shop·Ltd\r\n") ||
						!strings.Contains(html, "Tallygate</strong> · app.example") || !strings.Contains(html, "https://app.example.") {
						t.Errorf("%s: %q and %q do not name the installation and the account", k.kind, text, html)
					}

					if !strings.Contains(text, k.button+":\r\nhttps://app.example/") || !strings.Contains(html, ">"+k.button+"</a>") {
						t.Errorf("%s: %q and %q do not link to the page", k.kind, text, html)
					}

					if !strings.HasPrefix(html, "<!doctype html>") || strings.Contains(html, "<b>") {
						t.Errorf("%s: HTML %q", k.kind, html)
					}
				}
			})
		})
	}
}

// parts splits a mail.
func parts(t *testing.T, raw string) (header mail.Header, text, html string) {
	t.Helper()

	message, err := mail.ReadMessage(strings.NewReader(raw))
	testkit.NoError(t, err)

	kind, parameters, err := mime.ParseMediaType(message.Header.Get("Content-Type"))
	if err != nil || kind != "multipart/alternative" {
		t.Fatalf("content type %q, %v", kind, err)
	}

	reader := multipart.NewReader(message.Body, parameters["boundary"])
	var all []string
	for _, want := range []string{"text/plain", "text/html"} {
		part, err := reader.NextRawPart()
		if err != nil || !strings.HasPrefix(part.Header.Get("Content-Type"), want) {
			t.Fatalf("part %v, %v, want %s", part, err, want)
		}
		testkit.Require(t, part.Header.Get("Content-Transfer-Encoding"), "quoted-printable", "part is encoded as")

		body, err := io.ReadAll(quotedprintable.NewReader(part))
		testkit.NoError(t, err)

		all = append(all, string(body))
	}

	return message.Header, all[0], all[1]
}

// untilDue sets the clock to the time at which the next mail is due, unless one is due or being
// sent. The clock does not run, so a mail that is being sent is due again at the end of its lease,
// in exactly two minutes. No pause between two attempts has that length.
func untilDue(t *testing.T, d *db.DB, now *testkit.Clock) {
	t.Helper()

	mails, err := dbtest.Rows[model.Mail](d, "SELECT * FROM mails WHERE state = 'pending'")
	testkit.NoError(t, err)

	const leased = 2 * time.Minute
	next := time.Duration(math.MaxInt64)
	for _, m := range mails {
		wait := m.NextAttemptAt.Sub(model.At(now.Now()))

		// Its attempt must end first: advancing the clock could interrupt it.
		if wait <= 0 || wait == leased {
			return
		}

		next = min(next, wait)
	}

	if len(mails) > 0 {
		now.Add(next)
	}
}

// TestMailsRefused: a mail is retried a bounded number of times if the server is busy or does not
// authenticate the worker. It is not retried if the server refuses the recipient permanently.
func TestMailsRefused(t *testing.T) {
	t.Parallel()

	a := newAuthority(t)
	busy := &smtp.SMTPError{Code: 451, EnhancedCode: smtp.EnhancedCode{4, 3, 0}, Message: "try later"}
	unknown := &smtp.SMTPError{
		Code:         550,
		EnhancedCode: smtp.EnhancedCode{5, 1, 1},
		Message:      "no such mailbox: unknown@example.com",
	}

	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		now := testkit.NewClock(noon)
		box := newMailbox(t, a, false, func(to string, n int) error {
			if strings.HasPrefix(to, "unknown") {
				return unknown
			}
			if n <= 3 {
				return busy
			}
			return nil
		})

		queueMail(t, d, "test", "unknown@example.com", "")
		queueMail(t, d, "test", "owner@example.com", "")
		var lines strings.Builder
		j := startMailer(t, d, now.Now, box.server(t, a, "smtp", "p%40ss%20word"), slog.NewTextHandler(&lines, nil))
		awaitStates(t, d, "failed 1, pending 1")
		awaitThat(t, func() (string, bool) {
			s := states(t, d)
			untilDue(t, d, now)
			return "mails are " + s, s == "failed 1, sent 4"
		})

		testkit.NoError(t, j.Stop(t.Context()))

		if s := lines.String(); !strings.Contains(s, "status 550 5.1.1") || !strings.Contains(s, "status 451 4.3.0") ||
			strings.Contains(s, "@example.com") {
			t.Errorf("logged %s", s)
		}
	})

	t.Run("wrong password", func(t *testing.T) {
		dbtest.Each(t, func(t *testing.T, d *db.DB) {
			now := testkit.NewClock(noon)
			box := newMailbox(t, a, false, welcome)
			queueMail(t, d, "test", "owner@example.com", "")
			var lines strings.Builder
			j := startMailer(t, d, now.Now, box.server(t, a, "smtp", "wrong"), slog.NewTextHandler(&lines, nil))
			awaitThat(t, func() (string, bool) {
				s := states(t, d)
				untilDue(t, d, now)
				return "mails are " + s, s == fmt.Sprintf("failed %d", model.MaxMailAttempts)
			})

			testkit.NoError(t, j.Stop(t.Context()))
			if s := lines.String(); !strings.Contains(s, "status 535") || strings.Contains(s, "@example.com") {
				t.Errorf("logged %s", s)
			}
			testkit.Equal(t, len(box.mails), 0, "mails arrived")
		})
	})
}

// TestMailsEndWithTheirLinks: a mail is not retried if its link will have expired by then, and no
// link is stored after the last attempt.
func TestMailsEndWithTheirLinks(t *testing.T) {
	t.Parallel()

	a := newAuthority(t)
	busy := &smtp.SMTPError{Code: 451, EnhancedCode: smtp.EnhancedCode{4, 3, 0}, Message: "try later"}
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		now := testkit.NewClock(noon)
		box := newMailbox(t, a, false, func(string, int) error { return busy })
		queueMail(t, d, "password_reset", "owner@example.com", `{"url":"https://app.example/secret"}`)
		queueMail(t, d, "invitation", "guest@example.com", `{"url":"https://app.example/secret"}`)
		startMailer(t, d, now.Now, box.server(t, a, "smtp", "p%40ss%20word"), nil)
		awaitThat(t, func() (string, bool) {
			s := states(t, d)
			untilDue(t, d, now)
			// The attempts are at 0, 1, 5 and 21 of 60 minutes.
			return "mails are " + s, s == fmt.Sprintf("failed 4, failed %d", model.MaxMailAttempts)
		})

		mails, err := dbtest.Rows[model.Mail](d, "SELECT * FROM mails")
		if err != nil || mails[0].Data != "{}" || mails[1].Data != "{}" {
			t.Errorf("mails are %+v, %v", mails, err)
		}
	})
}

// TestMailsWithoutServer: without a server mails are logged and skipped, and the log has no links.
func TestMailsWithoutServer(t *testing.T) {
	dbtest.Parallel(t, func(t *testing.T, d *db.DB) {
		var lines strings.Builder
		queueMail(t, d, "password_reset", "owner@example.com", `{"url":"https://app.example/secret"}`)
		j := startMailer(t, d, testkit.NewClock(noon).Now, nil, slog.NewTextHandler(&lines, nil))
		awaitStates(t, d, "skipped 1")

		testkit.NoError(t, j.Stop(t.Context()))
		if mails, err := dbtest.Rows[model.Mail](d, "SELECT * FROM mails"); err != nil || mails[0].Data != "{}" {
			t.Errorf("mails are %+v, %v", mails, err)
		}

		if s := lines.String(); !strings.Contains(s, "no mail server is configured") ||
			!strings.Contains(s, "kind=password_reset") ||
			strings.Contains(s, "app.example") ||
			strings.Contains(s, "owner@") {
			t.Errorf("logged %s", s)
		}
	})
}

// noLanes is a store that cannot read the lanes.
type noLanes struct{ webhook.Store }

// DueLanes implements webhook.Store.
func (noLanes) DueLanes(context.Context, model.Instant, model.SiteID, int) ([]model.Lane, error) {
	return nil, errors.New("the lanes cannot be read")
}

// TestMailsWithoutDeliveries: mails are handled although the sweep of the deliveries fails.
func TestMailsWithoutDeliveries(t *testing.T) {
	t.Parallel()

	d := dbtest.Open(t, dbtest.SQLiteURL(t))
	now := testkit.NewClock(noon).Now
	dbtest.SetClock(d, now)
	queueMail(t, d, "test", "owner@example.com", "")

	j, err := jobs.NewWith(jobs.Options{DB: d, Now: now, Log: slog.New(slog.DiscardHandler)},
		jobs.Quick(50*time.Millisecond, time.Minute),
		jobs.DeliverFrom(func(s webhook.Store) webhook.Store { return noLanes{s} }))
	testkit.NoError(t, err)

	run(t, j)
	awaitStates(t, d, "skipped 1")
}

// TestQuotaMails: of two workers that check the quotas at the same time, one mails the owner, once
// at 80 % and once at 100 %, and also the captcha's notices.
func TestQuotaMails(t *testing.T) {
	t.Parallel()

	a := newAuthority(t)
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		site := newSite(t, d, "shop.example", "", "")
		box := newMailbox(t, a, false, welcome)

		testkit.NoError(t, dbtest.Exec(d, "INSERT INTO site_usage (site_id, month, used, reached) VALUES (?, 202611, 10000, 100)", site.ID))

		verifyCaptchas(t, d, site.AccountID, model.CaptchaPlanPro100K, 80_000)
		server := box.server(t, a, "smtp", "p%40ss%20word")

		// Each has its own queue, so that each checks.
		for range 2 {
			startMailer(t, d, testkit.NewClock(noon).Now, server, nil)
		}

		awaitStates(t, d, "sent 1, sent 1, sent 1")
		box.mu.Lock()
		defer box.mu.Unlock()

		wanted := map[string]bool{
			"page views and events of shop.example have reached 80% of the month's quota of 10,000 in November 2026":  true,
			"page views and events of shop.example have reached 100% of the month's quota of 10,000 in November 2026": true,
			"captcha verifications of the account “owner·shop·example” have reached 80% of the month's quota of 100,000 in November 2026.\n\n" +
				"Up to 100% nothing changes. Beyond that they are accepted up to 110%, for at most 7 days;": true,
		}
		for i, raw := range box.mails {
			_, text, _ := parts(t, raw)
			text = strings.ReplaceAll(text, "\r\n", "\n")
			maps.DeleteFunc(wanted, func(contains string, _ bool) bool { return strings.Contains(text, contains) })

			testkit.Equal(t, box.to[i], "owner@shop.example", "a mail went to")
		}

		if len(wanted) > 0 {
			t.Errorf("no mail contains %v; they are %q", slices.Collect(maps.Keys(wanted)), box.mails)
		}
	})
}

// TestQuotaMailsOfALoweredPlan lowers an account's plan below its usage. The account gets the mails
// of 80 % and 100 %, although its quota is used up and nothing is counted any more. Two workers
// send each mail once.
func TestQuotaMailsOfALoweredPlan(t *testing.T) {
	t.Parallel()

	a := newAuthority(t)
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		site := newSite(t, d, "shop.example", "", "")
		verifyCaptchas(t, d, site.AccountID, model.CaptchaPlanPro100K, 50_000)

		testkit.NoError(t, accounts.New(d).SetCaptchaPlan(t.Context(), site.AccountID, model.CaptchaPlanFree))

		box := newMailbox(t, a, false, welcome)
		server := box.server(t, a, "smtp", "p%40ss%20word")
		for range 2 {
			startMailer(t, d, testkit.NewClock(noon).Now, server, nil)
		}

		awaitStates(t, d, "sent 1, sent 1")

		box.mu.Lock()
		defer box.mu.Unlock()

		var subjects []string
		for _, raw := range box.mails {
			header, _, _ := parts(t, raw)
			subject, err := new(mime.WordDecoder).DecodeHeader(header.Get("Subject"))
			if err != nil {
				t.Error(err)
			}

			subjects = append(subjects, subject)
		}

		slices.Sort(subjects)

		want := []string{
			"80% of the monthly quota used: captcha", "The monthly quota is used up: captcha",
		}
		testkit.EqualSlices(t, subjects, want, "subjects")
	})
}

// verifyCaptchas sets an account's plan and counts verifications as the data plane does. The last
// one is counted alone, so that it writes its notice.
func verifyCaptchas(t *testing.T, d *db.DB, accountID model.AccountID, plan model.CaptchaPlan, n int64) {
	t.Helper()

	testkit.NoError(t, accounts.New(d).SetCaptchaPlan(t.Context(), accountID, plan))

	store := ingest.NewClaimStore(dbtest.SitesCell(t, d))
	defer store.Close()

	key := model.CaptchaUsageKey{AccountID: accountID, Month: 202611}
	err := store.Update(
		t.Context(),
		ingest.ClaimKeys{Usage: []model.CaptchaUsageKey{key}},
		func(state *ingest.ClaimState) *ingest.ClaimChanges {
			usage := state.Usage[key]
			usage.Used = n - 1
			changes := &ingest.ClaimChanges{Usage: map[model.CaptchaUsageKey]model.CaptchaUsage{}}

			if threshold := usage.Count(model.At(noon)); threshold != 0 {
				changes.Notices = []ingest.QuotaNotice{{
					CaptchaUsageKey: key, Threshold: threshold, Quota: plan.QuotaOrUnlimited(), CreatedAt: model.At(noon),
				}}
			}

			changes.Usage[key] = usage
			return changes
		},
	)
	testkit.NoError(t, err)
}

// TestMailWithoutLanguage: a mail without a language and without ids in its data is sent, in
// English.
func TestMailWithoutLanguage(t *testing.T) {
	t.Parallel()

	a := newAuthority(t)
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		site := newSite(t, d, "shop.example", "", "")
		box := newMailbox(t, a, false, welcome)

		err := dbtest.Exec(d, `INSERT INTO mails
(account_id, recipient, kind, data, state, attempts, created_at, next_attempt_at) VALUES (?, ?, ?, ?, 'pending', 0, ?, ?)`,
			site.AccountID, "owner@shop.example", model.MailQuota80,
			`{"product":"analytics","account":"Shop","site":"shop.example","month":"2026-11","quota":10000}`,
			model.At(noon), model.At(noon))
		testkit.NoError(t, err)

		startMailer(t, d, testkit.NewClock(noon).Now, box.server(t, a, "smtp", "p%40ss%20word"), nil)
		awaitStates(t, d, "sent 1")

		box.mu.Lock()
		defer box.mu.Unlock()

		_, text, _ := parts(t, box.mails[0])
		for _, want := range []string{
			"page views and events of shop.example have reached 80% of the month's quota of 10,000", "Account: owner·shop·example",
			"Open the usage:\r\nhttps://app.example/\r\n",
		} {
			if !strings.Contains(text, want) {
				t.Errorf("%q does not contain %q", text, want)
			}
		}
	})
}
