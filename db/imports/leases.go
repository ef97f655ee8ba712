package imports

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/audit"
	"github.com/tallygate/tallygate/db/keys"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/reports"
	"github.com/tallygate/tallygate/db/sites"
)

// ErrLost means that a worker no longer has the job: it was canceled, or its lease has expired.
var ErrLost = errors.New("the lease of the import job is lost")

// Leased is a job that a worker runs.
type Leased struct {
	*model.ImportJob
	Site  *model.SiteRules
	Token string      // of the API; empty: none, or it cannot be decrypted
	Actor audit.Actor // who started or confirmed the job
	// Read is BytesRead of the run so far.
	Read atomic.Int64

	lease string
	since model.Instant // when the run began
}

// dueJobs selects the next job. An account runs one job of a kind at once. The account is next
// whose jobs of the kind ran for the shortest time lately, then the account served longest ago.
const dueJobs = `SELECT j.id FROM import_jobs AS j JOIN sites AS s ON s.id = j.site_id
WHERE j.state IN (1, 3) AND j.lease_until <= ? AND s.deleted_at = 0 AND (j.address <> '') = ? AND NOT EXISTS (
  SELECT 1 FROM import_jobs AS r JOIN sites AS rs ON rs.id = r.site_id
  WHERE rs.account_id = s.account_id AND r.state IN (1, 3) AND r.lease_until > ? AND (r.address <> '') = ?)
ORDER BY coalesce((SELECT sum(o.ran) FROM import_jobs AS o JOIN sites AS os ON os.id = o.site_id
  WHERE os.account_id = s.account_id AND (o.address <> '') = ? AND o.claimed_at > ?), 0), coalesce((SELECT max(o.claimed_at) FROM import_jobs AS o JOIN sites AS os ON os.id = o.site_id
  WHERE os.account_id = s.account_id), 0), j.id LIMIT 1`

// Due returns the kinds of jobs for which Lease may find one: with files (false), or that read an
// API (true). Idle workers ask every two seconds, so the query is cheaper than Lease: "state < 4"
// permits the index of open jobs.
func (s *Store) Due(ctx context.Context, now model.Instant) ([]bool, error) {
	var due []bool
	err := s.db.Read.NewSelect().Model((*row)(nil)).Distinct().ColumnExpr("address <> ''").
		Where("state < 4 AND state IN (1, 3) AND lease_until <= ?", now).Scan(ctx, &due)
	return due, db.Wrap(err, "look for import jobs")
}

// Lease leases the next job that reads an API, or the next one with files, to a worker. It returns
// nil if no job is due. lease identifies the worker's run.
func (s *Store) Lease(ctx context.Context, api bool, lease string, now model.Instant, lasts time.Duration) (*Leased, error) {
	// Some calls find nothing, and begin no transaction.
	var ids []int64
	if err := s.db.Read.NewRaw(dueJobs, now, api, now, api, api, now.Add(-24*time.Hour)).Scan(ctx, &ids); err != nil || len(ids) == 0 {
		return nil, db.Wrap(err, "look for import jobs")
	}

	var r *row
	err := s.db.InTx(ctx, func(ctx context.Context, tx *db.Tx) error {
		// Another worker may have been first.
		r = nil
		changed, err := db.Changed(tx.NewUpdate().Model((*row)(nil)).Set("lease = ?", lease).Set("lease_until = ?", now.Add(lasts)).
			Set("claimed_at = ?", now).Set("attempts = attempts + 1").
			Where("id = ? AND lease_until <= ? AND state IN (1, 3)", ids[0], now).Exec(ctx))
		if err != nil || !changed {
			return err
		}
		r = new(row)
		return tx.NewSelect().Model(r).Where("id = ?", ids[0]).Scan(ctx)
	})
	if err != nil || r == nil {
		return nil, db.Wrap(err, "lease an import job")
	}
	return s.leased(ctx, r, lease)
}

func (s *Store) leased(ctx context.Context, r *row, lease string) (*Leased, error) {
	job, err := r.model()
	if err != nil {
		return nil, err
	}

	l := &Leased{ImportJob: job, lease: lease, since: r.ClaimedAt}
	l.Read.Store(job.BytesRead)
	if err := json.Unmarshal([]byte(r.Actor), &l.Actor); err != nil {
		return nil, err
	}

	rules, err := sites.New(s.db).Sites.SiteRules(ctx, []model.SiteID{job.SiteID})
	if err != nil {
		return nil, err
	}
	if l.Site = rules[job.SiteID]; l.Site == nil {
		return nil, model.ErrNotFound
	}

	l.Token, _ = s.keys.Open(keys.ImportToken(job.SiteID), r.Token)
	return l, nil
}

// update changes a job that the worker has.
func (s *Store) update(ctx context.Context, l *Leased, set string, args ...any) error {
	return held(s.db.Write.NewUpdate().Model((*row)(nil)).Set(set, args...).
		Where("id = ? AND lease = ? AND state = ?", l.ID, l.lease, l.State).Exec(ctx))
}

// spend is update with what the run has used until now.
func (s *Store) spend(ctx context.Context, l *Leased, now model.Instant, set string, args ...any) error {
	ran := l.Ran + max(0, now.Sub(l.since).Microseconds())
	return s.update(ctx, l, "bytes_read = ?, ran = ?, "+set, append([]any{l.Read.Load(), ran}, args...)...)
}

// held turns a change of no row into ErrLost.
func held(result interface{ RowsAffected() (int64, error) }, err error) error {
	if err != nil {
		return err
	}
	if n, err := result.RowsAffected(); err != nil || n > 0 {
		return err
	}
	return ErrLost
}

// Renew extends the lease and records the progress in thousandths. It returns ErrLost after the job
// was canceled.
func (s *Store) Renew(ctx context.Context, l *Leased, progress int16, now model.Instant, lasts time.Duration) error {
	return s.spend(ctx, l, now, "lease_until = ?, progress = ?", now.Add(lasts), progress)
}

// Release lets another worker run the job at once. The run does not count as an attempt.
func (s *Store) Release(ctx context.Context, l *Leased, now model.Instant) error {
	return s.spend(ctx, l, now, "lease = '', lease_until = 0, attempts = attempts - 1")
}

// Later lets a worker run the job again after a pause, since a failure may pass.
func (s *Store) Later(ctx context.Context, l *Leased, now model.Instant, pause time.Duration) error {
	return s.spend(ctx, l, now, "lease = '', lease_until = ?", now.Add(pause))
}

// Ready records what was read, for the owner to confirm.
func (s *Store) Ready(ctx context.Context, l *Leased, preview model.ImportPreview, now model.Instant) error {
	text, err := json.Marshal(preview)
	if err != nil {
		return err
	}
	return s.spend(ctx, l, now, "state = ?, preview = ?, progress = 0, lease = '', lease_until = 0, expires_at = ?, token = NULL",
		model.JobReady, string(text), now.Add(model.ImportJobExpiry))
}

// maxFailureText is the length of a failure's text, and of the name of its file, in characters.
const maxFailureText = 500

// Fail ends the job.
func (s *Store) Fail(ctx context.Context, l *Leased, why *model.ImportFailure, now model.Instant) error {
	values, err := json.Marshal(why.ImportValues)
	if err != nil {
		return err
	}
	return s.spend(ctx, l, now, "state = ?, error_code = ?, error_text = ?, error_file = ?, error_line = ?, error_values = ?, "+
		"finished_at = ?, lease = '', lease_until = 0, token = NULL, actor = '{}'",
		model.JobFailed, why.Code, model.Storable(why.Text, maxFailureText), model.Storable(why.File, maxFailureText), why.Line,
		string(values), now)
}

// Completing returns the recorder of the import that the job stores, which has begun at the same
// time. In the transaction that makes the import visible it completes the job, or fails if the
// worker no longer has it.
func (s *Store) Completing(l *Leased, now model.Instant) reports.Recorder {
	return func(ctx context.Context, tx *db.Tx, siteID model.SiteID, before, after map[string]any) error {
		err := held(tx.NewUpdate().Model((*row)(nil)).
			Set("state = ?, finished_at = ?, progress = 1000, lease = '', lease_until = 0, actor = '{}'", model.JobComplete, now).
			Set("import_id = (SELECT max(id) FROM report_imports WHERE site_id = ? AND state = ? AND created_at = ?)",
				siteID, model.ImportComplete, now).
			Where("id = ? AND lease = ? AND state = ?", l.ID, l.lease, model.JobStoring).Exec(ctx))
		if err != nil {
			return err
		}
		return sites.RecordImport(ctx, tx, siteID, before, after)
	}
}

// Tend ends jobs that have waited for too long and deletes old ones, with their uploads. It returns
// the number of deleted pieces of uploads.
func (s *Store) Tend(ctx context.Context, now model.Instant) (int64, error) {
	_, err := s.db.Write.NewUpdate().Model((*row)(nil)).
		Set("state = ?, error_code = ?, error_text = ?, finished_at = ?, token = NULL, actor = '{}'", model.JobFailed, model.ImportExpired,
			"The import has waited for more than a day.", now).
		Where(isOpen).Where("expires_at < ? AND lease_until <= ?", now, now).Exec(ctx)
	if err != nil {
		return 0, fmt.Errorf("end expired import jobs: %w", err)
	}

	_, err = s.db.Write.NewDelete().Model((*row)(nil)).Where("state >= ? AND finished_at < ?",
		model.JobComplete, now.Add(-model.ImportJobHistory)).Exec(ctx)
	if err != nil {
		return 0, fmt.Errorf("delete old import jobs: %w", err)
	}
	return s.PurgeChunks(ctx)
}
