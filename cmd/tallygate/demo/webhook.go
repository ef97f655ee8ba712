package demo

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"errors"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/tallygate/tallygate/cmd/tallygate/demo/history"
	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/accounts"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/sites"
)

// WebhookReceiver is a minimal back end for webhooks (docs/owner/webhooks.md): it verifies the signature,
// ignores repetitions and responds at once. It keeps the calls in memory, for the page that lists
// them.
type WebhookReceiver struct {
	Listener net.Listener // TLS on loopback
	CAFile   string       // PEM file of the authorities that the worker must trust
	Net      netip.Prefix // network that the worker must be permitted to call

	secret string
	url    string

	mu       sync.Mutex
	received []webhookCall // newest first
}

// webhookCall is a received call, as the page lists it.
type webhookCall struct {
	Time  time.Time       `json:"time"`
	ID    string          `json:"id"`
	Valid bool            `json:"valid"` // the signature is valid
	Body  json.RawMessage `json:"body"`  // null unless valid
}

const (
	webhookPath   = "/webhook"
	keptWebhooks  = 30
	maxWebhookLen = 64 << 10
)

// ListenForWebhooks listens on a free port of loopback with a new certificate. It writes the
// certificate, followed by those in caFile unless that is empty, to a file in the data folder.
func ListenForWebhooks(dataDir, caFile string) (*WebhookReceiver, error) {
	certificate, err := newCertificate(time.Now())
	if err != nil {
		return nil, err
	}

	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate.Certificate[0]})

	if caFile != "" {
		others, err := os.ReadFile(caFile)
		if err != nil {
			return nil, err
		}

		text = append(append(text, '\n'), others...)
	}

	trusted := filepath.Join(dataDir, "demo-webhook-ca.pem")
	if err := errors.Join(os.MkdirAll(dataDir, 0o700), os.WriteFile(trusted, text, 0o600)); err != nil {
		return nil, err
	}

	listener, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{certificate}})
	if err != nil {
		return nil, err
	}

	return &WebhookReceiver{
		Listener: listener,
		CAFile:   trusted,
		Net:      netip.MustParsePrefix("127.0.0.1/32"),
		secret:   rand.Text(),
		url:      "https://" + listener.Addr().String() + webhookPath,
	}, nil
}

// newCertificate returns a self-signed certificate for loopback.
func newCertificate(now time.Time) (tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, err
	}

	template := &x509.Certificate{
		SerialNumber: big.NewInt(now.UnixNano()), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: now.Add(-time.Hour), NotAfter: now.AddDate(1, 0, 0),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}

	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, err
}

// Handler returns the handler of webhook calls.
func (w *WebhookReceiver) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST "+webhookPath, w.receive)
	return mux
}

// receive reads the body, verifies its signature, notes the call unless it is a repetition, and
// responds.
func (w *WebhookReceiver) receive(rw http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(rw, r.Body, maxWebhookLen))
	if err != nil {
		http.Error(rw, "the body cannot be read", http.StatusBadRequest)
		return
	}

	call := webhookCall{Time: time.Now().UTC(), ID: r.Header.Get("webhook-id")}

	if !isSigned(body, w.secret, r.Header.Get("X-Service-Signature")) || !json.Valid(body) {
		w.note(call)
		http.Error(rw, "the signature is wrong", http.StatusUnauthorized)
		return
	}

	call.Valid, call.Body = true, body
	w.note(call)
	rw.WriteHeader(http.StatusNoContent)
}

// isSigned reports in constant time whether the signature is that of the body under the secret.
func isSigned(body []byte, secret, signature string) bool {
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write(body)
	return hmac.Equal([]byte(signature), []byte("sha256="+hex.EncodeToString(mac.Sum(nil))))
}

// note keeps a call for the page. A valid call that is retried, because its response was lost, is
// kept once.
func (w *WebhookReceiver) note(call webhookCall) {
	w.mu.Lock()
	defer w.mu.Unlock()

	repeated := func(c webhookCall) bool { return c.Valid && c.ID == call.ID }
	if call.Valid && slices.ContainsFunc(w.received, repeated) {
		return
	}

	w.received = slices.Insert(w.received, 0, call)
	w.received = w.received[:min(len(w.received), keptWebhooks)]
}

// list responds with the received calls.
func (w *WebhookReceiver) list(rw http.ResponseWriter, _ *http.Request) {
	w.mu.Lock()
	calls := append([]webhookCall{}, w.received...)
	w.mu.Unlock()
	rw.Header().Set("Content-Type", "application/json")
	rw.Header().Set("Cache-Control", "no-store")
	// The page polls again in a second.
	_ = json.NewEncoder(rw).Encode(calls)
}

// sendConversions sets the receiver as the conversion webhook of the owner's site and enables
// e-commerce events. The URL and the secret are new in every run.
func (w *WebhookReceiver) sendConversions(ctx context.Context, d *db.DB, ownerEmail, siteKey string) error {
	owner, err := accounts.New(d).UserByEmail(ctx, ownerEmail)
	if err != nil {
		return err
	}

	siteList, err := sites.New(d).Sites.Sites(ctx, owner.AccountID, 0, 100)
	if err != nil {
		return err
	}

	for _, site := range siteList {
		if site.SiteKey == siteKey {
			on, details := true, history.Details
			settings := sites.SiteUpdate{MeasureEcommerce: &on, VisitDetails: &details}
			return errors.Join(sites.New(d).Sites.UpdateSite(ctx, owner.AccountID, site.ID, settings),
				sites.New(d).Sites.SetConversionWebhook(ctx, owner.AccountID, site.ID, w.url, &w.secret, model.ChangedBy{}))
		}
	}

	return errors.New("the demo's site was deleted")
}
