package captcha_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	recaptcha "gopkg.in/ezzarghili/recaptcha-go.v4"

	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/tools/dbtest"
	"github.com/tallygate/tallygate/tools/testkit"
)

// recorded are the requests of client libraries of other captcha services, byte for byte as
// clients/check.mjs --record printed them, with another path where the service's own would be.
// docs/owner/captcha.md describes how to run the libraries themselves.
var recorded = map[string]string{
	"express-recaptcha 5.1.0 (reCAPTCHA)": `POST /siteverify HTTP/1.1
Content-Type: application/x-www-form-urlencoded
Content-Length: LENGTH
Host: captcha.example
Connection: keep-alive

secret=SECRET&response=TOKEN&remoteip=203.0.113.1`,

	"hcaptcha 0.2.0 (hCaptcha)": `POST /siteverify HTTP/1.1
content-type: application/x-www-form-urlencoded
content-length: LENGTH
Host: captcha.example
Connection: keep-alive

secret=SECRET&response=TOKEN&remoteip=203.0.113.1&sitekey=SITEKEY`,

	"verify-hcaptcha 1.0.0 (hCaptcha)": `POST /siteverify HTTP/1.1
Content-Type: application/x-www-form-urlencoded
Content-Length: LENGTH
Host: captcha.example
Connection: keep-alive

response=TOKEN&secret=SECRET&sitekey=SITEKEY&remoteip=203.0.113.1`,

	"turnstile-verify 1.4.0 (Turnstile)": `POST /siteverify HTTP/1.1
host: captcha.example
connection: keep-alive
content-type: application/x-www-form-urlencoded;charset=UTF-8
accept: */*
accept-language: *
sec-fetch-mode: cors
user-agent: node
accept-encoding: gzip, deflate
content-length: LENGTH

secret=SECRET&response=TOKEN&remoteip=203.0.113.1&idempotency_key=4f6cbe08-1b6f-4e2f-9a55-7ff6a9f2f3a1`,

	"cf-turnstile 1.0.8 (Turnstile)": `POST /siteverify HTTP/1.1
host: captcha.example
connection: keep-alive
content-type: application/x-www-form-urlencoded;charset=UTF-8
accept: */*
accept-language: *
sec-fetch-mode: cors
user-agent: node
accept-encoding: gzip, deflate
content-length: LENGTH

secret=SECRET&response=TOKEN&remoteip=203.0.113.1`,
}

// TestRecordedClients plays the requests of client libraries, and checks the whole answer.
func TestRecordedClients(t *testing.T) {
	t.Parallel()
	p := newPlane(t, dbtest.Open(t, dbtest.SQLiteURL(t)))
	key := p.Sitekey(p.Account("a", model.CaptchaPlanFree), "example.com")
	for name, request := range recorded {
		token := p.Token(key, siteOrigin)
		check(t, name, p.play(t, request, key, token), success(noon))
		check(t, name+", again", p.play(t, request, key, token), refused("timeout-or-duplicate"))
		wrong := key
		wrong.Secret = "wrong"
		check(t, name+", wrong secret", p.play(t, request, wrong, token), refused("invalid-input-secret"))
	}
}

// play sends a recorded request and returns the answer's body.
func (p *plane) play(t *testing.T, request string, key sitekey, token string) string {
	t.Helper()

	header, body, _ := strings.Cut(request, "\n\n")
	body = strings.NewReplacer("SECRET", key.Secret, "TOKEN", token, "SITEKEY", key.Sitekey.Sitekey).Replace(body)
	header = strings.ReplaceAll(strings.ReplaceAll(header, "LENGTH", fmt.Sprint(len(body))), "\n", "\r\n")

	conn, err := net.Dial("tcp", strings.TrimPrefix(p.URL, "http://"))
	testkit.NoError(t, err)
	defer conn.Close()

	if _, err := io.WriteString(conn, header+"\r\n\r\n"+body); err != nil {
		t.Fatal(err)
	}

	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	testkit.NoError(t, err)
	defer response.Body.Close()

	text, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK {
		t.Fatal(response.StatusCode, err)
	}

	return strings.TrimSuffix(string(text), "\n")
}

// TestRecaptchaGo verifies tokens with a library for reCAPTCHA. It is the strictest that we know:
// it treats an empty list of error codes and an empty timestamp as errors.
func TestRecaptchaGo(t *testing.T) {
	t.Parallel()
	p := newPlane(t, dbtest.Open(t, dbtest.SQLiteURL(t)))

	// The library compares the host name with its own.
	p.Clock.Set(time.Now())
	key := p.Sitekey(p.Account("a", model.CaptchaPlanFree), "example.com")
	client, err := recaptcha.NewReCAPTCHA(key.Secret, recaptcha.V2, 10*time.Second)
	testkit.NoError(t, err)

	client.ReCAPTCHALink = p.URL + compatPath
	token := p.Token(key, siteOrigin)

	options := recaptcha.VerifyOption{RemoteIP: "203.0.113.1", Hostname: "www.example.com", ResponseTime: time.Hour}
	testkit.Succeeds(t, client.VerifyWithOptions(token, options), "a fresh token")

	for _, test := range []struct{ name, token, code string }{
		{"the same token", token, "timeout-or-duplicate"}, {"no token", "", "missing-input-response"}, {"no token of ours", "x", "invalid-input-response"},
	} {
		err := client.Verify(test.token)
		refusal, ok := errors.AsType[*recaptcha.Error](err)
		if !ok || refusal.RequestError || len(refusal.ErrorCodes) != 1 || refusal.ErrorCodes[0] != test.code {
			t.Errorf("%s: %v, want the code %s", test.name, err, test.code)
		}
	}
}
