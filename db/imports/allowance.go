package imports

import (
	"context"
	"fmt"

	"github.com/uptrace/bun"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/model"
)

// allowance selects how much an account's other imports of a day have read, and whether it pays or
// has an operator as a member. Jobs of deleted sites count.
const allowance = `SELECT coalesce((SELECT sum(j.bytes_read) FROM import_jobs AS j JOIN sites AS s ON s.id = j.site_id
  WHERE s.account_id = a.id AND j.id <> ? AND j.created_at >= ? AND j.created_at < ?), 0) AS used,
a.captcha_plan <> 'FREE' OR EXISTS (SELECT 1 FROM sites AS s WHERE s.account_id = a.id AND s.deleted_at = 0 AND s.plan <> 'FREE')
  OR EXISTS (SELECT 1 FROM memberships AS m JOIN users AS u ON u.id = m.user_id WHERE m.account_id = a.id AND u.operator) AS trusted
FROM accounts AS a WHERE a.id = (SELECT account_id FROM sites WHERE id = ?)`

// BytesLeft returns how many bytes a job may read, and the failure of a job that reads more.
func (s *Store) BytesLeft(ctx context.Context, job *model.ImportJob) (int64, *model.ImportFailure, error) {
	left, err := bytesLeft(ctx, s.db.Read, job)
	if err != nil {
		return 0, nil, db.Wrap(err, "read the allowance of import job %d", job.ID)
	}
	return left, &model.ImportFailure{
		Code: model.ImportTooMuch, Text: tooManyBytes(job, left).Message,
		ImportValues: model.ImportValues{Count: left >> 20, First: job.CreatedAt.Day()},
	}, nil
}

// bytesLeft returns how much of the day on which a job was started is left to it. What the job
// itself has read does not count, so that a worker that takes it over can read it again.
func bytesLeft(ctx context.Context, idb bun.IDB, job *model.ImportJob) (int64, error) {
	var account struct {
		Used    int64
		Trusted bool
	}
	day := job.CreatedAt.Day()
	err := idb.NewRaw(allowance, job.ID, day.Start(), (day+1).Start(), job.SiteID).Scan(ctx, &account)

	most := int64(model.MaxFreeImportBytes)
	if account.Trusted {
		most = model.MaxImportBytes
	}
	return max(0, most-account.Used), err
}

// tooManyBytes returns the error of a job that reads more than is left.
func tooManyBytes(job *model.ImportJob, left int64) *model.Error {
	return &model.Error{Kind: model.Conflict, Code: model.ImportTooMuch, Field: "files", Message: fmt.Sprintf(
		"The account's imports of %v may read %d MB more, uncompressed. The next day begins at 00:00 UTC.", job.CreatedAt.Day(), left>>20)}
}
