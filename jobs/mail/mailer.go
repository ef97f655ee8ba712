// Package mail sends the mails that wait in the database. Package jobs starts its sweep and runs
// its tasks; package queue carries them.
//
// A mail is a row with a kind, the kind's data and a language. The package renders it as plain text
// and HTML, hands it to an SMTP server and records the outcome. It never decides who gets a mail,
// and never logs a recipient, a link or a server's response.
//
// # Kinds
//
// A kind has a constant and the type of its data in outbox.MailKinds, a line with its page in
// kinds.go, and a file in package en and package de of folder text. The file is a template of
// quicktemplate, which "make generate" compiles to Go. It writes the parts of a mail, which page.go
// and layout.qtpl lay out as plain text and HTML. There is no markup: {%s= value %} writes a value
// as it is, and layout.qtpl escapes everything.
//
//	Subject  the subject, which is the heading as well
//	Button   text of the link to the page
//	Body     paragraphs between blank lines; lines with text.Tab are rows of a table
//	Reason   why the recipient gets the mail, such as {%= member(v) %} of common.qtpl
//
// A template reads d, the kind's data, and v, which has the account's name, the site's domain, and
// the functions that write numbers, dates and times in the language. common.qtpl has what several
// kinds share. Texts of the data are single lines when a template reads them. TestGolden needs an
// example of each kind, and `go test ./jobs/mail -run TestGolden -update` writes the rendered mail.
package mail

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/nodeid"
	"github.com/tallygate/tallygate/jobs/queue"
)

// taskType is the type of the package's tasks. It is the same in all versions of the program.
const taskType = "mails:send"

const (
	sweepMails  = 20               // mails that one sweep submits
	sendTimeout = 30 * time.Second // for one attempt
	lease       = 2 * time.Minute  // how long a lease keeps other workers away
)

// Store is the database as the package uses it. *outbox.Store implements it.
type Store interface {
	// DueMails returns due mails, longest due first.
	DueMails(ctx context.Context, now model.Instant, limit int) ([]model.Mail, error)
	// LeaseMail leases a mail that is due, and returns nil if it is not.
	LeaseMail(ctx context.Context, id int64, now model.Instant, lease time.Duration) (*model.Mail, error)
	// FinishMail records the state after an attempt.
	FinishMail(ctx context.Context, mail *model.Mail) error
}

// Options configure a Mailer. Store, Clock, Queue and Log are required.
type Options struct {
	Store Store
	Clock queue.Clock
	Queue *queue.Queue
	Log   *slog.Logger

	Server  *Server // nil: mails are logged and not sent
	BaseURL string  // origin of the control plane, which mails name and link to; "": they do not

	// IDs returns the ids of objects, for links to their pages. nil: mails do not link to them.
	IDs func(context.Context) (*nodeid.IDs, error)
}

// Mailer sends mails that are due.
type Mailer struct {
	store   Store
	clock   queue.Clock
	queue   *queue.Queue
	log     *slog.Logger
	server  *Server
	compose composer

	attempts *prometheus.CounterVec
}

// New returns a mailer that handles the mail tasks of its queue.
func New(o Options) *Mailer {
	m := &Mailer{
		store: o.Store, clock: o.Clock, queue: o.Queue, log: o.Log, server: o.Server,
		compose: composer{baseURL: strings.TrimSuffix(o.BaseURL, "/"), ids: o.IDs},
		attempts: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "tallygate_mails_total",
			Help: "Attempts of this process to send a mail: sent, error, or skipped without a mail server.",
		}, []string{"outcome"}),
	}

	// Series that exist from the start show the first failure as an increase.
	for _, outcome := range []string{"sent", "skipped", "error"} {
		m.attempts.WithLabelValues(outcome)
	}

	o.Queue.Handle(taskType, m.handle)

	return m
}

// Sweep submits tasks for mails that are due. Every worker calls it every few seconds.
func (m *Mailer) Sweep(ctx context.Context, now model.Instant) error {
	due, err := m.store.DueMails(ctx, now, sweepMails)
	if err != nil {
		return err
	}

	for _, mail := range due {
		m.queue.Submit(queue.Task{
			Type: taskType, Queue: queue.Default, Payload: mail.ID,
			ID:      fmt.Sprintf("mail:%d:%d", mail.ID, mail.Attempts+1),
			Overdue: now.Sub(mail.NextAttemptAt),
		})
	}

	return nil
}

// handle runs a task: it sends one mail. It returns no error, since the sweep submits the mail
// again.
func (m *Mailer) handle(ctx context.Context, payload []byte) error {
	var id int64
	if err := json.Unmarshal(payload, &id); err == nil {
		m.deliver(ctx, id)
	}
	return nil
}

// deliver leases a mail, sends it and records the outcome. Errors are logged.
func (m *Mailer) deliver(ctx context.Context, id int64) {
	// The context of the queue ends when Redis is lost. An interrupted attempt may have sent the
	// mail already, and would send it again.
	ctx = context.WithoutCancel(ctx)

	work, cancel := context.WithTimeout(ctx, sendTimeout)
	defer cancel()

	now, err := m.clock.Now(work)
	var mail *model.Mail

	if err == nil {
		mail, err = m.store.LeaseMail(work, id, now, lease)
	}
	if err != nil {
		m.log.ErrorContext(ctx, "mail not sent; it is retried later", "mail", id, "error", err)
		return
	}
	if mail == nil {
		return
	}

	m.send(work, mail)
	err = queue.Record(ctx, func(ctx context.Context) error { return m.store.FinishMail(ctx, mail) })
	if err != nil {
		m.log.ErrorContext(ctx, "the outcome of a mail is not recorded; it is sent again after its lease",
			"mail", id, "state", mail.State, "error", err)
	}
}

// send makes one attempt and sets the mail's next state. It logs neither the text nor the
// recipient: the mail may contain a link that opens an account.
func (m *Mailer) send(ctx context.Context, mail *model.Mail) {
	log := m.log.With("mail", mail.ID, "kind", mail.Kind, "account", mail.AccountID)

	if m.server == nil {
		mail.State = model.MailSkipped
		log.WarnContext(ctx, "mail not sent: no mail server is configured (TALLYGATE_SMTP_URL)")
		m.attempts.WithLabelValues("skipped").Inc()
		return
	}

	text, err := m.compose.compose(ctx, mail)
	if err == nil {
		err = m.server.send(ctx, mail, text)
	}
	if err == nil {
		mail.State = model.MailSent
		m.attempts.WithLabelValues("sent").Inc()
		return
	}

	m.attempts.WithLabelValues("error").Inc()
	next := model.At(m.clock.Estimate()).Add(model.MailRetryDelay(mail.Attempts))
	if mail.Attempts >= model.MaxMailAttempts || isRefused(err) || mail.LinkExpired(next) {
		mail.State = model.MailFailed
		log.ErrorContext(ctx, "mail not sent; no further attempt follows", "attempts", mail.Attempts, "error", fault(err))
		return
	}

	mail.NextAttemptAt = next
	log.WarnContext(ctx, "mail not sent; it is retried later", "attempts", mail.Attempts, "error", fault(err))
}

// Measure registers the counter of attempts as a metric.
func (m *Mailer) Measure(r prometheus.Registerer) error { return r.Register(m.attempts) }
