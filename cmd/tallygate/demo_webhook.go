package main

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
	"log"
	"math/big"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/accounts"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/sites"
)

// webhookReceiver is the back end that an owner writes for webhooks, in small (docs/webhooks.md):
// it checks who calls, does each thing once, and answers at once. What it was told it keeps in
// memory, for the page that lists it.
type webhookReceiver struct {
	secret   string
	url      string
	listener net.Listener // TLS on loopback

	mu       sync.Mutex
	received []webhookCall // newest first
}

// webhookCall is a call as the page lists it.
type webhookCall struct {
	Time  time.Time       `json:"time"`
	ID    string          `json:"id"`
	Valid bool            `json:"valid"` // the signature is Tallygate's
	Body  json.RawMessage `json:"body"`  // null unless valid
}

const (
	webhookPath   = "/webhook"
	keptWebhooks  = 30
	maxWebhookLen = 64 << 10
)

// listenForWebhooks takes a free port of loopback, with a certificate that lives as long as the
// process, and tells config that the worker may call it.
func listenForWebhooks(c *Config) (*webhookReceiver, error) {
	certificate, err := throwAwayCertificate(time.Now())
	if err != nil {
		return nil, err
	}

	trusted := filepath.Join(c.DataDir, "demo-webhook-ca.pem")
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate.Certificate[0]})

	if c.WebhookCAFile != "" {
		others, err := os.ReadFile(c.WebhookCAFile)
		if err != nil {
			return nil, err
		}

		text = append(append(text, '\n'), others...)
	}

	if err := errors.Join(os.MkdirAll(c.DataDir, 0o700), os.WriteFile(trusted, text, 0o600)); err != nil {
		return nil, err
	}

	listener, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{certificate}})
	if err != nil {
		return nil, err
	}

	c.WebhookCAFile = trusted
	c.WebhookAllowNets = append(c.WebhookAllowNets, Network{netip.MustParsePrefix("127.0.0.1/32")})
	return &webhookReceiver{secret: rand.Text(), url: "https://" + listener.Addr().String() + webhookPath, listener: listener}, nil
}

// throwAwayCertificate is one for loopback that vouches for itself.
func throwAwayCertificate(now time.Time) (tls.Certificate, error) {
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

// server serves the receiver, once it is told to.
func (w *webhookReceiver) server() *http.Server {
	mux := http.NewServeMux()
	mux.HandleFunc("POST "+webhookPath, w.receive)
	return &http.Server{Handler: mux, ReadHeaderTimeout: readHeaderTimeout, ReadTimeout: readTimeout, WriteTimeout: writeTimeout,
		ErrorLog: log.New(io.Discard, "", 0)}
}

// receive is the whole of it: read the bytes, check them as they are, note them unless they came
// before, answer.
func (w *webhookReceiver) receive(rw http.ResponseWriter, r *http.Request) {
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

// isSigned reports whether a signature is that of the body under the secret, in constant time.
func isSigned(body []byte, secret, signature string) bool {
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write(body)
	return hmac.Equal([]byte(signature), []byte("sha256="+hex.EncodeToString(mac.Sum(nil))))
}

// note keeps a call for the page. A valid one that is repeated, because its answer got lost, is
// kept once.
func (w *webhookReceiver) note(call webhookCall) {
	w.mu.Lock()
	defer w.mu.Unlock()

	repeated := func(c webhookCall) bool { return c.Valid && c.ID == call.ID }
	if call.Valid && slices.ContainsFunc(w.received, repeated) {
		return
	}

	w.received = slices.Insert(w.received, 0, call)
	w.received = w.received[:min(len(w.received), keptWebhooks)]
}

// list answers the page that shows what was received.
func (w *webhookReceiver) list(rw http.ResponseWriter, _ *http.Request) {
	w.mu.Lock()
	calls := append([]webhookCall{}, w.received...)
	w.mu.Unlock()
	rw.Header().Set("Content-Type", "application/json")
	rw.Header().Set("Cache-Control", "no-store")
	// the page asks again in a second
	_ = json.NewEncoder(rw).Encode(calls)
}

// sendConversions makes the receiver the conversion webhook of the owner's site, with e-commerce
// events on. Address and secret are new in every run.
func (w *webhookReceiver) sendConversions(ctx context.Context, d *db.DB, ownerEmail, siteKey string) error {
	owner, err := accounts.New(d).UserByEmail(ctx, ownerEmail)
	if err != nil {
		return err
	}

	siteList, err := sites.New(d).Sites(ctx, owner.AccountID, 0, 100)
	if err != nil {
		return err
	}

	for _, site := range siteList {
		if site.SiteKey == siteKey {
			on := true
			return errors.Join(sites.New(d).UpdateSite(ctx, owner.AccountID, site.ID, sites.SiteUpdate{MeasureEcommerce: &on}),
				sites.New(d).SetConversionWebhook(ctx, owner.AccountID, site.ID, w.url, &w.secret, model.ChangedBy{}))
		}
	}

	return errors.New("the demo's site is gone")
}
