// Package importjob runs the imports that owners start in the console: it reads an uploaded export,
// or the API of another service, for a preview, and stores it once it is confirmed. Package jobs
// looks for due jobs.
//
// A job is a row that the worker leases. A worker that dies loses the lease, and another one runs
// the step from its beginning: an upload stays in the database until the job ends, and nothing of
// an import is visible before the transaction that completes its job.
package importjob

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"net/http"
	"runtime/debug"
	"slices"
	"sync/atomic"
	"time"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/audit"
	"github.com/tallygate/tallygate/db/imports"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/reports"
)

const (
	// apiMemory bounds what an export of an API takes in memory while it is read, as fileMemory
	// does for an upload. A process reads one upload and, since APIs are slow, apiJobs of APIs at
	// once.
	apiMemory = 96 << 20
	apiJobs   = 3

	leaseFor    = 45 * time.Second // after which another worker runs the job of a dead one
	renewEvery  = 2 * time.Second  // also how soon a canceled job ends
	stepTimeout = time.Hour
	retryAfter  = 20 * time.Second // after a failure that may pass, such as of the database
	endTimeout  = 10 * time.Second // to record how a run has ended
)

// fileMemory returns how many bytes an upload may take in memory while it is read: a quarter of
// GOMEMLIMIT, from 128 to 512 MB.
func fileMemory() int64 {
	return min(max(debug.SetMemoryLimit(-1)/4, 128<<20), 512<<20)
}

// Bounds say which days are read, and how much memory that may take.
type Bounds struct {
	Domains                []string // of the site
	Since, Until           model.Day
	BeforeLocal, BeforeUTC model.Day // the first days that the site counts itself
	Memory                 int64
	Progress               func(done float64)    // from 0 to 1
	Count                  func(bytes int) error // is called with what was read, and fails when it is too much
}

// Reading is what was read of an export.
type Reading struct {
	Import  *reports.Import
	Preview model.ImportPreview
}

// Reader reads exports. A mistake in an export is an *model.ImportFailure. The program implements
// it, because imported values have the form that the data plane gives to hits.
type Reader interface {
	ReadFiles(ctx context.Context, source model.ImportSource, files []*imports.File, b Bounds) (*Reading, error)
	ReadAPI(ctx context.Context, client *http.Client, address, token string, zone *time.Location, b Bounds) (*Reading, error)
}

// Clock is the database's clock.
type Clock interface {
	Now(context.Context) (model.Instant, error)
}

// Options configure a Runner. All fields are required.
type Options struct {
	DB     *db.DB
	Clock  Clock
	Log    *slog.Logger
	Reader Reader
	Client *http.Client // calls APIs
	// Blocked is the error of Client for an address that must not be called.
	Blocked error
}

// Runner runs jobs. It is safe for concurrent use.
type Runner struct {
	Options
	store   *imports.Store
	reports *reports.Store
}

// New returns a runner that does nothing before Next.
func New(o Options) *Runner {
	return &Runner{Options: o, store: imports.New(o.DB), reports: reports.New(o.DB)}
}

// AtOnce is how many jobs a process runs at once, by whether they read an API.
var AtOnce = map[bool]int{true: apiJobs, false: 1}

// Due returns the kinds of jobs that may be due: with files (false), or that read an API (true).
func (r *Runner) Due(ctx context.Context, now model.Instant) ([]bool, error) {
	return r.store.Due(ctx, now)
}

// Lease returns the next job with files, or that reads an API; nil: none is due.
func (r *Runner) Lease(ctx context.Context, api bool) (*imports.Leased, error) {
	now, err := r.Clock.Now(ctx)
	if err != nil {
		return nil, err
	}
	return r.store.Lease(ctx, api, rand.Text(), now, leaseFor)
}

// Run runs a step of a job, keeps its lease, and records how the step has ended.
func (r *Runner) Run(ctx context.Context, job *imports.Leased) error {
	// Of an export hardly anything stays in use. The operating system gets its memory back at once.
	defer debug.FreeOSMemory()

	work, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	done := &progress{thousandths: new(atomic.Int64), part: 1}
	renewed := make(chan struct{})
	go func() {
		defer close(renewed)
		r.renew(work, job, done, cancel)
	}()

	limited, stop := context.WithTimeout(work, stepTimeout)
	err := r.step(limited, job, done)
	timedOut := errors.Is(limited.Err(), context.DeadlineExceeded)
	stop()
	cause := context.Cause(work)
	cancel(nil)
	<-renewed

	switch {
	case err == nil || errors.Is(err, imports.ErrLost) || errors.Is(cause, imports.ErrLost):
		return nil
	case timedOut:
		err = &model.ImportFailure{Code: model.ImportTimeout, Text: "The import took more than an hour. Import parts of it, by days."}
	}
	return r.end(ctx, job, err)
}

// progress takes how much of a part of a step is done.
type progress struct {
	thousandths *atomic.Int64 // of the step that are done
	from, part  float64       // where the part begins in the step, and its size
}

// set sets how much of the part is done, from 0 to 1.
func (p *progress) set(done float64) {
	p.thousandths.Store(int64((p.from + p.part*min(1, done)) * 1000))
}

// halves divides the part into two.
func (p *progress) halves() (first, second *progress) {
	half := p.part / 2
	return &progress{p.thousandths, p.from, half}, &progress{p.thousandths, p.from + half, half}
}

// renew extends the lease until ctx ends. It cancels the work when the job was canceled, or when
// the lease has expired because the database did not answer.
func (r *Runner) renew(ctx context.Context, job *imports.Leased, done *progress, cancel context.CancelCauseFunc) {
	ticker := time.NewTicker(renewEvery)
	defer ticker.Stop()
	for renewed := time.Now(); ; {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}

		now, err := r.Clock.Now(ctx)
		if err == nil {
			err = r.store.Renew(ctx, job, int16(done.thousandths.Load()), now, leaseFor)
		}
		switch {
		case err == nil:
			renewed = time.Now()
		case errors.Is(err, imports.ErrLost) || time.Since(renewed) > leaseFor:
			cancel(imports.ErrLost)
			return
		}
	}
}

// step reads the export of a job for its preview, or reads it again and stores it.
func (r *Runner) step(ctx context.Context, job *imports.Leased, done *progress) error {
	switch {
	case job.Attempts > model.MaxImportAttempts:
		return &model.ImportFailure{Code: model.ImportInterrupted, Text: "The server has stopped several times while it ran the import."}
	case job.State == model.JobStoring:
		return r.keep(ctx, job, done)
	}

	read, err := r.read(ctx, job, done)
	if err != nil {
		return err
	}
	if err := r.reports.CheckImport(ctx, job.SiteID, read.Import); err != nil {
		return err
	}
	if job.IsAPI() {
		if err := r.store.KeepFigures(ctx, job, read.Import); err != nil {
			return err
		}
	}
	now, err := r.Clock.Now(ctx)
	if err != nil {
		return err
	}
	return r.store.Ready(ctx, job, read.Preview, now)
}

// read reads the export of a job.
func (r *Runner) read(ctx context.Context, job *imports.Leased, done *progress) (*Reading, error) {
	zone, err := job.Site.Zone()
	if err != nil {
		return nil, err
	}
	now, err := r.Clock.Now(ctx)
	if err != nil {
		return nil, err
	}
	b := Bounds{
		Domains: append(slices.Clone(job.Site.ExtraDomains), job.Site.Domain), Since: job.FirstDay, Until: job.LastDay,
		Memory: fileMemory(), Progress: done.set,
	}
	if b.BeforeLocal, b.BeforeUTC, err = r.reports.ImportBefore(ctx, job.SiteID, zone, now); err != nil {
		return nil, err
	}
	if b.Count, err = r.counter(ctx, job); err != nil {
		return nil, err
	}
	if job.Preview != nil {
		// A site without own hits has one more day to import at the next one.
		b.BeforeLocal, b.BeforeUTC = min(b.BeforeLocal, job.Preview.Own), min(b.BeforeUTC, job.Preview.OwnUTC)
	}

	read, err := r.readSource(ctx, job, zone, b)
	if err != nil {
		return nil, err
	}
	read.Preview.Own, read.Preview.OwnUTC = b.BeforeLocal, b.BeforeUTC
	read.Import.By = job.Actor.UserID
	return read, nil
}

// counter returns the function that counts what a job reads. An upload is read again to store it,
// which does not count.
func (r *Runner) counter(ctx context.Context, job *imports.Leased) (func(bytes int) error, error) {
	if job.State == model.JobStoring {
		return func(int) error { return nil }, nil
	}

	left, failure, err := r.store.BytesLeft(ctx, job.ImportJob)
	job.Read.Store(0)
	return func(bytes int) error {
		if job.Read.Add(int64(bytes)) > left {
			return failure
		}
		return nil
	}, err
}

func (r *Runner) readSource(ctx context.Context, job *imports.Leased, zone *time.Location, b Bounds) (*Reading, error) {
	if job.IsAPI() {
		if job.Token == "" {
			return nil, &model.ImportFailure{Code: model.ImportToken, Text: "The API's token cannot be decrypted. Start the import again."}
		}
		b.Memory = apiMemory
		read, err := r.Reader.ReadAPI(ctx, r.Client, job.Address, job.Token, zone, b)
		return read, r.failure(err)
	}

	files, failed := r.store.Files(ctx, job.ImportJob, func(at int64) { b.Progress(float64(at) / float64(job.Size)) })
	read, err := r.Reader.ReadFiles(ctx, job.Source, files, b)
	if err := failed(); err != nil {
		return nil, err // and not a damaged file
	}
	return read, err
}

// failure describes an error of a call without what the called address or the network has answered.
func (r *Runner) failure(err error) error {
	var call interface{ Timeout() bool } // a *url.Error
	switch {
	case errors.Is(err, r.Blocked):
		return &model.ImportFailure{Code: model.ImportRefused, Text: "The address cannot be called from here."}
	case errors.As(err, &call) && !errors.Is(err, context.Canceled):
		return &model.ImportFailure{Code: model.ImportUnreachable, Text: "The address could not be reached."}
	}
	return err
}

// keep stores the import of a confirmed job.
func (r *Runner) keep(ctx context.Context, job *imports.Leased, done *progress) error {
	read, stored := done.halves()
	m, err := r.figures(ctx, job, read)
	if err != nil {
		return err
	}
	now, err := r.Clock.Now(ctx)
	if err != nil {
		return err
	}

	actor := job.Actor
	actor.At = now
	_, err = r.reports.Import(audit.WithActor(ctx, actor), job.SiteID, m, now, r.store.Completing(job, now), stored.set)
	return err
}

// figures returns what a confirmed job imports.
func (r *Runner) figures(ctx context.Context, job *imports.Leased, done *progress) (*reports.Import, error) {
	if job.IsAPI() {
		return r.store.Figures(ctx, job)
	}
	read, err := r.read(ctx, job, done)
	if err != nil {
		return nil, err
	}
	return read.Import, nil
}

// end records why a step has not succeeded.
func (r *Runner) end(ctx context.Context, job *imports.Leased, why error) error {
	stopping := ctx.Err() != nil
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), endTimeout)
	defer cancel()
	now, err := r.Clock.Now(ctx)
	if err != nil {
		return err
	}
	if stopping {
		return ignoreLost(r.store.Release(ctx, job, now))
	}

	failure, isFailure := errors.AsType[*model.ImportFailure](why)
	shown, isShown := errors.AsType[*model.Error](why)
	switch {
	case isFailure:
	case isShown && shown.Kind == model.Conflict:
		failure = &model.ImportFailure{Code: shown.Code, Text: shown.Message}
	case job.Attempts < model.MaxImportAttempts:
		r.Log.ErrorContext(ctx, "import failed and is repeated", "job", job.ID, "site", job.SiteID, "error", why)
		return ignoreLost(r.store.Later(ctx, job, now, retryAfter))
	default:
		r.Log.ErrorContext(ctx, "import failed", "job", job.ID, "site", job.SiteID, "error", why)
		failure = &model.ImportFailure{Code: model.ImportInternal, Text: "The server could not import the export."}
	}
	return ignoreLost(r.store.Fail(ctx, job, failure, now))
}

func ignoreLost(err error) error {
	if errors.Is(err, imports.ErrLost) {
		return nil
	}
	return err
}
