// Package export serves downloads of a site's rows to its owner (analytics contract, section 4,
// GET /products/analytics/api/export.php). The program mounts its handler. It streams rows from the
// database and never stores a file.
package export

import (
	"context"
	"errors"
	"log/slog"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/accounts"
	"github.com/tallygate/tallygate/db/exports"
	"github.com/tallygate/tallygate/db/keys"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/nodeid"
	"github.com/tallygate/tallygate/db/sites"
	"github.com/tallygate/tallygate/db/turns"
	"github.com/tallygate/tallygate/web"
)

// Path is where the handler is mounted.
const Path = "/products/analytics/api/export.php"

// Limits of one request, in rows (analytics contract, section 8).
const (
	defaultLimit = 10_000
	maxLimit     = 50_000
	maxOffset    = 1 << 40 // beyond any table; keeps the number within every database's range
)

// The years of a range's days. RFC 3339 has four digits for the year, and a range ends at the start
// of the next day.
const (
	firstYear = 1970
	lastYear  = 9998
)

// The bounds of downloads in this process. A waiting download costs its connection and some
// kilobytes: it has read only its site and holds no database connection.
const (
	runningPerAccount = 2
	waitingPerAccount = 20
	waitingInAll      = 400
	queueTimeout      = 30 * time.Second // maximum wait for a turn
	retryAfter        = 5 * time.Second  // after a wait without a turn, or if the queue is full
)

// Options configures the handler. All fields are required.
type Options struct {
	DB  *db.DB
	Log *slog.Logger

	// User returns the caller if it may download; else nil, or a model.Error of kind
	// Unauthenticated or Forbidden.
	User func(*http.Request) (*model.User, error)
}

// downloads serves downloads.
type downloads struct {
	Options
	keys *keys.Store // remembers the key of ids

	queue    turns.Queue // of downloads, by account
	failures *web.FailureLog
}

// Handler returns the download handler. Errors are JSON objects with an error code: not_signed_in
// (401, also for an unknown API token), forbidden (403, for an API token without the scope EXPORT),
// unknown_site (404, also for a site of another account), bad_parameter (400, with the parameter's
// name), method_not_allowed (405), too_many_downloads (429, with Retry-After), unavailable (503,
// with Retry-After).
//
// An account can run two downloads at once. Up to 20 more wait for a turn, in order of arrival, for
// up to 30 seconds. Downloads beyond that, and those whose wait ends, get too_many_downloads.
func Handler(options Options) http.Handler { return newDownloads(options) }

func newDownloads(options Options) *downloads {
	return &downloads{
		Options: options, keys: keys.New(options.DB), failures: web.NewFailureLog(options.Log),
		queue: turns.Queue{
			Most:       math.MaxInt, // a slow client of one account must not delay another account
			MostPerKey: runningPerAccount, Line: waitingInAll, LinePerKey: waitingPerAccount, Patience: queueTimeout,
		},
	}
}

// ServeHTTP implements http.Handler.
func (o *downloads) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	// A download that the client cancels ends here without a response: the request's context has
	// cancelled the wait and the query.
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

	parameters, err := decode(r.URL.RawQuery)
	if err != nil {
		return err
	}

	request, err := parse(parameters)
	if err != nil {
		return err
	}

	site, err := o.site(r.Context(), user, request.site)
	if err != nil {
		return err
	}

	request.rows.SiteID = site.ID

	end, err := o.takeTurn(w, r, site.AccountID)
	if err != nil {
		return err
	}
	defer end()

	return o.stream(w, r, site, request)
}

// takeTurn waits until the account may run one more download, and returns the function that ends
// the turn. It extends the server's write deadline by the wait: the response, also a refusal, then
// has stallTimeout.
func (o *downloads) takeTurn(w http.ResponseWriter, r *http.Request, accountID model.AccountID) (end func(), err error) {
	control := http.NewResponseController(w)
	_ = control.SetWriteDeadline(time.Now().Add(o.queue.Patience + stallTimeout))
	end, err = o.queue.Take(r.Context(), strconv.FormatInt(int64(accountID), 10))
	_ = control.SetWriteDeadline(time.Now().Add(stallTimeout))

	if errors.Is(err, turns.ErrBusy) {
		return nil, &model.Error{Kind: model.RateLimited, Code: "too_many_downloads", RetryAfter: retryAfter}
	}

	return end, err
}

var errUnknownSite = &model.Error{Kind: model.NotFound, Code: "unknown_site"}

// site returns a site of one of the user's accounts. Every role may download.
func (o *downloads) site(ctx context.Context, user *model.User, id string) (*model.Site, error) {
	ids, err := o.keys.NodeIDs(ctx)
	if err != nil {
		return nil, err
	}

	siteID, ok := nodeid.Parse[model.SiteID](ids, id)
	if !ok {
		return nil, errUnknownSite
	}

	member, err := accounts.New(o.DB).MemberFor(ctx, user, nodeid.Site, int64(siteID))
	if errors.Is(err, model.ErrNotFound) {
		return nil, errUnknownSite
	}
	if err != nil {
		return nil, err
	}

	site, err := sites.New(o.DB).Sites.SiteByID(ctx, member.AccountID, siteID)
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

// request is a validated export call.
type request struct {
	site string
	kind kind
	rows exports.Range
	csv  bool
}

// parameterNames are the parameters of a download.
var parameterNames = []string{"site_id", "type", "from", "to", "format", "limit", "cursor", "offset"}

// decode returns the parameters of a query. Unlike url.URL.Query it skips none that it cannot
// decode: a client that pages with a skipped offset would read the first page for ever. The error
// names the parameter, or "query" if the name is unknown.
func decode(query string) (url.Values, error) {
	q, err := url.ParseQuery(query)
	if err == nil {
		return q, nil
	}

	for pair := range strings.SplitSeq(query, "&") {
		if _, err := url.ParseQuery(pair); err == nil {
			continue
		}
		if name, _, _ := strings.Cut(pair, "="); slices.Contains(parameterNames, name) {
			return nil, badParameter(name)
		}
	}

	return nil, badParameter("query")
}

func badParameter(name string) error {
	return &model.Error{Kind: model.Invalid, Code: "bad_parameter", Field: name}
}

func parse(q url.Values) (*request, error) {
	bad := func(name string) (*request, error) { return nil, badParameter(name) }

	r := &request{site: q.Get("site_id")}
	if r.site == "" {
		return bad("site_id")
	}

	from, ok := day(q, "from")
	if !ok {
		return bad("from")
	}

	to, ok := day(q, "to")
	if !ok || to < from {
		return bad("to")
	}

	r.rows.From, r.rows.To = from.Start(), (to + 1).Start()
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

// day returns a parameter's day. ok is false if it is missing, unreadable or outside the years of a
// range.
func day(q url.Values, name string) (d model.Day, ok bool) {
	d, err := model.ParseDay(q.Get(name))
	year := d.Start().Time().Year()
	return d, err == nil && year >= firstYear && year <= lastYear
}

func number(q url.Values, name string, missing, lowest, highest int) (int, bool) {
	s := q.Get(name)
	if s == "" {
		return missing, true
	}
	n, err := strconv.Atoi(s)
	return n, err == nil && n >= lowest && n <= highest
}

// stallTimeout is how long a client may accept no data before the download is aborted.
const stallTimeout = 30 * time.Second

// flushEvery is the number of rows after which the buffer is sent and the stall timeout restarts.
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
		o.log(r.Context(), "export aborted", err, "rows", rows)

		// The status was already sent: only an aborted connection shows that the file is
		// incomplete.
		panic(http.ErrAbortHandler)
	}

	return err
}

// unavailableRetry is when it makes sense to ask again after a failure of ours, such as a database
// that is away.
const unavailableRetry = 5 * time.Second

// log logs a failure, unless the client has left.
func (o *downloads) log(ctx context.Context, message string, err error, attrs ...any) {
	if ctx.Err() == nil {
		o.failures.Error(ctx, message, err, attrs...)
	}
}

// fail answers a request with an error instead of rows.
func (o *downloads) fail(w http.ResponseWriter, r *http.Request, err error) {
	shown := web.Shown(err)
	if shown.Kind == model.Unavailable {
		o.log(r.Context(), "export failed", err)
		shown = &model.Error{Kind: model.Unavailable, Code: "unavailable", RetryAfter: unavailableRetry}
	}

	w.Header().Del("Content-Disposition")
	web.WriteError(w, shown, "GET, HEAD", struct {
		Error     string `json:"error"`
		Parameter string `json:"parameter,omitempty"`
	}{shown.Code, shown.Field})
}
