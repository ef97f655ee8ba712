package jobs

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	netmail "net/mail"
	"net/textproto"
	"net/url"
	"strconv"
	"strings"

	"github.com/wneessen/go-mail"

	"github.com/tallygate/tallygate/db/model"
)

// MailServer is the SMTP server that mails are handed to.
type MailServer struct {
	host    string
	from    string
	domain  string // of the sender, for message ids
	options []mail.Option
}

var errSMTPURL = errors.New("must be smtp://user:password@host:587 or smtps://user:password@host:465")

// NewMailServer reads smtp://[user:password@]host[:port], which demands STARTTLS (port 587 unless
// told), or smtps://… for TLS from the first byte (port 465 unless told). smtp://…?tls=none sends
// in the clear, for a server on the same machine. from is the sender of all mails, for instance
// Tallygate <noreply@example.com>. authorities are those whose certificates the server may have;
// nil means the system's. Errors do not repeat the address: it may hold a password.
func NewMailServer(smtpURL, from string, authorities *x509.CertPool) (*MailServer, error) {
	sender, err := netmail.ParseAddress(from)
	if err != nil {
		return nil, fmt.Errorf("the sender %q is not an e-mail address", from)
	}

	u, err := url.Parse(smtpURL)
	if err != nil || u.Hostname() == "" || u.Path != "" && u.Path != "/" {
		return nil, errSMTPURL
	}

	m := &MailServer{host: u.Hostname(), from: from, domain: sender.Address[strings.LastIndexByte(sender.Address, '@')+1:]}
	m.options = []mail.Option{
		mail.WithTimeout(mailTimeout),
		mail.WithTLSConfig(&tls.Config{ServerName: m.host, RootCAs: authorities, MinVersion: tls.VersionTLS12}),
	}

	port := 587

	switch none := u.Query().Get("tls") == "none"; {
	case u.Scheme == "smtps" && !none:
		port = 465
		m.options = append(m.options, mail.WithSSL())
	case u.Scheme == "smtp" && none:
		m.options = append(m.options, mail.WithTLSPolicy(mail.NoTLS))
	case u.Scheme == "smtp":
		m.options = append(m.options, mail.WithTLSPolicy(mail.TLSMandatory))
	default:
		return nil, errSMTPURL
	}

	if u.Port() != "" {
		if port, err = strconv.Atoi(u.Port()); err != nil {
			return nil, errSMTPURL
		}
	}

	m.options = append(m.options, mail.WithPort(port))

	if u.User != nil {
		password, _ := u.User.Password()
		m.options = append(m.options, mail.WithSMTPAuth(mail.SMTPAuthAutoDiscover), mail.WithUsername(u.User.Username()), mail.WithPassword(password))
	}

	return m, nil
}

// send hands one mail over, which names the installation by its base URL, if that is not empty. It
// has the same Message-ID at each attempt, so that a mail which was sent twice is shown once.
func (m *MailServer) send(ctx context.Context, stored *model.Mail, baseURL string) error {
	message, err := m.message(stored, baseURL)
	if err != nil {
		return err
	}

	client, err := mail.NewClient(m.host, m.options...)
	if err != nil {
		return err
	}

	return client.DialAndSendWithContext(ctx, message)
}

func (m *MailServer) message(stored *model.Mail, baseURL string) (*mail.Msg, error) {
	textOf, ok := mailTexts[stored.Kind]
	if !ok {
		return nil, fmt.Errorf("there are no mails of kind %q", stored.Kind)
	}

	text, err := textOf([]byte(stored.Data))
	if err != nil {
		return nil, fmt.Errorf("data of a mail of kind %q: %w", stored.Kind, err)
	}

	text.from(baseURL)

	html, err := text.html()
	if err != nil {
		return nil, err
	}

	message := mail.NewMsg(mail.WithNoDefaultUserAgent())
	if err := errors.Join(message.From(m.from), message.To(stored.Recipient)); err != nil {
		return nil, err
	}

	message.Subject(model.Clean(text.Subject, 200))
	message.SetMessageIDWithValue(fmt.Sprintf("mail.%d.%d@%s", stored.ID, stored.CreatedAt, m.domain))
	message.SetDateWithValue(stored.CreatedAt.Time())
	message.SetBodyString(mail.TypeTextPlain, text.plain())
	message.AddAlternativeString(mail.TypeTextHTML, html)

	return message, nil
}

// isRefused reports whether the server refused the recipient for good.
func isRefused(err error) bool {
	refusal, ok := errors.AsType[*mail.SendError](err)
	return ok && refusal.Reason == mail.ErrSMTPRcptTo && !refusal.IsTemp()
}

// mailFault is what the log may hold of an error of send: never the server's words, which repeat
// the recipient.
func mailFault(err error) string {
	if failure, ok := errors.AsType[*mail.SendError](err); ok {
		return strings.TrimSpace(fmt.Sprintf("%s, status %d %s", failure.Reason, failure.ErrorCode(), failure.EnhancedStatusCode()))
	}
	if answer, ok := errors.AsType[*textproto.Error](err); ok {
		return fmt.Sprintf("the server answered with status %d", answer.Code)
	}
	if timeout, ok := errors.AsType[net.Error](err); ok && timeout.Timeout() || errors.Is(err, context.DeadlineExceeded) {
		return "no answer in time"
	}
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return "the server's certificate is not trusted"
	}
	if _, ok := errors.AsType[*net.OpError](err); ok {
		return "no connection to the server"
	}

	return fmt.Sprintf("%T", err)
}
