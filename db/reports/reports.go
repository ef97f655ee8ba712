// Package reports stores column segments of finished days and counts reports from them. It is the
// only package that knows both the rows of hits and segments.
//
// The worker calls Plan, which enters finished days into a ledger, and BuildDue, which builds their
// segments and merges the days of a finished month. The control plane calls Report and Live. Days
// without a segment, such as today, are built from their rows when a report asks for them and are
// kept in memory for seconds. docs/owner/reports.md has the definitions of all figures.
package reports

import (
	"context"
	"runtime"
	"sync"
	"time"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/turns"
)

const (
	// buildDelay is how long after its end a day is first built. A hit waits a few seconds for its
	// commit, and clocks differ by at most a minute.
	buildDelay = 10 * time.Minute

	// rebuildEvery is the interval at which a day is built again while engagement for its page
	// views is accepted.
	rebuildEvery = time.Hour

	// finalAfter is how long after its end a day is built for the last time.
	finalAfter = 48*time.Hour + buildDelay

	// leaseFor is how long a worker has for the days that it leases at once. A slower worker loses
	// its result, not its correctness.
	leaseFor = 10 * time.Minute

	// postpone is how long a month waits for those of its days that are not final.
	postpone = 10 * time.Minute
)

// MaxPageviews is how many page views a report may read, both periods together.
const MaxPageviews = 50_000_000

// maxScanBytes bounds the memory of one report, both periods together: texts, rows of breakdowns
// and user ids. A breakdown with all figures needs some 250 bytes for a value.
const maxScanBytes = 128 << 20

// maxSegmentBytes bounds the stored form of one segment that a report reads.
const maxSegmentBytes = 512 << 20

// The turns of scans. A scan that has used a turn for longer than scanQuantum gives way to other
// callers between two segments, or while it reads the rows of a day. At most maxSuspended scans
// wait so, because each holds a long read of the database, and they hold at most maxSuspendedBytes.
const (
	scanLine          = 1_000
	scanLinePerKey    = 100
	scanPatience      = time.Minute // a request's deadline is shorter
	scanMemory        = time.Minute
	scanQuantum       = 50 * time.Millisecond
	maxSuspended      = 2
	maxSuspendedBytes = 64 << 20
)

// maxLiveDays is how many days without a segment a report may read from their rows. More are
// missing only while the worker catches up.
const maxLiveDays = 4

// ErrTooExpensive is returned for a report of more than MaxPageviews page views.
var ErrTooExpensive = &model.Error{
	Kind: model.Invalid, Code: "too_expensive", Field: "period",
	Message: "The report would read more than 50 million page views. Choose a shorter period.",
}

// ErrTooLarge is returned for a report that needs more memory than maxScanBytes, or for a day
// without a segment whose rows need more than maxLiveBuild.
var ErrTooLarge = &model.Error{
	Kind: model.Invalid, Code: "too_expensive", Field: "period",
	Message: "The report has too many different values. Choose a shorter period or fewer breakdowns.",
}

// ErrBusy is returned if too many reports of one caller wait for their turn.
var ErrBusy = &model.Error{
	Kind: model.RateLimited, Code: "rate_limited", RetryAfter: time.Second,
	Message: "Too many reports are in progress. Try again.",
}

// ErrNotBuilt is returned while too many days of the period have no segment yet, for instance after
// an update from a release without reports.
var ErrNotBuilt = &model.Error{
	Kind: model.Unavailable, Code: "unavailable", RetryAfter: time.Minute,
	Message: "The reports of this period are being prepared. Try again in a few minutes.",
}

// Store builds and reads reports. It is safe for concurrent use.
type Store struct {
	db    *db.DB
	turns *turns.Queue // of scans, by Request.Asker
	lives *cache[model.SiteID, *Live]

	suspended *suspension

	buffers *sync.Pool // of *buffers, where scans read segments
	live    *cache[liveKey, *liveDay]
	answers *cache[question, *Answer]

	deflateBelow int           // maxDeflated, except in tests
	quantum      time.Duration // scanQuantum, except in tests
	scanBytes    int64         // maxScanBytes, except in tests

	observe func(what string) // called before a query of a day's rows and before a count; for tests
}

// New returns the reports of a database. A process should use one Store, because its cache and its
// limit of concurrent scans belong to it.
func New(d *db.DB) *Store {
	return &Store{
		db:    d,
		turns: newTurns(),
		lives: newCache[model.SiteID, *Live](maxNowBytes),

		suspended: new(suspension),
		buffers:   &sync.Pool{New: func() any { return &buffers{most: maxSegmentBytes} }},

		live:    newCache[liveKey, *liveDay](maxLiveBytes),
		answers: newCache[question, *Answer](maxAnswerBytes),

		deflateBelow: maxDeflated,
		quantum:      scanQuantum,
		scanBytes:    maxScanBytes,

		observe: func(string) {},
	}
}

// suspension counts the scans that have given way. It is safe for concurrent use.
type suspension struct {
	mu    sync.Mutex
	scans int
	bytes int64
}

// enter counts a scan that holds so many bytes, if it may give way.
func (s *suspension) enter(bytes int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.scans >= maxSuspended || s.bytes+bytes > maxSuspendedBytes {
		return false
	}
	s.scans++
	s.bytes += bytes
	return true
}

func (s *suspension) leave(bytes int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.scans--
	s.bytes -= bytes
}

// newTurns returns the queue of scans. Half as many run at once as there are processors. A caller
// may take all but one of them, and gives way between segments: see turns.Turn.Yield.
func newTurns() *turns.Queue {
	most := max(1, runtime.GOMAXPROCS(0)/2)
	return &turns.Queue{
		Most: most, MostPerKey: max(1, most-1), Line: scanLine, LinePerKey: scanLinePerKey,
		Patience: scanPatience, Memory: scanMemory,
	}
}

// cellStore builds and counts the reports of one cell, with the caches and limits of the store.
type cellStore struct {
	*Store
	cell *db.Cell
}

// in returns the reports of a cell.
func (s *Store) in(cell *db.Cell) *cellStore { return &cellStore{s, cell} }

// ofSite returns the reports of a site's cell.
func (s *Store) ofSite(ctx context.Context, siteID model.SiteID) (*cellStore, error) {
	cell, err := s.db.OfSite(ctx, siteID)
	if err != nil {
		return nil, err
	}
	return s.in(cell), nil
}
