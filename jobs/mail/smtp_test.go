package mail

import (
	"strings"
	"testing"

	"github.com/tallygate/tallygate/db/model"
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

// TestTexts: every kind of mail has a text.
func TestTexts(t *testing.T) {
	for _, kind := range model.MailKinds {
		compose, ok := texts[kind]
		if !ok {
			t.Errorf("mails of kind %q have no text", kind)
			continue
		}

		text, err := compose([]byte("{}"))
		if err != nil || text.Subject == "" || len(text.Paragraphs) == 0 {
			t.Errorf("mails of kind %q are %+v, %v", kind, text, err)
		}
	}
}
