package mail

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/emersion/go-smtp"

	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/jobs/queue"
	"github.com/tallygate/tallygate/tools/testkit"
)

var noon = model.At(time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC))

// fakeStore has one mail that is due. It refuses the first outcomes.
type fakeStore struct {
	leased   func() // is called after a lease, unless nil
	refuse   int    // outcomes still to refuse
	recorded []string
}

// DueMails implements Store.
func (s *fakeStore) DueMails(context.Context, model.Instant, int) ([]model.Mail, error) {
	return nil, nil
}

// LeaseMail implements Store.
func (s *fakeStore) LeaseMail(_ context.Context, id int64, _ model.Instant, _ time.Duration) (*model.Mail, error) {
	if s.leased != nil {
		s.leased()
	}
	return &model.Mail{
		ID: id, Recipient: "owner@example.com", Kind: model.MailTest, Data: "{}", State: model.MailPending, Attempts: 1,
		CreatedAt: noon,
	}, nil
}

// FinishMail implements Store.
func (s *fakeStore) FinishMail(ctx context.Context, mail *model.Mail) error {
	if s.refuse > 0 {
		s.refuse--
		return errors.New("the database is restarted")
	}
	s.recorded = append(s.recorded, mail.State)
	return ctx.Err()
}

// fakeClock is a clock that stands at noon.
type fakeClock struct{}

// Now implements Clock.
func (fakeClock) Now(ctx context.Context) (model.Instant, error) { return noon, ctx.Err() }

// Estimate implements Clock.
func (fakeClock) Estimate() time.Time { return noon.Time() }

func newTestMailer(t *testing.T, store Store, server *Server, log io.Writer) *Mailer {
	t.Helper()

	logger := slog.New(slog.NewTextHandler(log, nil))
	q, err := queue.New(queue.Options{Now: time.Now, Log: logger})
	testkit.NoError(t, err)

	return New(Options{Store: store, Clock: fakeClock{}, Queue: q, Log: logger, Server: server})
}

// session is an SMTP session that calls received when it has a mail.
type session struct{ received func() }

func (s *session) Mail(string, *smtp.MailOptions) error { return nil }
func (s *session) Rcpt(string, *smtp.RcptOptions) error { return nil }
func (s *session) Reset()                               {}
func (s *session) Logout() error                        { return nil }

func (s *session) Data(r io.Reader) error {
	_, err := io.Copy(io.Discard, r)
	s.received()
	return err
}

// newTestServer returns a mail server without encryption that calls received for each mail.
func newTestServer(t *testing.T, received func()) *Server {
	t.Helper()

	listener, err := net.Listen("tcp", "127.0.0.1:0")
	testkit.NoError(t, err)

	server := smtp.NewServer(smtp.BackendFunc(func(*smtp.Conn) (smtp.Session, error) { return &session{received}, nil }))
	server.Domain = "mail.example"
	go server.Serve(listener)
	t.Cleanup(func() { _ = server.Close() })

	to, err := NewServer("smtp://"+listener.Addr().String()+"?tls=none", "noreply@example.com", nil)
	testkit.NoError(t, err)

	return to
}

// TestAttemptOutlivesTheQueue: the loss of the queue does not interrupt an attempt, and its outcome
// is recorded.
func TestAttemptOutlivesTheQueue(t *testing.T) {
	t.Parallel()

	ctx, lose := context.WithCancel(t.Context())
	store := &fakeStore{leased: lose}
	mailer := newTestMailer(t, store, newTestServer(t, func() {}), t.Output())

	testkit.NoError(t, mailer.handle(ctx, []byte("7")))
	if ctx.Err() == nil || len(store.recorded) != 1 || store.recorded[0] != model.MailSent {
		t.Errorf("queue lost: %v, recorded %q; want one sent mail", ctx.Err(), store.recorded)
	}
}

// TestOutcomeIsRecordedAgain: an outcome that the database refuses is recorded again, and the log
// does not report a sent mail as unsent.
func TestOutcomeIsRecordedAgain(t *testing.T) {
	t.Parallel()

	var log strings.Builder
	received := 0
	store := &fakeStore{refuse: 2}
	mailer := newTestMailer(t, store, newTestServer(t, func() { received++ }), &log)

	testkit.NoError(t, mailer.handle(t.Context(), []byte("7")))
	if received != 1 || len(store.recorded) != 1 || store.recorded[0] != model.MailSent {
		t.Errorf("%d mails arrived, recorded %q; want one sent mail", received, store.recorded)
	}
	if log.Len() > 0 {
		t.Errorf("logged %s", log.String())
	}
}
