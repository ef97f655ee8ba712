package acme

import (
	"crypto/x509"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"testing"
	"time"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/alerts"
	"github.com/tallygate/tallygate/db/certificates"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/jobs"
	"github.com/tallygate/tallygate/tools/acmetest"
	"github.com/tallygate/tallygate/tools/dbtest"
	"github.com/tallygate/tallygate/tools/testkit"
	"github.com/tallygate/tallygate/tools/world"
)

// alertMessage is the body that a channel of the kind webhook receives.
type alertMessage struct {
	Event, Phase, Subject string
}

// TestAlert checks that a receiver gets a message when there is no certificate because the
// authority is away, and another one when the certificate is there.
func TestAlert(t *testing.T) {
	t.Parallel()
	const host = "alert.tallygate.test"

	received := make(chan alertMessage, 10)
	receiver := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		var message alertMessage
		if err != nil || json.Unmarshal(body, &message) != nil {
			t.Errorf("body %s, %v", body, err)
		}
		received <- message
	}))
	defer receiver.Close()

	d := dbtest.Open(t, dbtest.SQLiteURL(t))
	addOperatorChannel(t, d, receiver.URL+"/hook")
	f := listenFront(t)
	a := f.authority(t, acmetest.Options{Validity: time.Hour})
	f.serve(t, d, a, Options{Hosts: []string{host}})
	testkit.Await(t, "a record", func() bool {
		hosts, err := certificates.New(d).Hosts(t.Context(), model.At(time.Now()))
		return err == nil && len(hosts) == 1
	})

	// A worker evaluates the rules when it starts, and then every five minutes.
	stop := startWorker(t, d, receiver.Certificate())
	failed := awaitMessage(t, received)
	if failed.Event != "certificate_failed" || failed.Phase != "begun" || failed.Subject != host {
		t.Errorf("message %+v", failed)
	}
	stop()

	a.Start()
	f.awaitServed(t, host)
	testkit.Await(t, "a record", func() bool { return hostState(t, d, host).ExpiresAt != 0 })
	defer startWorker(t, d, receiver.Certificate())()
	if ended := awaitMessage(t, received); ended.Phase != "ended" || ended.Event != failed.Event || ended.Subject != host {
		t.Errorf("message %+v", ended)
	}
	if n := len(received); n > 0 {
		t.Errorf("%d other messages: %+v", n, <-received)
	}
}

// addOperatorChannel adds an operator's channel for failed certificates.
func addOperatorChannel(t *testing.T, d *db.DB, url string) {
	t.Helper()
	operator := model.User{Email: "op@example.org", Operator: true, Language: model.English, CreatedAt: 1}
	if _, err := d.Write.NewInsert().Model(&operator).Exec(t.Context()); err != nil {
		t.Fatal(err)
	}
	_, err := alerts.NewChannels(d).Create(t.Context(), model.AlertChannel{
		AccountID: world.New(t, d).Site("shop.example").AccountID, Kind: model.ChannelWebhook, Name: "ops",
		Language: model.English, Events: []model.AlertEvent{model.AlertCertificateFailed}, CreatedBy: operator.ID, OperatorID: operator.ID,
	}, alerts.Secrets{Address: &url}, nil, model.At(time.Now()))
	testkit.NoError(t, err)
}

// startWorker starts a worker that may call a receiver on this machine. The caller stops it.
func startWorker(t *testing.T, d *db.DB, certificate *x509.Certificate) (stop func()) {
	t.Helper()
	authorities := x509.NewCertPool()
	authorities.AddCert(certificate)
	worker, err := jobs.New(jobs.Options{
		DB: d, Now: time.Now, Log: slog.New(slog.NewTextHandler(t.Output(), nil)),
		WebhookNets: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, WebhookAuthorities: authorities,
	})
	if err == nil {
		err = worker.Start()
	}
	testkit.NoError(t, err)
	return func() {
		if err := worker.Stop(t.Context()); err != nil {
			t.Error(err)
		}
	}
}

func awaitMessage(t *testing.T, received <-chan alertMessage) alertMessage {
	t.Helper()
	select {
	case message := <-received:
		return message
	case <-time.After(patience):
		t.Fatalf("no message after %v", patience)
		return alertMessage{}
	}
}
