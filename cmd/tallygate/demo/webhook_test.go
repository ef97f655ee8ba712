package demo

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tallygate/tallygate/tools/testkit"
)

// TestWebhookReceiver checks that the shop's back end accepts only calls signed with its secret,
// and keeps each of them once.
func TestWebhookReceiver(t *testing.T) {
	w := &WebhookReceiver{secret: "key"}
	const body = `{"type":"conversion"}`

	// printf '{"type":"conversion"}' | openssl dgst -sha256 -hmac key
	const signature = "sha256=991037495abbcb9a1dcbaeea7b04cc1b8328cb48214bf91280bbdd611af17877"
	handler := w.Handler()
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

		testkit.Equal(t, answer.Code, call.status, "%s: status", call.name)
	}

	for range 2 * keptWebhooks {
		w.note(webhookCall{ID: "m1", Valid: true})
	}

	answer := httptest.NewRecorder()
	w.list(answer, nil)

	var listed []webhookCall
	if err := json.Unmarshal(answer.Body.Bytes(), &listed); err != nil || len(listed) != 5 {
		t.Fatalf("listed are %d calls, %v; want the signed one and the four refused ones: %s",
			len(listed), err, answer.Body)
	}

	for i, call := range listed {
		if last := i == len(listed)-1; call.Valid != last ||
			string(call.Body) != map[bool]string{true: body, false: "null"}[last] {
			t.Errorf("call %d is listed as %+v", i, call)
		}
	}

	for range 2 * keptWebhooks {
		w.note(webhookCall{ID: "m3"})
	}

	testkit.Equal(t, len(w.received), keptWebhooks, "calls are kept")
}

// TestDemoTrustsOtherAuthoritiesToo checks that configured authorities remain trusted together with
// the demo's certificate.
func TestDemoTrustsOtherAuthoritiesToo(t *testing.T) {
	other := httptest.NewTLSServer(http.NotFoundHandler())
	defer other.Close()

	dataDir, caFile := filepath.Join(t.TempDir(), "new"), filepath.Join(t.TempDir(), "ca.pem")
	if _, err := ListenForWebhooks(dataDir, caFile); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("without the file: %v", err)
	}

	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: other.Certificate().Raw})
	testkit.NoError(t, os.WriteFile(caFile, text, 0o600))

	w, err := ListenForWebhooks(dataDir, caFile)
	testkit.NoError(t, err)

	server := &http.Server{Handler: w.Handler()}
	go func() { _ = server.Serve(w.Listener) }()
	defer server.Close()

	trusted, err := os.ReadFile(w.CAFile)
	pool := x509.NewCertPool()
	if err != nil || !pool.AppendCertsFromPEM(trusted) {
		t.Fatalf("%v, or no certificate in\n%s", err, trusted)
	}

	client := http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}}}
	defer client.CloseIdleConnections()

	for url, status := range map[string]int{w.url: 405, other.URL: 404} {
		response, err := client.Get(url)
		testkit.NoError(t, err)

		response.Body.Close()

		testkit.Equal(t, response.StatusCode, status, "%s: status", url)
	}
}
