package mail

import (
	"mime"
	netmail "net/mail"
	"strings"
	"testing"
	"unicode"

	"github.com/wneessen/go-mail"

	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/tools/testkit"
)

// TestServerURL: a bad URL or sender is refused, and the error does not quote the URL.
func TestServerURL(t *testing.T) {
	for _, smtpURL := range []string{
		"", "http://mail.example", "smtp://", "smtps://mail.example?tls=none", "smtp://mail.example:port", "smtp://mail.example/box",
	} {
		if _, err := NewServer(smtpURL, "noreply@example.com", nil); err == nil {
			t.Errorf("%q is accepted", smtpURL)
		}
	}

	if _, err := NewServer("smtp://mail.example", "noreply", nil); err == nil {
		t.Error("a sender without @ is accepted")
	}

	_, err := NewServer("smtp://user:hunter2@mail example", "noreply@example.com", nil)
	if err == nil || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("error %v", err)
	}
}

// TestHeaders: the headers say that no person wrote the mail, and how to stop it where that is
// possible. Subjects and lines have the form that every server accepts.
func TestHeaders(t *testing.T) {
	server, err := NewServer("smtp://mail.example", "Tallygate <noreply@example.com>", nil)
	testkit.NoError(t, err)

	for name := range examples {
		stored := exampleOf(name, model.German)
		text, err := newComposer().compose(t.Context(), stored)
		testkit.NoError(t, err)
		message, err := server.message(stored, text)
		testkit.NoError(t, err)

		var raw strings.Builder
		if _, err := message.WriteTo(&raw); err != nil {
			t.Fatal(err)
		}
		for line := range strings.SplitSeq(raw.String(), "\r\n") {
			if len(line) > 78 && !strings.HasPrefix(line, "List-Unsubscribe: ") && !strings.HasPrefix(line, " <https://") || !isASCII(line) {
				t.Errorf("%s: line %q", name, line)
			}
		}

		parsed, err := netmail.ReadMessage(strings.NewReader(raw.String()))
		testkit.NoError(t, err)
		header := parsed.Header
		subject, err := new(mime.WordDecoder).DecodeHeader(header.Get("Subject"))
		date, dateErr := header.Date()
		if err != nil || dateErr != nil || subject != text.Subject || !date.Equal(noon.Time()) ||
			header.Get("Message-ID") != "<mail.1.1793534400000000@example.com>" || header.Get("Auto-Submitted") != "auto-generated" ||
			header.Get("Content-Language") != "de" || header.Get("MIME-Version") != "1.0" {
			t.Errorf("%s: headers %q", name, header)
		}

		kind, _, _ := strings.Cut(name, "/")
		stop := kind == model.MailAlert || kind == model.MailOwnAlert
		if (header.Get("List-Unsubscribe-Post") == "List-Unsubscribe=One-Click") != stop ||
			strings.HasPrefix(header.Get("List-Unsubscribe"), "<https://stats.example/stop-mail?token=stop_") != stop {
			t.Errorf("%s: %q, %q", name, header.Get("List-Unsubscribe"), header.Get("List-Unsubscribe-Post"))
		}
	}
}

func isASCII(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r > unicode.MaxASCII })
}

// TestStopLinkNeedsHTTPS: without HTTPS there is no request that stops a mail, only a link.
func TestStopLinkNeedsHTTPS(t *testing.T) {
	c := newComposer()
	c.baseURL = "http://localhost:8080"
	stored := exampleOf("own_alert", model.English)
	text, err := c.compose(t.Context(), stored)
	testkit.NoError(t, err)

	server, err := NewServer("smtp://mail.example", "noreply@example.com", nil)
	testkit.NoError(t, err)
	message, err := server.message(stored, text)
	testkit.NoError(t, err)

	if got := message.GetGenHeader(mail.HeaderListUnsubscribe); len(got) != 0 ||
		!strings.Contains(text.Text, "http://localhost:8080/stop-mail?token=stop_") {
		t.Errorf("header %q, text\n%s", got, text.Text)
	}
}
