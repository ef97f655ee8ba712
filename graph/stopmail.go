package graph

import (
	"log/slog"
	"net/http"
	"time"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/alerts"
	"github.com/tallygate/tallygate/db/audit"
	"github.com/tallygate/tallygate/db/model"
)

// maxStopBody is the size of the body of a request that stops mails, in bytes.
const maxStopBody = 1 << 10

// StopMail returns the handler of POST requests that mail programs send to stop the mails of alert
// channels (RFC 8058). They need no session: the query's token is from the mail. Stopping twice
// succeeds.
func StopMail(d *db.DB, now func() time.Time, log *slog.Logger) (http.Handler, error) {
	ids, err := nodeIDs(d)
	if err != nil {
		return nil, err
	}

	channels := alerts.NewChannels(d)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "no-store")
		r.Body = http.MaxBytesReader(w, r.Body, maxStopBody)

		channelID, confirmedAt, ok := ids.ParseChannelStop(r.URL.Query().Get("token"))
		if !ok || r.PostFormValue("List-Unsubscribe") != "One-Click" {
			http.Error(w, "This is not the address of a mail that can be stopped.", http.StatusBadRequest)
			return
		}

		ctx := audit.WithActor(r.Context(), audit.Actor{
			Kind: audit.Unauthenticated, Action: "stopAlertMails", At: model.At(now()),
		})
		if err := channels.Stop(ctx, channelID, confirmedAt, model.At(now())); err != nil {
			log.ErrorContext(r.Context(), "a mail is not stopped", "error", err)
			http.Error(w, "The mails are not stopped. Try again later.", http.StatusServiceUnavailable)
			return
		}

		w.WriteHeader(http.StatusNoContent)
	}), nil
}
