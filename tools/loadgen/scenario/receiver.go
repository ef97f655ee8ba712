package scenario

import (
	"encoding/pem"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
)

// receiver is a server of an owner that takes all webhooks, over TLS.
type receiver struct {
	server    *httptest.Server
	authority string // PEM file

	mu    sync.Mutex
	calls map[string]int64 // by message id
}

// startReceiver starts the server on loopback, and writes its authority to dir. The caller closes it.
func startReceiver(dir string) (*receiver, error) {
	r := &receiver{authority: filepath.Join(dir, "receiver.pem"), calls: make(map[string]int64)}
	r.server = httptest.NewTLSServer(http.HandlerFunc(r.receive))

	certificate := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: r.server.Certificate().Raw})
	if err := os.WriteFile(r.authority, certificate, 0o600); err != nil {
		r.server.Close()
		return nil, err
	}
	return r, nil
}

func (r *receiver) receive(w http.ResponseWriter, call *http.Request) {
	if _, err := io.Copy(io.Discard, call.Body); err != nil {
		// The caller repeats the message.
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.calls[call.Header.Get("webhook-id")]++
	w.WriteHeader(http.StatusNoContent)
}

// counts returns how many messages arrived, and how many calls repeated one.
func (r *receiver) counts() (messages, repeated int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, n := range r.calls {
		repeated += n - 1
	}
	return int64(len(r.calls)), repeated
}
