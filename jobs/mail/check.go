package mail

import (
	"context"
	"errors"
	"fmt"
	netmail "net/mail"
	"net/textproto"
	"strings"
	"time"

	"github.com/wneessen/go-mail"
)

// CheckError is why a mail server does not accept mails of this installation. Its text never holds
// the server's own text or a password.
type CheckError struct {
	IsSender bool // the server accepts the connection and refuses the sender
	Reason   string
}

// Error implements error.
func (e *CheckError) Error() string { return e.Reason }

// Check connects as send does, with TLS and authentication, names the sender, and disconnects. It
// sends no mail. A failure is a *CheckError.
func (s *Server) Check(ctx context.Context, timeout time.Duration) error {
	// The cut capacity makes append copy the options, which other goroutines use.
	client, err := mail.NewClient(s.host, append(s.options[:len(s.options):len(s.options)], mail.WithTimeout(timeout))...)
	if err != nil {
		return &CheckError{Reason: err.Error()}
	}

	session, err := client.DialToSMTPClientWithContext(ctx)
	if err != nil {
		return &CheckError{Reason: checkFault(err)}
	}
	defer client.CloseWithSMTPClient(session)

	sender, err := netmail.ParseAddress(s.from)
	if err != nil {
		return &CheckError{IsSender: true, Reason: "the sender is not an e-mail address"}
	}

	if err := session.Mail(sender.Address); err != nil {
		return &CheckError{IsSender: true, Reason: fault(err)}
	}
	if err := session.Reset(); err != nil {
		return &CheckError{Reason: fault(err)}
	}

	return nil
}

// checkFault describes a failure to connect, including failures that only a setting can cause.
func checkFault(err error) string {
	switch {
	case strings.Contains(err.Error(), "does not support STARTTLS"): // the library has no value for it
		return "the server does not offer STARTTLS"
	case errors.Is(err, mail.ErrNoSupportedAuthDiscovered):
		return "the server offers no authentication that this program supports on this connection"
	}

	if answer, ok := errors.AsType[*textproto.Error](err); ok && (answer.Code == 535 || answer.Code == 530) {
		return fmt.Sprintf("the server refuses the user name or the password (status %d)", answer.Code)
	}

	return fault(err)
}
