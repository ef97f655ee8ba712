package webhook

import (
	"bytes"
	"net/http"
	"strings"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/tallygate/tallygate/tools/testkit"
)

// TestSign compares the signature of Standard Webhooks with the signature of their library.
func TestSign(t *testing.T) {
	at := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	body := []byte(`{"type":"conversion"}`)

	for _, test := range []struct {
		name, secret string
		signer       func() (*standardwebhooks.Webhook, error)
	}{
		{"plain", "correct horse battery staple", func() (*standardwebhooks.Webhook, error) {
			return standardwebhooks.NewWebhookRaw([]byte("correct horse battery staple"))
		}},
		{"whsec", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", func() (*standardwebhooks.Webhook, error) {
			return standardwebhooks.NewWebhook("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
		}},
		{"whsec without base64", "whsec_no base64!", func() (*standardwebhooks.Webhook, error) {
			return standardwebhooks.NewWebhookRaw([]byte("whsec_no base64!"))
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			signer, err := test.signer()
			testkit.NoError(t, err)

			want, err := signer.Sign("message", at, body)
			testkit.NoError(t, err)

			header := http.Header{}
			sign(header, test.secret, "", "message", at, body)

			testkit.Equal(t, header.Get("webhook-signature"), want, "signature")
		})
	}

	t.Run("old secret", func(t *testing.T) {
		fresh, old := "a new secret, with 16", "an old secret, with 16"
		header := http.Header{}
		sign(header, fresh, old, "message", at, body)

		alone := http.Header{}
		sign(alone, fresh, "", "message", at, body)
		if got := header.Get("X-Service-Signature"); got != alone.Get("X-Service-Signature") {
			t.Errorf("X-Service-Signature %q is not of the new secret alone", got)
		}

		var want []string
		for _, secret := range []string{fresh, old} {
			signer, err := standardwebhooks.NewWebhookRaw([]byte(secret))
			testkit.NoError(t, err)
			signature, err := signer.Sign("message", at, body)
			testkit.NoError(t, err)

			want = append(want, signature)
		}

		if got := header.Get("webhook-signature"); got != strings.Join(want, " ") {
			t.Errorf("signatures %q, want %q", got, want)
		}
	})

	t.Run("no secret", func(t *testing.T) {
		header := http.Header{}
		sign(header, "", "", "message", at, body)
		testkit.Equal(t, len(header), 2, "headers %v", header)
	})
}

// BenchmarkSign shows why the library does not sign: the body of a daily export has megabytes.
func BenchmarkSign(b *testing.B) {
	body := bytes.Repeat([]byte("x"), 2<<20)
	at := time.Now()
	b.Run("ours", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			sign(http.Header{}, "correct horse battery staple", "", "message", at, body)
		}
	})

	b.Run("library", func(b *testing.B) {
		b.ReportAllocs()
		signer, _ := standardwebhooks.NewWebhookRaw([]byte("correct horse battery staple"))
		for b.Loop() {
			_, _ = signer.Sign("message", at, body)
		}
	})
}
