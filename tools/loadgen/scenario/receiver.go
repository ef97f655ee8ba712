package scenario

import (
	"context"
	"encoding/pem"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/tools/loadgen/load"
	"github.com/tallygate/tallygate/tools/loadgen/target"
)

// receiver is a server of an owner that takes all webhooks, over TLS.
type receiver struct {
	server    *httptest.Server
	authority string // PEM file

	mu    sync.Mutex
	calls map[string]int64 // by message id
}

// startReceiver starts the server on loopback, and writes its authority to dir. The caller closes
// it.
func startReceiver(dir string) (*receiver, error) {
	r := &receiver{authority: filepath.Join(dir, "receiver.pem"), calls: make(map[string]int64)}
	r.server = httptest.NewUnstartedServer(http.HandlerFunc(r.receive))
	r.server.Config.ErrorLog = log.New(io.Discard, "", 0) // of callers that are killed
	r.server.StartTLS()

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

// settings returns the settings with which a server sends webhooks here.
func (r *receiver) settings() map[string]string {
	return map[string]string{"TALLYGATE_WEBHOOK_ALLOW_NETS": "127.0.0.1", "TALLYGATE_WEBHOOK_CA_FILE": r.authority}
}

// address returns the address for the webhooks of conversions.
func (r *receiver) address() string { return r.server.URL + "/conversion" }

// deliveries compares the deliveries of conversions with the receiver's calls.
type deliveries struct {
	Stored   int64
	Open     int64 // not delivered at the end
	Received int64 // different messages
	Repeated int64 // further calls with a message that had arrived
	Most     int64 // calls of one message
}

// complete reports whether each stored delivery arrived, and none was tried too often.
func (d *deliveries) complete() bool {
	return d.Stored > 0 && d.Open == 0 && d.Received == d.Stored && d.Most <= model.MaxAttempts
}

// deliveryPatience is the longest wait for deliveries. Another process repeats deliveries that a
// process claimed and did not finish.
const deliveryPatience = 5 * time.Minute

// await waits until no delivery of the sites is open, and compares them with the messages.
func (r *receiver) await(ctx context.Context, a *target.Account, sites []target.Site) (d deliveries, err error) {
	deadline := time.Now().Add(deliveryPatience)
	for {
		d = deliveries{}
		for _, site := range sites {
			if err := d.add(ctx, a, site.ID); err != nil {
				return d, err
			}
		}
		r.count(&d)
		if d.complete() || time.Now().After(deadline) {
			return d, nil
		}
		if err := load.Wait(ctx, time.Second); err != nil {
			return d, err
		}
	}
}

// add adds a site's deliveries.
func (d *deliveries) add(ctx context.Context, a *target.Account, siteID string) error {
	all, err := a.Deliveries(ctx, siteID, "")
	if err != nil {
		return err
	}
	delivered, err := a.Deliveries(ctx, siteID, "DELIVERED")
	if err != nil {
		return err
	}
	for event, n := range all {
		d.Stored += n
		d.Open += n - delivered[event]
	}
	return nil
}

// count sets how many messages arrived, and how often.
func (r *receiver) count(d *deliveries) {
	r.mu.Lock()
	defer r.mu.Unlock()
	d.Received = int64(len(r.calls))
	for _, n := range r.calls {
		d.Repeated += n - 1
		d.Most = max(d.Most, n)
	}
}
