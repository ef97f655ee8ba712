// Package imports stores the jobs that import exports of other services, and their uploads. The
// control plane starts, confirms and cancels jobs and takes uploads; the worker leases jobs and
// records how far they are. Package reports stores what is imported.
//
// A worker that dies loses its lease, and another one runs the step again. The transaction that
// makes an import visible completes its job as well, so that each job imports once.
package imports

import (
	"context"
	"encoding/json"
	"fmt"
	"path"
	"strings"
	"time"

	"github.com/uptrace/bun"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/audit"
	"github.com/tallygate/tallygate/db/idempotency"
	"github.com/tallygate/tallygate/db/keys"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/nodeid"
	"github.com/tallygate/tallygate/db/reports"
	"github.com/tallygate/tallygate/db/sites"
)

// Store reads and changes jobs. It is safe for concurrent use.
type Store struct {
	db      *db.DB
	keys    *keys.Store
	reports *reports.Store
}

// New returns the store of a database's jobs.
func New(d *db.DB) *Store { return &Store{db: d, keys: keys.New(d), reports: reports.New(d)} }

// row is a model.ImportJob as it is stored.
type row struct {
	bun.BaseModel `bun:"table:import_jobs,alias:job"`
	model.ImportJob
	Actor       string        `bun:",notnull"`
	FileList    string        `bun:"files,notnull"`
	PreviewText string        `bun:"preview,notnull"`
	ValuesText  string        `bun:"error_values,notnull"`
	Lease       string        `bun:",notnull"`
	LeaseUntil  model.Instant `bun:",notnull"`
	ClaimedAt   model.Instant `bun:",notnull"`
}

func (r *row) model() (*model.ImportJob, error) {
	job := &r.ImportJob
	if err := json.Unmarshal([]byte(r.FileList), &job.Files); err != nil {
		return nil, fmt.Errorf("read the files of import job %d: %w", r.ID, err)
	}
	for _, column := range []struct {
		text string
		to   any
	}{{r.PreviewText, &job.Preview}, {r.ValuesText, &job.ErrorValues}} {
		if column.text == "" {
			continue
		}
		if err := json.Unmarshal([]byte(column.text), column.to); err != nil {
			return nil, fmt.Errorf("read import job %d: %w", r.ID, err)
		}
	}
	return job, nil
}

// Errors of jobs.
var (
	errInProgress = &model.Error{
		Kind: model.Conflict, Code: "import_in_progress", Field: "siteId",
		Message: "The site has an import in progress. Confirm or cancel it first.",
	}
	errTooMany = &model.Error{
		Kind: model.Conflict, Code: "too_many_import_jobs", Field: "siteId",
		Message: fmt.Sprintf("An account can have %d imports in progress, and start %d within a day. Try again later.",
			model.MaxImportJobs, model.MaxImportStarts),
	}
	errFull = &model.Error{
		Kind: model.Conflict, Code: "uploads_full", Field: "files",
		Message: "Too many uploads of all accounts wait. Try again later.",
	}
	errNotReady = &model.Error{
		Kind: model.Conflict, Code: "import_not_ready", Field: "importJobId", Message: "The import does not wait for a confirmation.",
	}
	errFinished = &model.Error{
		Kind: model.Conflict, Code: "import_finished", Field: "importJobId", Message: "The import has ended already.",
	}
)

// Start stores a job for a site of the account, and returns it with its id. token is for the API of
// a job without files; the caller has checked the address.
func (s *Store) Start(
	ctx context.Context, accountID model.AccountID, job model.ImportJob, token string, now model.Instant,
) (*model.ImportJob, error) {
	if err := check(&job, token); err != nil {
		return nil, err
	}
	job.State, job.CreatedAt, job.ExpiresAt = model.JobUploading, now, now.Add(model.ImportJobExpiry)
	if job.IsAPI() {
		job.State = model.JobReading
	}

	err := s.db.InTx(ctx, func(ctx context.Context, tx *db.Tx) error {
		site, err := lockSite(ctx, tx, accountID, job.SiteID)
		if err != nil {
			return err
		}
		if err := mayStart(ctx, tx, accountID, &job); err != nil {
			return err
		}

		r, err := newRow(ctx, &job)
		if err != nil {
			return err
		}
		if r.Token, err = s.keys.Seal(ctx, tx, keys.ImportToken(job.SiteID), token); err != nil {
			return err
		}
		if _, err := tx.NewInsert().Model(r).Exec(ctx); err != nil {
			return err
		}
		job.ID = r.ID
		return record(ctx, tx, site, nil, &job)
	})
	if db.IsUnique(err) {
		return nil, errInProgress
	}
	if err != nil {
		return nil, db.Wrap(err, "start an import of site %d", job.SiteID)
	}
	return &job, nil
}

func newRow(ctx context.Context, job *model.ImportJob) (*row, error) {
	r := &row{ImportJob: *job}
	files, err := json.Marshal(orNone(job.Files))
	if err != nil {
		return nil, err
	}
	actor, err := json.Marshal(audit.ActorOf(ctx))
	r.FileList, r.Actor = string(files), string(actor)
	return r, err
}

func orNone(files []model.UploadFile) []model.UploadFile {
	if files == nil {
		return []model.UploadFile{}
	}
	return files
}

// check checks a new job, and sets its size.
func check(job *model.ImportJob, token string) error {
	if job.FirstDay > job.LastDay {
		return model.InvalidField("lastDay", "invalid_day", "The last day is before the first one.")
	}
	if job.IsAPI() {
		switch {
		case len(job.Files) > 0:
			return model.InvalidField("files", "invalid_files", "An API is read without files.")
		case token == "" || len(token) > 1_000 || !model.IsClean(token):
			return model.InvalidField("token", "invalid_api_token", "Enter the API's token.")
		}
		return nil
	}

	if job.Address != "" || token != "" {
		return model.InvalidField("address", "invalid_files", "This service is imported from files.")
	}
	if len(job.Files) == 0 || len(job.Files) > model.MaxUploadFiles {
		return model.InvalidField("files", "invalid_files", fmt.Sprintf("Choose 1 to %d files.", model.MaxUploadFiles))
	}
	job.Size = 0
	for i := range job.Files {
		f := &job.Files[i]
		f.Name = path.Base(strings.ReplaceAll(f.Name, `\`, "/"))
		if f.Name == "." || f.Name == "/" || len([]rune(f.Name)) > model.MaxUploadName || !model.IsClean(f.Name) {
			return model.InvalidItem("files", i, "invalid_files", "The file has no name that can be used.")
		}
		if f.Size <= 0 {
			return model.InvalidItem("files", i, "invalid_files", "The file is empty.")
		}
		if job.Size += f.Size; f.Size > model.MaxUpload || job.Size > model.MaxUpload {
			return model.InvalidField("files", "upload_too_large", fmt.Sprintf(
				"The files have more than %d MB. Compress them, or import parts of the export.", model.MaxUpload>>20))
		}
	}
	return nil
}

// lockSite locks a site and its account. The lock of the account keeps the number of its jobs.
func lockSite(ctx context.Context, tx *db.Tx, accountID model.AccountID, siteID model.SiteID) (*model.Site, error) {
	if err := tx.LockAccount(ctx, accountID); err != nil {
		return nil, err
	}
	if err := tx.TakeTurn(ctx, "sites"); err != nil {
		return nil, err
	}

	var site model.Site
	q := tx.NewSelect().Model(&site).Column("id", "account_id", "domain").Where("id = ?", siteID).
		Where("account_id = ?", accountID).Where("deleted_at = 0")
	tx.Lock(q, "NO KEY UPDATE")
	return &site, db.OrNotFound(q.Scan(ctx))
}

// mayStart checks the limits of jobs.
func mayStart(ctx context.Context, tx *db.Tx, accountID model.AccountID, job *model.ImportJob) error {
	if open, err := tx.NewSelect().Model((*row)(nil)).Where("site_id = ?", job.SiteID).Where(isOpen).Exists(ctx); err != nil {
		return err
	} else if open {
		return errInProgress
	}

	ofAccount := func() *bun.SelectQuery {
		return tx.NewSelect().Model((*row)(nil)).Where("site_id IN (SELECT id FROM sites WHERE account_id = ?)", accountID)
	}
	open, err := ofAccount().Where(isOpen).Count(ctx)
	if err != nil {
		return err
	}
	started, err := ofAccount().Where("created_at > ?", job.CreatedAt.Add(-24*time.Hour)).Count(ctx)
	if err != nil {
		return err
	}
	if open >= model.MaxImportJobs || started >= model.MaxImportStarts {
		return errTooMany
	}

	var held int64
	err = tx.NewSelect().Model((*row)(nil)).ColumnExpr("coalesce(sum(size), 0)").Where(isOpen).Scan(ctx, &held)
	if err == nil && held+job.Size > model.MaxUploads {
		err = errFull
	}
	if err != nil {
		return err
	}

	left, err := bytesLeft(ctx, tx, job)
	if err == nil && job.Size > left {
		err = tooManyBytes(job, left)
	}
	return err
}

// noActor is the actor of a finished job: the audit log alone says who it was.
const noActor = "{}"

// isOpen selects jobs that have not finished. The index of open jobs has the same condition.
const isOpen = "state < 4"

// record writes a change of a job to the audit log.
func record(ctx context.Context, tx *db.Tx, site *model.Site, before, after *model.ImportJob) error {
	values := func(job *model.ImportJob) audit.Values {
		if job == nil {
			return nil
		}
		return audit.Values{"importedFrom": job.Source, "importState": stateNames[job.State]}
	}
	return audit.Write(ctx, tx, audit.Change{
		AccountID: site.AccountID, IsKnown: true, Object: audit.Object{Kind: nodeid.Site, ID: int64(site.ID), Name: site.Domain},
		Before: values(before), After: values(after),
		Returns: &idempotency.Object{Kind: nodeid.ImportJob, ID: int64(after.ID)},
	})
}

// stateNames are the states in the audit log.
var stateNames = map[model.ImportJobState]string{
	model.JobUploading: "uploading", model.JobReading: "reading", model.JobReady: "ready", model.JobStoring: "storing",
	model.JobComplete: "complete", model.JobFailed: "failed", model.JobCanceled: "canceled",
}

// Confirm lets a job that is ready store its import.
func (s *Store) Confirm(ctx context.Context, accountID model.AccountID, id model.ImportJobID, now model.Instant) (*model.ImportJob, error) {
	return s.change(ctx, accountID, id, func(r *row) error {
		if r.State != model.JobReady {
			return errNotReady
		}
		actor, err := json.Marshal(audit.ActorOf(ctx))
		r.State, r.Actor, r.ExpiresAt, r.Progress, r.Attempts = model.JobStoring, string(actor), now.Add(model.ImportJobExpiry), 0, 0
		return err
	})
}

// Cancel ends a job, also while it runs. Its upload is deleted with the next PurgeChunks.
func (s *Store) Cancel(ctx context.Context, accountID model.AccountID, id model.ImportJobID, now model.Instant) (*model.ImportJob, error) {
	return s.change(ctx, accountID, id, func(r *row) error {
		if r.State >= model.JobComplete {
			return errFinished
		}
		r.State, r.FinishedAt, r.Token, r.Lease, r.LeaseUntil, r.Actor = model.JobCanceled, now, nil, "", 0, noActor
		return nil
	})
}

// change changes a job of a site of the account.
func (s *Store) change(ctx context.Context, accountID model.AccountID, id model.ImportJobID, change func(*row) error) (*model.ImportJob, error) {
	var changed *model.ImportJob
	err := s.db.InTx(ctx, func(ctx context.Context, tx *db.Tx) error {
		var siteID model.SiteID
		err := tx.NewSelect().Model((*row)(nil)).Column("site_id").Where("id = ?", id).Scan(ctx, &siteID)
		if err != nil {
			return db.OrNotFound(err)
		}
		site, err := lockSite(ctx, tx, accountID, siteID)
		if err != nil {
			return err
		}

		r := new(row)
		q := tx.NewSelect().Model(r).Where("id = ?", id)
		tx.Lock(q, "UPDATE")
		if err := q.Scan(ctx); err != nil {
			return db.OrNotFound(err)
		}
		before := r.ImportJob
		if err := change(r); err != nil {
			return err
		}
		if _, err := tx.NewUpdate().Model(r).WherePK().Exec(ctx); err != nil {
			return err
		}
		if changed, err = r.model(); err != nil {
			return err
		}
		return record(ctx, tx, site, &before, changed)
	})
	if err != nil {
		return nil, db.Wrap(err, "change import job %d", id)
	}
	return changed, nil
}

// Undo removes an import of a site of the account from the reports. PurgeImports of package reports
// deletes its rows.
func (s *Store) Undo(ctx context.Context, accountID model.AccountID, id model.ImportID) (*model.ReportImport, error) {
	one, err := s.Import(ctx, accountID, id)
	if err != nil {
		return nil, err
	}
	return one, s.reports.HideImport(ctx, one.SiteID, id, sites.RecordImport)
}

// ofAccount selects rows of sites of an account.
const ofAccount = "site_id IN (SELECT id FROM sites WHERE account_id = ? AND deleted_at = 0)"

// Import returns an import of a site of the account that is part of the reports, or
// model.ErrNotFound.
func (s *Store) Import(ctx context.Context, accountID model.AccountID, id model.ImportID) (*model.ReportImport, error) {
	var siteID model.SiteID
	err := s.db.Read.NewSelect().Table("report_imports").Column("site_id").Where("id = ?", id).
		Where(ofAccount, accountID).Scan(ctx, &siteID)
	if err != nil {
		return nil, db.OrNotFound(err)
	}

	list, err := s.ImportsOfSites(ctx, []model.SiteID{siteID})
	if err != nil {
		return nil, err
	}
	for _, one := range list[siteID] {
		if one.ID == id {
			return one, nil
		}
	}
	return nil, model.ErrNotFound
}

// importColumns are the columns of model.ReportImport.
const importColumns = "i.id, i.site_id, i.source, i.state, i.created_at, i.completed_at, i.created_by, i.first_day, i.last_day, " +
	"i.visit_rows, i.visitors, i.visits, i.pageviews, i.events, i.size"

// ImportsOfSites returns the imports of each site that are part of the reports, oldest first, with
// the members who imported. The caller must have loaded the sites, which checks the right to see
// them.
func (s *Store) ImportsOfSites(ctx context.Context, siteIDs []model.SiteID) (map[model.SiteID][]*model.ReportImport, error) {
	if len(siteIDs) == 0 {
		return nil, nil
	}

	var rows []*struct {
		model.ReportImport
		Email string
	}
	err := s.db.Read.NewSelect().TableExpr("report_imports AS i").ColumnExpr(importColumns).ColumnExpr("coalesce(u.email, '') AS email").
		Join("JOIN sites AS s ON s.id = i.site_id").
		Join("LEFT JOIN memberships AS m ON m.account_id = s.account_id AND m.user_id = i.created_by").
		Join("LEFT JOIN users AS u ON u.id = m.user_id").
		Where("i.site_id IN ?", bun.Tuple(siteIDs)).Where("i.state = ?", model.ImportComplete).OrderExpr("i.id").Scan(ctx, &rows)
	if err != nil {
		return nil, fmt.Errorf("list the imports of %d sites: %w", len(siteIDs), err)
	}

	bySite := make(map[model.SiteID][]*model.ReportImport, len(siteIDs))
	for _, r := range rows {
		r.ImportedBy = r.Email
		bySite[r.SiteID] = append(bySite[r.SiteID], &r.ReportImport)
	}
	return bySite, nil
}

// Job returns a job of a site of the account, or model.ErrNotFound.
func (s *Store) Job(ctx context.Context, accountID model.AccountID, id model.ImportJobID) (*model.ImportJob, error) {
	r := new(row)
	err := s.db.Read.NewSelect().Model(r).Where("id = ?", id).Where(ofAccount, accountID).Scan(ctx)
	if err != nil {
		return nil, db.OrNotFound(err)
	}
	return r.model()
}

// JobsOfSites returns the latest jobs of each site, newest first. The caller must have loaded the
// sites, which checks the right to see them.
func (s *Store) JobsOfSites(ctx context.Context, siteIDs []model.SiteID) (map[model.SiteID][]*model.ImportJob, error) {
	if len(siteIDs) == 0 {
		return nil, nil
	}

	var rows []*row
	err := s.db.Read.NewSelect().Model(&rows).Where(`id IN (SELECT id FROM (SELECT id,
row_number() OVER (PARTITION BY site_id ORDER BY id DESC) AS n FROM import_jobs WHERE site_id IN ?) AS numbered WHERE n <= ?)`,
		bun.Tuple(siteIDs), model.MaxListedImportJobs).Order("id DESC").Scan(ctx)
	if err != nil {
		return nil, fmt.Errorf("list the import jobs of %d sites: %w", len(siteIDs), err)
	}

	bySite := make(map[model.SiteID][]*model.ImportJob, len(siteIDs))
	for _, r := range rows {
		job, err := r.model()
		if err != nil {
			return nil, err
		}
		bySite[r.SiteID] = append(bySite[r.SiteID], job)
	}
	return bySite, nil
}
