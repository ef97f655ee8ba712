// Package upload takes the files of imports, in pieces, and stores them in the database, where any
// worker finds them. The program mounts its handler. GraphQL starts an import and names its files.
package upload

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/accounts"
	"github.com/tallygate/tallygate/db/imports"
	"github.com/tallygate/tallygate/db/keys"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/nodeid"
	"github.com/tallygate/tallygate/db/turns"
	"github.com/tallygate/tallygate/web"
)

// Path is where the handler is mounted.
const Path = "/products/analytics/api/import.php"

// The bounds of this process. A piece of up to 1 MiB stays in memory from its first byte until it
// is stored.
const (
	receiving         = 64 // pieces, one of an account
	storing           = 8  // of them, so that a slow sender keeps no other piece from the database
	waiting           = 100
	waitingPerAccount = 4
	patience          = 20 * time.Second
	retryAfter        = 3 * time.Second
	transferTimeout   = 30 * time.Second // of a piece: 35 KB/s
	storeTimeout      = 30 * time.Second
)

// Options configures the handler. All fields are required.
type Options struct {
	DB      *db.DB
	Log     *slog.Logger
	BaseURL string // {base_url}: pages from there may upload
	Now     func() time.Time

	// User returns the caller and its API token, if it may change the settings of one of its
	// accounts; else a model.Error.
	User func(*http.Request) (*model.User, *model.APIToken, error)
}

type uploads struct {
	Options
	keys     *keys.Store
	store    *imports.Store
	accounts *accounts.Store
	received turns.Queue // pieces that are received or stored
	stored   turns.Queue
	failures *web.FailureLog
}

// Handler returns the handler. It takes one piece of the upload of an import job, with PUT and the
// parameters job_id and offset, and answers {"received": n}: the offset of the next piece. A piece
// at another offset is not stored. Errors are JSON objects with an error code: not_signed_in (401),
// forbidden (403), not_found (404, also for a job of another account), bad_parameter and bad_chunk
// (400), import_finished (409: the job does not wait for an upload), method_not_allowed (405),
// too_many_uploads (429, with Retry-After), unavailable (503).
//
// An account uploads one piece at a time.
func Handler(o Options) (http.Handler, error) {
	base, err := url.Parse(o.BaseURL)
	if err != nil {
		return nil, err
	}
	origins := http.NewCrossOriginProtection()
	if err := origins.AddTrustedOrigin(base.Scheme + "://" + base.Host); err != nil {
		return nil, err
	}
	origins.SetDenyHandler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		writeError(w, &model.Error{Kind: model.Forbidden, Code: "forbidden"})
	}))

	return origins.Handler(&uploads{
		Options: o, keys: keys.New(o.DB), store: imports.New(o.DB), accounts: accounts.New(o.DB),
		failures: web.NewFailureLog(o.Log),
		received: turns.Queue{Most: receiving, MostPerKey: 1, Line: waiting, LinePerKey: waitingPerAccount, Patience: patience},
		stored:   turns.Queue{Most: storing, MostPerKey: 1, Line: receiving, LinePerKey: 1, Patience: patience},
	}), nil
}

// ServeHTTP implements http.Handler.
func (u *uploads) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	received, err := u.serve(w, r)
	if err != nil {
		shown := web.Shown(err)
		if shown.Kind == model.Unavailable && r.Context().Err() == nil {
			u.failures.Error(r.Context(), "upload failed", err)
		}
		writeError(w, shown)
		return
	}

	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	_ = json.NewEncoder(w).Encode(struct {
		Received int64 `json:"received"`
	}{received})
}

// failure is the body of an error.
type failure struct {
	Error     string `json:"error"`
	Parameter string `json:"parameter,omitempty"` // of bad_parameter
}

func writeError(w http.ResponseWriter, shown *model.Error) {
	body := failure{Error: shown.Code}
	if shown.Kind == model.Invalid {
		body.Parameter = shown.Field
	}
	web.WriteError(w, shown, http.MethodPut, body)
}

func (u *uploads) serve(w http.ResponseWriter, r *http.Request) (received int64, err error) {
	if r.Method != http.MethodPut {
		return 0, &model.Error{Kind: model.MethodNotAllowed, Code: "method_not_allowed"}
	}
	user, token, err := u.User(r)
	if model.KindOf(err) == model.Unauthenticated {
		return 0, &model.Error{Kind: model.Unauthenticated, Code: "not_signed_in"}
	}
	if err != nil {
		return 0, err
	}
	offset, err := strconv.ParseInt(r.URL.Query().Get("offset"), 10, 64)
	if err != nil || offset < 0 || offset%model.ImportChunk != 0 {
		return 0, &model.Error{Kind: model.Invalid, Code: "bad_parameter", Field: "offset"}
	}

	accountID, jobID, err := u.job(r.Context(), user, token, r.URL.Query().Get("job_id"))
	if err != nil {
		return 0, err
	}
	end, err := takeTurn(w, r, &u.received, accountID, transferTimeout)
	if err != nil {
		return 0, err
	}
	defer end()

	data, err := io.ReadAll(http.MaxBytesReader(w, r.Body, model.ImportChunk))
	if _, tooLong := errors.AsType[*http.MaxBytesError](err); tooLong {
		return 0, &model.Error{Kind: model.Invalid, Code: "bad_chunk"}
	}
	if err != nil {
		return 0, err
	}

	stored, err := takeTurn(w, r, &u.stored, accountID, storeTimeout)
	if err != nil {
		return 0, err
	}
	defer stored()
	return u.store.Put(r.Context(), accountID, jobID, offset, data, model.At(u.Now()))
}

// takeTurn waits for the account's turn in a queue, and extends the server's deadlines by the wait
// and by the time for the work.
func takeTurn(
	w http.ResponseWriter, r *http.Request, queue *turns.Queue, accountID model.AccountID, work time.Duration,
) (end func(), err error) {
	control := http.NewResponseController(w)
	extend := func(by time.Duration) {
		_ = control.SetReadDeadline(time.Now().Add(by))
		_ = control.SetWriteDeadline(time.Now().Add(by))
	}
	extend(patience + work)
	end, err = queue.Take(r.Context(), strconv.FormatInt(int64(accountID), 10))
	extend(work)
	if errors.Is(err, turns.ErrBusy) {
		return nil, &model.Error{Kind: model.RateLimited, Code: "too_many_uploads", RetryAfter: retryAfter}
	}
	return end, err
}

// job returns the account and the number of a job, if the user may change the settings of its site.
func (u *uploads) job(
	ctx context.Context, user *model.User, token *model.APIToken, id string,
) (accountID model.AccountID, jobID model.ImportJobID, err error) {
	ids, err := u.keys.NodeIDs(ctx)
	if err != nil {
		return 0, 0, err
	}
	number, ok := nodeid.Parse[model.ImportJobID](ids, id)
	if !ok {
		return 0, 0, model.ErrNotFound
	}

	member, err := u.accounts.MemberFor(ctx, user, nodeid.ImportJob, int64(number))
	if err != nil {
		return 0, 0, err
	}
	if err := member.Check(model.MayConfigure, token); err != nil {
		return 0, 0, err
	}
	if err := member.Account.CheckSuspended(model.MayConfigure); err != nil {
		return 0, 0, err
	}
	jobID = model.ImportJobID(number)
	_, err = u.store.Job(ctx, member.AccountID, jobID)
	return member.AccountID, jobID, err
}
