package main

import (
	"crypto/tls"
	"encoding/json"
	"encoding/pem"
	"errors"
	"io/fs"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tallygate/tallygate/db/dbtest"
	"github.com/tallygate/tallygate/frontend-assets/browsertest"
)

// TestDemoPurchaseChromium is what a newcomer does with webhooks: a real browser buys the kettle,
// having come by a campaign, and the shop's back end is told by a signed call. A second start of
// the demo, with another address and secret, does the same.
func TestDemoPurchaseChromium(t *testing.T) {
	dir := t.TempDir()
	for _, run := range []string{"sqlite", "sqlite again", "postgres"} {
		t.Run(run, func(t *testing.T) {
			settings := map[string]string{"TALLYGATE_DATA_DIR": dir, "TALLYGATE_DEMO_ADDR": "127.0.0.1:0"}

			if run == "postgres" {
				settings["TALLYGATE_DATA_DIR"], settings["TALLYGATE_DATABASE_URL"] = t.TempDir(), dbtest.PostgresURL(t)
			}

			p := start(t, settings, []string{"control", "data", "demo"}, "demo")
			defer p.kill()

			_, port, err := net.SplitHostPort(p.addr["demo"])
			if err != nil {
				t.Fatal(err)
			}

			shop := "http://demo.localhost:" + port
			page := browsertest.New(t, browsertest.Host("demo.localhost", "http://"+p.addr["demo"])).
				Open(shop + "/shop/kettle?utm_source=newsletter&utm_medium=email&utm_campaign=spring")

			// the page view is stored, and the script there
			page.WaitFor(`document.querySelectorAll('#rows tr').length > 0`)
			page.Click("#buy")
			page.WaitFor(`document.querySelector('#bought').textContent.startsWith('Bought as T-')`)
			var bought string
			page.Eval(`document.querySelector('#bought').textContent.split(/[ .]/)[2]`, &bought)
			page.Click(`#bought a`)
			page.WaitFor(`location.pathname === '/webhooks' && document.querySelectorAll('#calls tr').length > 0`)

			var cells []string
			page.Eval(`[...document.querySelectorAll('#calls tr:first-child td')].slice(1).map((td) => td.textContent)`, &cells)

			if got, want := strings.Join(cells, "; "), "purchase; "+bought+"; 39.9 EUR; email; newsletter / email / spring; valid"; got != want {
				t.Errorf("the shop's back end was told %q, want %q", got, want)
			}

			var body string
			page.Eval(`document.querySelector('#body').textContent`, &body)

			var call struct {
				Type    string
				SiteKey string `json:"site_key"`
				Path    string
			}
			if err := json.Unmarshal([]byte(body), &call); err != nil || call.Type != "conversion" || call.Path != "/shop/kettle" || len(call.SiteKey) != 32 {
				t.Errorf("the call says %s, %v", body, err)
			}

			for _, message := range page.Console() {
				t.Errorf("the page's console says %s: %s", message.Level, message.Text)
			}

			for _, barrier := range page.Barriers("html") {
				t.Error(barrier)
			}
		})
	}
}

// TestWebhookReceiver: the shop's back end believes calls that are signed with its secret only, and
// notes each of them once.
func TestWebhookReceiver(t *testing.T) {
	w := &webhookReceiver{secret: "key"}
	const body = `{"type":"conversion"}`

	// printf '{"type":"conversion"}' | openssl dgst -sha256 -hmac key
	const signature = "sha256=991037495abbcb9a1dcbaeea7b04cc1b8328cb48214bf91280bbdd611af17877"
	handler := w.server().Handler
	for _, call := range []struct {
		name, id, signature, body string
		status                    int
	}{
		{"signed", "m1", signature, body, 204},
		{"repeated", "m1", signature, body, 204},
		{"not signed", "m2", "", body, 401},
		{"another body", "m2", signature, body + " ", 401},
		{"another secret", "m2", strings.Replace(signature, "=", "=0", 1)[:len(signature)], body, 401},
		{"without the prefix", "m2", strings.TrimPrefix(signature, "sha256="), body, 401},
		{"too large", "m2", signature, strings.Repeat(" ", maxWebhookLen+1), 400},
	} {
		request := httptest.NewRequest(http.MethodPost, webhookPath, strings.NewReader(call.body))
		request.Header.Set("webhook-id", call.id)
		request.Header.Set("X-Service-Signature", call.signature)
		answer := httptest.NewRecorder()
		handler.ServeHTTP(answer, request)

		if answer.Code != call.status {
			t.Errorf("%s: status %d, want %d", call.name, answer.Code, call.status)
		}
	}

	for range 2 * keptWebhooks {
		w.note(webhookCall{ID: "m1", Valid: true})
	}

	answer := httptest.NewRecorder()
	w.list(answer, nil)

	var listed []webhookCall
	if err := json.Unmarshal(answer.Body.Bytes(), &listed); err != nil || len(listed) != 5 {
		t.Fatalf("listed are %d calls, %v; want the signed one and the four refused ones: %s", len(listed), err, answer.Body)
	}

	for i, call := range listed {
		if last := i == len(listed)-1; call.Valid != last || string(call.Body) != map[bool]string{true: body, false: "null"}[last] {
			t.Errorf("call %d is listed as %+v", i, call)
		}
	}

	for range 2 * keptWebhooks {
		w.note(webhookCall{ID: "m3"})
	}

	if len(w.received) != keptWebhooks {
		t.Errorf("%d calls are kept, want %d", len(w.received), keptWebhooks)
	}
}

// TestDemoTrustsOtherAuthoritiesToo: what the settings allow webhooks stays allowed beside the
// demo's receiver.
func TestDemoTrustsOtherAuthoritiesToo(t *testing.T) {
	other := httptest.NewTLSServer(http.NotFoundHandler())
	defer other.Close()

	c := &Config{DataDir: filepath.Join(t.TempDir(), "new"), WebhookCAFile: filepath.Join(t.TempDir(), "ca.pem")}
	if _, err := listenForWebhooks(c); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("without the file: %v", err)
	}

	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: other.Certificate().Raw})
	if err := os.WriteFile(c.WebhookCAFile, text, 0o600); err != nil {
		t.Fatal(err)
	}

	w, err := listenForWebhooks(c)
	if err != nil {
		t.Fatal(err)
	}

	server := w.server()
	go func() { _ = server.Serve(w.listener) }()
	defer server.Close()

	pool, err := certificates(c.WebhookCAFile)
	if err != nil {
		t.Fatal(err)
	}

	client := http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}}}
	defer client.CloseIdleConnections()

	for url, status := range map[string]int{w.url: 405, other.URL: 404} {
		response, err := client.Get(url)
		if err != nil {
			t.Fatal(err)
		}

		response.Body.Close()

		if response.StatusCode != status {
			t.Errorf("%s: status %d, want %d", url, response.StatusCode, status)
		}
	}
}
