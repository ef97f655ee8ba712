package importer_test

import (
	"bytes"
	"context"
	"crypto/x509"
	"errors"
	"log/slog"
	"math"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/tallygate/tallygate/cmd/tallygate/importer"
	"github.com/tallygate/tallygate/db/audit"
	"github.com/tallygate/tallygate/db/imports"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/reports"
	"github.com/tallygate/tallygate/db/reports/scan"
	"github.com/tallygate/tallygate/jobs/importjob"
	"github.com/tallygate/tallygate/jobs/webhook"
	"github.com/tallygate/tallygate/tools/dbtest"
	"github.com/tallygate/tallygate/tools/testkit"
	"github.com/tallygate/tallygate/tools/world"
)

// jobFixture runs jobs of the site of a fixture.
type jobFixture struct {
	*fixture
	store  *imports.Store
	runner *importjob.Runner
}

// Now implements importjob.Clock.
func (f *fixture) Now(context.Context) (model.Instant, error) { return f.now, nil }

// newJobFixture returns a fixture with a reader of exports; nil: the program's.
func newJobFixture(t *testing.T, databaseURL string, reader importjob.Reader, roots *x509.CertPool) *jobFixture {
	t.Helper()
	if reader == nil {
		reader = importer.Jobs{}
	}
	f := &jobFixture{fixture: newFixture(t, databaseURL)}
	f.d.UseApplicationKey(bytes.Repeat([]byte("k"), 32))
	f.store = imports.New(f.d)
	f.runner = f.newRunner(reader, roots)
	return f
}

func (f *jobFixture) newRunner(reader importjob.Reader, roots *x509.CertPool, allowed ...netip.Prefix) *importjob.Runner {
	return importjob.New(importjob.Options{
		DB: f.d, Clock: f, Log: slog.New(slog.DiscardHandler), Reader: reader,
		Client: webhook.NewClient(allowed, roots, 10*time.Second), Blocked: webhook.ErrBlocked,
	})
}

// by is the context of the owner's changes.
func (f *jobFixture) by() context.Context {
	return audit.WithActor(f.t.Context(), audit.Actor{Kind: audit.User, UserID: 7, Email: "owner@example.com", Action: "startImport", At: f.now})
}

// start starts a job with files, and uploads them.
func (f *jobFixture) start(source model.ImportSource, names ...string) *model.ImportJob {
	f.t.Helper()
	job := model.ImportJob{SiteID: f.site.ID, Source: source, FirstDay: math.MinInt32, LastDay: math.MaxInt32}
	var content []byte
	for _, name := range names {
		data, err := os.ReadFile(name)
		testkit.NoError(f.t, err)
		job.Files = append(job.Files, model.UploadFile{Name: filepath.Base(name), Size: int64(len(data))})
		content = append(content, data...)
	}
	started, err := f.store.Start(f.by(), f.site.AccountID, job, "", f.now)
	testkit.NoError(f.t, err)

	for at := 0; at < len(content); at += model.ImportChunk {
		received, err := f.store.Put(f.t.Context(), f.site.AccountID, started.ID, int64(at), content[at:min(len(content), at+model.ImportChunk)], f.now)
		if err != nil || received != int64(min(len(content), at+model.ImportChunk)) {
			f.t.Fatalf("%d bytes received, error %v", received, err)
		}
	}
	return started
}

// run runs the next job, and returns the job after that.
func (f *jobFixture) run(api bool, id model.ImportJobID) *model.ImportJob {
	f.t.Helper()
	testkit.NoError(f.t, runNext(f.t.Context(), f.runner, api))
	return f.job(id)
}

func runNext(ctx context.Context, runner *importjob.Runner, api bool) error {
	job, err := runner.Lease(ctx, api)
	if job == nil {
		return errors.Join(err, errors.New("no job is due"))
	}
	return runner.Run(ctx, job)
}

func (f *jobFixture) job(id model.ImportJobID) *model.ImportJob {
	f.t.Helper()
	job, err := f.store.Job(f.t.Context(), f.site.AccountID, id)
	testkit.NoError(f.t, err)
	return job
}

func (f *jobFixture) confirm(id model.ImportJobID) {
	f.t.Helper()
	if _, err := f.store.Confirm(f.by(), f.site.AccountID, id, f.now); err != nil {
		f.t.Fatal(err)
	}
}

// wantNoUpload checks that a finished job leaves no piece of its upload and no token.
func (f *jobFixture) wantNoUpload() {
	f.t.Helper()
	if _, err := f.store.Tend(f.t.Context(), f.now); err != nil {
		f.t.Fatal(err)
	}
	if n, err := dbtest.Count(f.d, "import_chunks"); n != 0 || err != nil {
		f.t.Errorf("%d pieces are left, error %v", n, err)
	}
	if tokens, err := dbtest.Rows[int64](f.d, "SELECT id FROM import_jobs WHERE token IS NOT NULL"); len(tokens) != 0 || err != nil {
		f.t.Errorf("jobs %v keep tokens, error %v", tokens, err)
	}
}

// TestJobs imports each form through a job, and undoes it.
func TestJobs(t *testing.T) {
	for name, test := range map[string]struct {
		source model.ImportSource
		files  []string
		check  func(f *fixture)
	}{
		"plausible archive": {model.ImportPlausible, []string{zipped(t, fixtures(t, "plausible/*")...)}, wantPlausible},
		"umami":             {model.ImportUmami, fixtures(t, "umami.csv"), wantUmami},
		"ga4":               {model.ImportGA4, fixtures(t, "ga4/*"), wantGA4},
		"matomo":            {model.ImportMatomo, fixtures(t, "matomo/*"), wantMatomo},
	} {
		t.Run(name, func(t *testing.T) {
			dbtest.EachURL(t, func(t *testing.T, databaseURL string) {
				f := newJobFixture(t, databaseURL, nil, nil)
				before := f.report(query(scan.Page))
				job := f.start(test.source, test.files...)
				read := f.run(false, job.ID)
				if read.State != model.JobReady || read.Preview == nil || read.Preview.Days == 0 || len(read.Preview.Files) < len(test.files) {
					t.Fatalf("the job is %+v", read)
				}
				f.equal(before)

				f.confirm(job.ID)
				if done := f.run(false, job.ID); done.State != model.JobComplete || done.ImportID == 0 || done.FinishedAt == 0 {
					t.Fatalf("the job is %+v", done)
				}
				test.check(f.fixture)
				f.wantNoUpload()

				one, err := f.store.Undo(f.by(), f.site.AccountID, f.job(job.ID).ImportID)
				if err != nil || one.Source != test.source || one.Pageviews != read.Preview.Pageviews || one.CreatedBy != 7 {
					t.Errorf("undone %+v, error %v", one, err)
				}
				f.equal(before)
				testkit.NoError(t, reports.New(f.d).PurgeUndone(t.Context()))
				f.wantEmpty()
			})
		})
	}
}

// TestJobFailures checks why jobs fail: each has a code, the file and the line.
func TestJobFailures(t *testing.T) {
	const visitors = "date,visitors,pageviews,bounces,visits\n"
	for name, test := range map[string]struct {
		source        model.ImportSource
		file, content string
		code, in      string
		line          int
	}{
		"damaged": {
			source: model.ImportPlausible, file: "imported_visitors.csv", content: visitors + "2026-02-01,x,2,0,1\n",
			code: model.ImportDamaged, in: "imported_visitors.csv", line: 2,
		},
		"archive": {model.ImportPlausible, "export.zip", "PK\x03\x04 cut off", model.ImportDamaged, "export.zip", 0},
		"product": {model.ImportUmami, "imported_visitors.csv", visitors + "2026-02-01,1,2,0,1\n", model.ImportDamaged, "imported_visitors.csv", 1},
		"nothing": {model.ImportPlausible, "imported_visitors.csv", visitors, model.ImportNothing, "", 0},
		"own":     {model.ImportPlausible, "imported_visitors.csv", visitors + "2026-02-05,1,2,0,1\n", model.ImportNothing, "", 0},
	} {
		t.Run(name, func(t *testing.T) {
			dbtest.EachURL(t, func(t *testing.T, databaseURL string) {
				f := newJobFixture(t, databaseURL, nil, nil)
				job := f.start(test.source, file(t, test.file, test.content))
				failed := f.run(false, job.ID)
				if failed.State != model.JobFailed || failed.ErrorCode != test.code || failed.ErrorFile != test.in ||
					failed.ErrorLine != test.line || failed.ErrorText == "" {
					t.Errorf("the job is %+v", failed)
				}
				f.wantNoUpload()

				// Another job of the site can start.
				f.start(model.ImportPlausible, fixtures(t, "plausible/*")...)
			})
		})
	}
}

// dying is a reader that ends its worker, as a signal would: the run's context ends with it, and
// nothing is recorded.
type dying struct {
	importjob.Reader
	after func()
}

func (r *dying) ReadFiles(
	ctx context.Context, source model.ImportSource, files []*imports.File, b importjob.Bounds,
) (*importjob.Reading, error) {
	r.after()
	return r.Reader.ReadFiles(ctx, source, files, b)
}

// TestJobLostLease checks that a worker changes nothing after its lease has expired, and that the
// other worker completes the job once.
func TestJobLostLease(t *testing.T) {
	dbtest.EachURL(t, func(t *testing.T, databaseURL string) {
		f := newJobFixture(t, databaseURL, nil, nil)
		job := f.start(model.ImportPlausible, fixtures(t, "plausible/*")...)

		// The first worker is paused while another one reads, and while another one stores.
		other := f.runner
		slow := &dying{Reader: importer.Jobs{}}
		f.runner = f.newRunner(slow, nil)
		slow.after = func() {
			f.now = f.now.Add(time.Minute)
			testkit.Succeeds(t, runNext(t.Context(), other, false), "the other worker")
		}
		if got := f.run(false, job.ID); got.State != model.JobReady || got.Attempts != 2 {
			t.Fatalf("the job is %+v", got)
		}
		f.confirm(job.ID)
		if got := f.run(false, job.ID); got.State != model.JobComplete {
			t.Fatalf("the job is %+v", got)
		}
		wantPlausible(f.fixture)
		if list, err := reports.New(f.d).Imports(t.Context(), f.site.ID); err != nil || len(list) != 1 {
			t.Errorf("imports %+v, error %v", list, err)
		}
	})
}

// TestJobCanceled checks that a job that is canceled while it runs leaves nothing.
func TestJobCanceled(t *testing.T) {
	dbtest.EachURL(t, func(t *testing.T, databaseURL string) {
		reader := &dying{Reader: importer.Jobs{}, after: func() {}}
		f := newJobFixture(t, databaseURL, reader, nil)
		before := f.report(query(scan.Page))
		job := f.start(model.ImportUmami, fixtures(t, "umami.csv")...)
		f.run(false, job.ID)
		f.confirm(job.ID)
		reader.after = func() {
			if _, err := f.store.Cancel(f.by(), f.site.AccountID, job.ID, f.now); err != nil {
				t.Error(err)
			}
		}
		if got := f.run(false, job.ID); got.State != model.JobCanceled {
			t.Errorf("the job is %+v", got)
		}
		f.equal(before)
		f.wantEmpty()
		f.wantNoUpload()
		if _, err := f.store.Cancel(f.by(), f.site.AccountID, job.ID, f.now); model.KindOf(err) != model.Conflict {
			t.Errorf("canceled twice: error %v", err)
		}
	})
}

// TestJobLimits checks how many jobs a site and an account can have, when jobs expire, and who may
// see them.
func TestJobLimits(t *testing.T) {
	dbtest.EachURL(t, func(t *testing.T, databaseURL string) {
		f := newJobFixture(t, databaseURL, nil, nil)
		try := func(siteID model.SiteID, size int64) error {
			_, err := f.store.Start(f.by(), f.site.AccountID, model.ImportJob{
				SiteID: siteID, Source: model.ImportUmami, Files: []model.UploadFile{{Name: "u.csv", Size: size}},
			}, "", f.now)
			return err
		}
		code := func(err error) string {
			if e, ok := errors.AsType[*model.Error](err); ok {
				return e.Code
			}
			return ""
		}

		testkit.Equal(t, code(try(f.site.ID, model.MaxUpload+1)), "upload_too_large", "a large upload")
		testkit.NoError(t, try(f.site.ID, 5))
		testkit.Equal(t, code(try(f.site.ID, 5)), "import_in_progress", "a second job")
		for _, domain := range []string{"b.example", "c.example", "d.example"} {
			site := world.New(t, f.d).Site(domain, world.Of(f.site.AccountID))
			if got, want := code(try(site.ID, 5)), map[string]string{"d.example": "too_many_import_jobs"}[domain]; got != want {
				t.Errorf("%s: %q, want %q", domain, got, want)
			}
		}
		other := world.New(t, f.d).Site("other.example")
		testkit.Equal(t, code(try(other.ID, 5)), "not_found", "another account's site")
		list, err := f.store.JobsOfSites(t.Context(), []model.SiteID{f.site.ID})
		if err != nil || len(list[f.site.ID]) != 1 {
			t.Fatalf("jobs %v, error %v", list, err)
		}
		id := list[f.site.ID][0].ID
		if _, err := f.store.Put(t.Context(), other.AccountID, id, 0, []byte("12345"), f.now); !errors.Is(err, model.ErrNotFound) {
			t.Errorf("another account's upload: error %v", err)
		}
		if _, err := f.store.Put(t.Context(), f.site.AccountID, id, 0, []byte("1234"), f.now); code(err) != "bad_chunk" {
			t.Errorf("a short piece: error %v", err)
		}

		f.now = f.now.Add(model.ImportJobExpiry + time.Second)
		if _, err := f.store.Put(t.Context(), f.site.AccountID, id, 0, []byte("12345"), f.now); code(err) != "import_finished" {
			t.Errorf("an expired upload: error %v", err)
		}
		f.wantNoUpload()
		if got := f.job(id); got.State != model.JobFailed || got.ErrorCode != model.ImportExpired {
			t.Errorf("the expired job is %+v", got)
		}
		f.now = f.now.Add(model.ImportJobHistory + time.Second)
		f.wantNoUpload()
		dbtest.HasRows(t, f.d, "import_jobs", 0, "jobs are left")
	})
}

// TestAPIJob imports the sums of GoatCounter's API through a job. The token is sealed, and deleted
// once the sums are read; an address in a private network is refused unless it is allowed.
func TestAPIJob(t *testing.T) {
	dbtest.EachURL(t, func(t *testing.T, databaseURL string) {
		plain := goatServer(t, nil)
		server := httptest.NewUnstartedServer(plain.Config.Handler)
		server.StartTLS()
		t.Cleanup(server.Close)
		roots := x509.NewCertPool()
		roots.AddCert(server.Certificate())
		start := func(f *jobFixture, address string) *model.ImportJob {
			f.t.Helper()
			job, err := f.store.Start(f.by(), f.site.AccountID, model.ImportJob{
				SiteID: f.site.ID, Source: model.ImportGoatCounterSums, Address: address, FirstDay: everyDay.Since, LastDay: everyDay.Until,
			}, goatToken, f.now)
			testkit.NoError(f.t, err)
			return job
		}

		f := newJobFixture(t, databaseURL, nil, roots)
		refused := f.run(true, start(f, server.URL).ID)
		if refused.State != model.JobFailed || refused.ErrorCode != model.ImportRefused {
			t.Errorf("the job of a private address is %+v", refused)
		}
		f.wantNoUpload()

		f.runner = f.newRunner(importer.Jobs{}, roots, netip.MustParsePrefix("127.0.0.0/8"))
		job := start(f, server.URL)
		if sealed, err := dbtest.Rows[[]byte](f.d, "SELECT token FROM import_jobs WHERE token IS NOT NULL"); err != nil || len(sealed) != 1 ||
			bytes.Contains(sealed[0], []byte(goatToken)) {
			t.Errorf("the stored token is %q, error %v", sealed, err)
		}
		read := f.run(true, job.ID)
		testkit.Require(t, read.State, model.JobReady, "the job is %+v", read)
		if tokens, err := dbtest.Rows[int64](f.d, "SELECT id FROM import_jobs WHERE token IS NOT NULL"); err != nil || len(tokens) != 0 {
			t.Errorf("the token is kept, error %v", err)
		}

		// The API is not called again.
		server.Close()
		f.confirm(job.ID)
		if done := f.run(true, job.ID); done.State != model.JobComplete {
			t.Errorf("the job is %+v", done)
		}
		one, err := f.store.Import(t.Context(), f.site.AccountID, f.job(job.ID).ImportID)
		if err != nil || one.Pageviews != read.Preview.Pageviews || one.Pageviews == 0 {
			t.Errorf("imported %+v, error %v", one, err)
		}
	})
}

// TestMemoryBound checks that an export that takes more memory than permitted is refused with its
// code.
func TestMemoryBound(t *testing.T) {
	for source, names := range map[model.ImportSource][]string{
		model.ImportUmami: fixtures(t, "umami.csv"), model.ImportPlausible: fixtures(t, "plausible/*"),
	} {
		o := everyDay
		o.Memory = 500
		_, err := importer.Read(source, names, o)
		if shown, ok := errors.AsType[*model.ImportFailure](err); !ok || shown.Code != model.ImportTooLarge {
			t.Errorf("%s: error %v", source, err)
		}
	}
}
