package graph

import (
	"log/slog"
	"net/http"
	"time"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/alertchannels"
	"github.com/tallygate/tallygate/db/audit"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/sites"
)

// maxStopBody is the size of the body of a request that stops mails, in bytes.
const maxStopBody = 1 << 10

// StopMail returns the handler of POST requests that mail programs send to stop report mails and mails of
// alert channels (RFC 8058). They need no session: the query's token is from the mail. Stopping twice succeeds.
func StopMail(d *db.DB, now func() time.Time, log *slog.Logger) (http.Handler, error) {
	ids, err := nodeIDs(d)
	if err != nil {
		return nil, err
	}

	store, channels := sites.New(d), alertchannels.New(d)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "no-store")
		r.Body = http.MaxBytesReader(w, r.Body, maxStopBody)

		token := r.URL.Query().Get("token")
		mail, ok := ids.ParseStop(token)
		channelID, confirmedAt, ofChannel := ids.ParseChannelStop(token)
		if !ok && !ofChannel || r.PostFormValue("List-Unsubscribe") != "One-Click" {
			http.Error(w, "This is not the address of a mail that can be stopped.", http.StatusBadRequest)
			return
		}

		ctx := audit.WithActor(r.Context(), audit.Actor{
			Kind: audit.Unauthenticated, Action: "stopReportMail", At: model.At(now()),
		})
		err := error(nil)
		if ofChannel {
			err = channels.Stop(ctx, channelID, confirmedAt, model.At(now()))
		} else {
			err = store.StopReportMail(ctx, mail)
		}
		if err != nil {
			log.ErrorContext(r.Context(), "a mail is not stopped", "error", err)
			http.Error(w, "The mails are not stopped. Try again later.", http.StatusServiceUnavailable)
			return
		}

		w.WriteHeader(http.StatusNoContent)
	}), nil
}
