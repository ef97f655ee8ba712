package mail

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

// Server is the SMTP server that sends all mails.
type Server struct {
	host    string
	from    string
	domain  string // of the sender, for message IDs
	plain   bool   // without TLS
	options []mail.Option
}

// Host returns the name of the server.
func (s *Server) Host() string { return s.host }

// IsEncrypted reports whether mails cross the network over TLS.
func (s *Server) IsEncrypted() bool { return !s.plain }

var errURL = errors.New("must be smtp://user:password@host:587 or smtps://user:password@host:465")

// NewServer reads a server's URL: smtp://[user:password@]host[:port] requires STARTTLS and has port
// 587 by default, smtps://… uses TLS from the first byte and has port 465 by default.
// smtp://…?tls=none sends in plain text, for a server on the same machine.
//
// from is the sender of all mails, for instance Tallygate <noreply@example.com>. authorities sign
// the server's certificate; nil means the system's authorities. Errors never quote the URL, which
// may contain a password.
func NewServer(smtpURL, from string, authorities *x509.CertPool) (*Server, error) {
	sender, err := netmail.ParseAddress(from)
	if err != nil {
		return nil, fmt.Errorf("the sender %q is not an e-mail address", from)
	}

	u, err := url.Parse(smtpURL)
	if err != nil || u.Hostname() == "" || u.Path != "" && u.Path != "/" {
		return nil, errURL
	}

	port, encryption, err := connectionOptions(u)
	if err != nil {
		return nil, err
	}

	s := &Server{host: u.Hostname(), from: from, domain: sender.Address[strings.LastIndexByte(sender.Address, '@')+1:]}
	s.plain = u.Query().Get("tls") == "none"
	s.options = []mail.Option{
		mail.WithTimeout(sendTimeout),
		mail.WithTLSConfig(&tls.Config{ServerName: s.host, RootCAs: authorities, MinVersion: tls.VersionTLS12}),
		encryption,
		mail.WithPort(port),
	}

	if u.User != nil {
		password, _ := u.User.Password()
		s.options = append(s.options,
			mail.WithOpportunisticSMTPAuth(authMechanisms(s.plain)...),
			mail.WithUsername(u.User.Username()),
			mail.WithPassword(password),
		)
	}

	return s, nil
}

// authMechanisms returns the ways to authenticate, best first. The library's own choice prefers
// NTLM, which needs the name of a domain, to PLAIN: an Exchange server that offers both would
// refuse.
func authMechanisms(plainText bool) []mail.SMTPAuthType {
	if plainText {
		// Without TLS there is no channel to bind to, and the password must not be readable.
		return []mail.SMTPAuthType{mail.SMTPAuthSCRAMSHA256, mail.SMTPAuthSCRAMSHA1, mail.SMTPAuthCramMD5}
	}
	return []mail.SMTPAuthType{
		mail.SMTPAuthSCRAMSHA256PLUS, mail.SMTPAuthSCRAMSHA256, mail.SMTPAuthSCRAMSHA1PLUS, mail.SMTPAuthSCRAMSHA1,
		mail.SMTPAuthCramMD5, mail.SMTPAuthPlain, mail.SMTPAuthLogin,
	}
}

// connectionOptions returns the port and the encryption that a URL asks for.
func connectionOptions(u *url.URL) (port int, encryption mail.Option, err error) {
	// RFC 8314: port 587 with STARTTLS, port 465 with TLS from the first byte.
	port = 587

	switch plainText := u.Query().Get("tls") == "none"; {
	case u.Scheme == "smtps" && !plainText:
		port, encryption = 465, mail.WithSSL()
	case u.Scheme == "smtp" && plainText:
		encryption = mail.WithTLSPolicy(mail.NoTLS)
	case u.Scheme == "smtp":
		encryption = mail.WithTLSPolicy(mail.TLSMandatory)
	default:
		return 0, nil, errURL
	}

	if u.Port() != "" {
		if port, err = strconv.Atoi(u.Port()); err != nil {
			return 0, nil, errURL
		}
	}

	return port, encryption, nil
}

// send sends one mail.
func (s *Server) send(ctx context.Context, stored *model.Mail, text *content) error {
	message, err := s.message(stored, text)
	if err != nil {
		return err
	}

	client, err := mail.NewClient(s.host, s.options...)
	if err != nil {
		return err
	}

	return client.DialAndSendWithContext(ctx, message)
}

// message returns a mail with its headers. It has the same Message-ID at each attempt, so that
// clients show a mail once that was sent twice.
func (s *Server) message(stored *model.Mail, text *content) (*mail.Msg, error) {
	message := mail.NewMsg(mail.WithNoDefaultUserAgent())
	if err := errors.Join(message.From(s.from), message.To(stored.Recipient)); err != nil {
		return nil, err
	}

	message.Subject(text.Subject)
	message.SetMessageIDWithValue(fmt.Sprintf("mail.%d.%d@%s", stored.ID, stored.CreatedAt, s.domain))
	message.SetDateWithValue(stored.CreatedAt.Time())
	message.SetGenHeader(mail.HeaderContentLang, string(text.Language))

	// No program should reply to these mails (RFC 3834).
	message.SetGenHeader("Auto-Submitted", "auto-generated")
	message.SetGenHeader("X-Auto-Response-Suppress", "All")

	// Mail programs stop such mails with one request (RFC 8058), which must be encrypted.
	if strings.HasPrefix(text.StopURL, "https://") {
		message.SetGenHeader(mail.HeaderListUnsubscribe, "<"+text.StopURL+">")
		message.SetGenHeader(mail.HeaderListUnsubscribePost, "List-Unsubscribe=One-Click")
	}

	message.SetBodyString(mail.TypeTextPlain, text.Text)
	message.AddAlternativeString(mail.TypeTextHTML, text.HTML)

	return message, nil
}

// isRefused reports whether the server refused the recipient permanently.
func isRefused(err error) bool {
	refusal, ok := errors.AsType[*mail.SendError](err)
	return ok && refusal.Reason == mail.ErrSMTPRcptTo && !refusal.IsTemp()
}

// fault returns what may be logged of an error of send: never the server's text, which repeats the
// recipient.
func fault(err error) string {
	if failure, ok := errors.AsType[*mail.SendError](err); ok {
		return strings.TrimSpace(fmt.Sprintf("%s, status %d %s",
			failure.Reason, failure.ErrorCode(), failure.EnhancedStatusCode()))
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
