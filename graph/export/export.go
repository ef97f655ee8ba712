// Package export is the download of a site's raw rows by its owner (analytics contract, section 4,
// GET /products/analytics/api/export.php). Rows are read live and streamed.
package export

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"math"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"time"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/exports"
	"github.com/tallygate/tallygate/db/keys"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/sites"
	"github.com/tallygate/tallygate/graph/turns"
)

// Path is where the handler is mounted.
const Path = "/products/analytics/api/export.php"

// Limits of one request, in rows (analytics contract, section 8).
const (
	defaultLimit = 10_000
	maxLimit     = 50_000
	maxOffset    = 1 << 40 // beyond any table; keeps the number within every database's range
)

// The bounds of downloads in this process. One that waits costs its connection and some kilobytes;
// it has read nothing but its site yet, and holds no database connection.
const (
	runningPerAccount = 2
	waitingPerAccount = 20
	waitingInAll      = 400
	queueTimeout      = 30 * time.Second // longest wait for a turn
	retryAfter        = 5 * time.Second  // after a wait in vain, or when too many wait
)

// Options are what the handler works with.
type Options struct {
	DB   *db.DB
	User func(*http.Request) (*model.User, error) // who may download; nil, or a model.Error of kind Unauthenticated or Forbidden, for others
	Log  *slog.Logger
}

// downloads serves downloads.
type downloads struct {
	Options
	keys *keys.Store // remembers the key of ids

	queue turns.Queue // of downloads, by account

	mu      sync.Mutex
	logged  time.Time // when a failure was logged last
	skipped int       // failures since then
}

// Handler returns the download handler. Errors are JSON objects with an error code: not_signed_in
// (401, also for an API token that is none), forbidden (403, for an API token without the scope
// EXPORT), unknown_site (404, also for a site of another account), bad_parameter (400, with the
// parameter's name), method_not_allowed (405), too_many_downloads (429, with Retry-After),
// unavailable (503, with Retry-After).
//
// Of an account, two downloads run at once. Up to 20 more wait for their turn, first come, first
// served, for up to 30 seconds; then, and when more wait, the answer is too_many_downloads.
func Handler(options Options) http.Handler { return newDownloads(options) }

func newDownloads(options Options) *downloads {
	return &downloads{Options: options, keys: keys.New(options.DB), queue: turns.Queue{
		Most:       math.MaxInt, // a slow reader of one account must not keep another one waiting
		MostPerKey: runningPerAccount,
		Line:       waitingInAll,
		LinePerKey: waitingPerAccount,
		Patience:   queueTimeout,
	}}
}

// ServeHTTP implements http.Handler.
func (o *downloads) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	// A download that its owner cancels ends here too: the request's context cancels the wait and
	// the query.
	if err := o.serve(w, r); err != nil && r.Context().Err() == nil {
		o.fail(w, r, err)
	}
}

func (o *downloads) serve(w http.ResponseWriter, r *http.Request) error {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		return &model.Error{Kind: model.MethodNotAllowed, Code: "method_not_allowed"}
	}

	user, err := o.User(r)
	if err == nil && user == nil || model.KindOf(err) == model.Unauthenticated {
		return &model.Error{Kind: model.Unauthenticated, Code: "not_signed_in"}
	}
	if err != nil {
		return err
	}

	request, err := parse(r.URL.Query())
	if err != nil {
		return err
	}

	site, err := o.site(r.Context(), user.AccountID, request.site)
	if err != nil {
		return err
	}

	request.rows.SiteID = site.ID

	end, err := o.takeTurn(w, r, user.AccountID)
	if err != nil {
		return err
	}
	defer end()

	return o.stream(w, r, site, request)
}

// takeTurn waits until the account may run one more download, and returns what ends it. The
// server's write deadline does not run while it waits: the answer, also a refusal, has stallTimeout
// from then on.
func (o *downloads) takeTurn(w http.ResponseWriter, r *http.Request, accountID int64) (end func(), err error) {
	control := http.NewResponseController(w)
	_ = control.SetWriteDeadline(time.Now().Add(o.queue.Patience + stallTimeout))
	end, err = o.queue.Take(r.Context(), strconv.FormatInt(accountID, 10))
	_ = control.SetWriteDeadline(time.Now().Add(stallTimeout))

	if errors.Is(err, turns.ErrBusy) {
		return nil, &model.Error{Kind: model.RateLimited, Code: "too_many_downloads", RetryAfter: retryAfter}
	}

	return end, err
}

var errUnknownSite = &model.Error{Kind: model.NotFound, Code: "unknown_site"}

func (o *downloads) site(ctx context.Context, accountID int64, id string) (*model.Site, error) {
	ids, err := o.keys.NodeIDs(ctx)
	if err != nil {
		return nil, err
	}

	siteID, ok := ids.Parse(model.NodeSite, id)
	if !ok {
		return nil, errUnknownSite
	}

	site, err := sites.New(o.DB).SiteByID(ctx, accountID, siteID)
	if errors.Is(err, model.ErrNotFound) {
		return nil, errUnknownSite
	}

	return site, err
}

// kind is one type of rows that can be downloaded.
type kind struct {
	name  string
	blank []exports.Field // a row without content
	// each calls row with the columns of each row of the range.
	each func(ctx context.Context, s *exports.Store, r exports.Range, row func([]exports.Field) error) error
}

// kinds are the values of the parameter type (analytics contract, section 4).
var kinds = map[string]kind{
	"pageviews": newKind("pageviews", (*exports.Store).ExportPageviews, (*exports.Pageview).Fields),
	"events":    newKind("events", (*exports.Store).ExportEvents, (*exports.Event).Fields),
}

func newKind[Row any](
	name string,
	export func(s *exports.Store, ctx context.Context, r exports.Range, each func(*Row) error) error,
	fields func(*Row) []exports.Field,
) kind {
	return kind{
		name:  name,
		blank: fields(new(Row)),
		each: func(ctx context.Context, s *exports.Store, r exports.Range, row func([]exports.Field) error) error {
			return export(s, ctx, r, func(stored *Row) error { return row(fields(stored)) })
		},
	}
}

// request is one export call, checked.
type request struct {
	site string
	kind kind
	rows exports.Range
	csv  bool
}

func parse(q url.Values) (*request, error) {
	bad := func(name string) (*request, error) {
		return nil, &model.Error{Kind: model.Invalid, Code: "bad_parameter", Field: name}
	}

	r := &request{site: q.Get("site_id")}
	if r.site == "" {
		return bad("site_id")
	}

	from, err := model.ParseDay(q.Get("from"))
	if err != nil {
		return bad("from")
	}

	to, err := model.ParseDay(q.Get("to"))
	if err != nil || to < from {
		return bad("to")
	}

	r.rows.From, r.rows.To = from.Start(), (to + 1).Start()
	var ok bool
	if r.kind, ok = kinds[q.Get("type")]; !ok {
		return bad("type")
	}

	switch q.Get("format") {
	case "", "json":
	case "csv":
		r.csv = true
	default:
		return bad("format")
	}

	if r.rows.Limit, ok = number(q, "limit", defaultLimit, 1, maxLimit); !ok {
		return bad("limit")
	}
	if r.rows.Offset, ok = number(q, "offset", 0, 0, maxOffset); !ok {
		return bad("offset")
	}

	if c := q.Get("cursor"); c != "" {
		if r.rows.After, ok = exports.ParseRowID(c); !ok {
			return bad("cursor")
		}
	}

	return r, nil
}

func number(q url.Values, name string, missing, lowest, highest int) (int, bool) {
	s := q.Get(name)
	if s == "" {
		return missing, true
	}
	n, err := strconv.Atoi(s)
	return n, err == nil && n >= lowest && n <= highest
}

// stallTimeout is how long the reader may take no data before the download is given up.
const stallTimeout = 30 * time.Second

// flushEvery is the number of rows after which what was written is sent and the stall timeout
// starts again.
const flushEvery = 500

func (o *downloads) stream(w http.ResponseWriter, r *http.Request, site *model.Site, request *request) error {
	control := http.NewResponseController(w)
	var out rowWriter = newJSONRows(w)
	contentType, extension := "application/json", "json"

	if request.csv {
		out, contentType, extension = newCSVRows(w, request.kind.blank), "text/csv; charset=utf-8", "csv"
	}

	header := w.Header()
	header.Set("Content-Type", contentType)
	header.Set("Content-Disposition", `attachment; filename="`+site.Domain+"-"+request.kind.name+"."+extension+`"`)
	header.Set("Cache-Control", "no-store")
	header.Set("X-Content-Type-Options", "nosniff")

	if r.Method == http.MethodHead {
		return nil
	}

	rows := 0
	err := request.kind.each(r.Context(), exports.New(o.DB), request.rows, func(row []exports.Field) error {
		if rows++; rows%flushEvery == 1 {
			_ = control.SetWriteDeadline(time.Now().Add(stallTimeout))
		}
		if err := out.row(row); err != nil {
			return err
		}
		if rows%flushEvery == 0 {
			return out.flush()
		}

		return nil
	})
	if err == nil {
		return out.end()
	}

	if out.begun() {
		o.log(r.Context(), "export broken off", "rows", rows, "error", err)

		// the status is sent: only a broken connection says that the file is not whole
		panic(http.ErrAbortHandler)
	}

	return err
}

// unavailableRetry is when it makes sense to ask again after a failure of ours, such as a database
// that is away.
const unavailableRetry = 5 * time.Second

// log logs a failure, at most one a second: an outage must not fill the disk. A caller who has left
// is not logged.
func (o *downloads) log(ctx context.Context, line string, attrs ...any) {
	if ctx.Err() != nil {
		return
	}

	o.mu.Lock()
	now := time.Now()
	skipped := o.skipped

	quiet := now.Sub(o.logged) < time.Second
	if quiet {
		o.skipped++
	} else {
		o.logged, o.skipped = now, 0
	}

	o.mu.Unlock()

	if !quiet {
		o.Log.ErrorContext(ctx, line, append(attrs, "more_since_last", skipped)...)
	}
}

var statusOf = map[model.Kind]int{
	model.Invalid:          http.StatusBadRequest,
	model.Unauthenticated:  http.StatusUnauthorized,
	model.Forbidden:        http.StatusForbidden,
	model.NotFound:         http.StatusNotFound,
	model.MethodNotAllowed: http.StatusMethodNotAllowed,
	model.RateLimited:      http.StatusTooManyRequests,
}

func (o *downloads) fail(w http.ResponseWriter, r *http.Request, err error) {
	body := struct {
		Error     string `json:"error"`
		Parameter string `json:"parameter,omitempty"`
	}{Error: "unavailable"}

	status := http.StatusServiceUnavailable

	if shown, ok := errors.AsType[*model.Error](err); ok && statusOf[shown.Kind] != 0 {
		status, body.Error, body.Parameter = statusOf[shown.Kind], shown.Code, shown.Field

		if shown.RetryAfter > 0 {
			w.Header().Set("Retry-After", strconv.Itoa(int(math.Ceil(shown.RetryAfter.Seconds()))))
		}
	} else {
		w.Header().Set("Retry-After", strconv.Itoa(int(unavailableRetry.Seconds())))
		o.log(r.Context(), "export failed", "error", err)
	}

	header := w.Header()
	header.Del("Content-Disposition")
	header.Set("Content-Type", "application/json")
	header.Set("X-Content-Type-Options", "nosniff")

	if status == http.StatusMethodNotAllowed {
		header.Set("Allow", "GET, HEAD")
	}

	w.WriteHeader(status)

	// the client may have left; nothing to do then
	_ = json.NewEncoder(w).Encode(body)
}
