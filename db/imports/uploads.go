package imports

import (
	"context"
	"fmt"
	"io"

	"github.com/uptrace/bun"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/model"
)

// chunk is a piece of an upload.
type chunk struct {
	bun.BaseModel `bun:"table:import_chunks,alias:chunk"`
	SiteID        model.SiteID      `bun:",pk"`
	JobID         model.ImportJobID `bun:",pk"`
	N             int64             `bun:",pk"`
	Data          []byte            `bun:",notnull"`
}

// Put stores the piece of an upload that begins at an offset, and returns how many bytes the upload
// has. Pieces arrive in order: a piece at another offset changes nothing, so that a client that
// does not know the outcome of a call can repeat it. The last piece lets the worker read the job.
func (s *Store) Put(
	ctx context.Context, accountID model.AccountID, jobID model.ImportJobID, offset int64, data []byte, now model.Instant,
) (received int64, err error) {
	err = s.db.InTx(ctx, func(ctx context.Context, tx *db.Tx) error {
		r := new(row)
		q := tx.NewSelect().Model(r).Where("id = ?", jobID).Where(ofAccount, accountID)
		tx.Lock(q, "UPDATE OF job")
		if err := q.Scan(ctx); err != nil {
			return db.OrNotFound(err)
		}

		received = r.Received
		switch {
		case r.State == model.JobReading && offset < received:
			return nil // the last piece is repeated
		case r.State != model.JobUploading || now > r.ExpiresAt:
			return errFinished
		case offset != received:
			return nil
		case len(data) != int(min(model.ImportChunk, r.Size-received)):
			return &model.Error{Kind: model.Invalid, Code: "bad_chunk", Message: "A piece of an upload has 1 MiB, and the last one the rest."}
		}

		piece := &chunk{SiteID: r.SiteID, JobID: jobID, N: offset / model.ImportChunk, Data: data}
		if _, err := tx.NewInsert().Model(piece).Exec(ctx); err != nil {
			return err
		}
		received += int64(len(data))
		update := tx.NewUpdate().Model((*row)(nil)).Set("received = ?", received).Where("id = ?", jobID)
		if received == r.Size {
			update.Set("state = ?", model.JobReading)
		}
		_, err := update.Exec(ctx)
		return err
	})
	if err != nil {
		return 0, db.Wrap(err, "store a piece of import job %d", jobID)
	}
	return received, nil
}

// File is a file of an upload. It reads the pieces of the database one at a time.
type File struct {
	Name string
	Size int64

	upload *upload
	start  int64 // in the upload
}

// upload reads an upload. It is not safe for concurrent use.
type upload struct {
	ctx    context.Context
	store  *Store
	siteID model.SiteID
	jobID  model.ImportJobID
	kept   []*chunk // the latest ones
	err    error    // of the database
	done   func(read int64)
}

// keptChunks is how many pieces an upload keeps: an archive's directory is at its end.
const keptChunks = 2

// Files returns the files of a job. read is called with the position up to which the upload was
// read. The second result returns the database's error, which a reader of a file may have described
// otherwise.
func (s *Store) Files(ctx context.Context, job *model.ImportJob, read func(int64)) ([]*File, func() error) {
	up := &upload{ctx: ctx, store: s, siteID: job.SiteID, jobID: job.ID, done: read}
	var files []*File
	var start int64
	for _, f := range job.Files {
		files = append(files, &File{Name: f.Name, Size: f.Size, upload: up, start: start})
		start += f.Size
	}
	return files, func() error { return up.err }
}

// ReadAt implements io.ReaderAt.
func (f *File) ReadAt(to []byte, offset int64) (n int, err error) {
	for n < len(to) && offset < f.Size {
		at := f.start + offset
		piece, err := f.upload.chunk(at / model.ImportChunk)
		if err != nil {
			return n, err
		}

		within := at % model.ImportChunk
		if within >= int64(len(piece)) {
			return n, io.ErrUnexpectedEOF
		}

		copied := copy(to[n:], piece[within:min(int64(len(piece)), within+f.Size-offset)])
		n += copied
		offset += int64(copied)
		f.upload.done(f.start + offset)
	}

	if n < len(to) {
		return n, io.EOF
	}
	return n, nil
}

// chunk returns a piece of the upload.
func (u *upload) chunk(n int64) ([]byte, error) {
	for _, c := range u.kept {
		if c.N == n {
			return c.Data, nil
		}
	}

	c := &chunk{SiteID: u.siteID, JobID: u.jobID, N: n}
	if err := u.store.db.Read.NewSelect().Model(c).WherePK().Scan(u.ctx); err != nil {
		u.err = fmt.Errorf("read piece %d of import job %d: %w", n, u.jobID, err)
		return nil, u.err
	}
	u.kept = append(u.kept, c)
	if len(u.kept) > keptChunks {
		u.kept = u.kept[1:]
	}
	return c.Data, nil
}

// PurgeChunks deletes the uploads of jobs that have finished, in short transactions, and returns
// the number of deleted pieces.
func (s *Store) PurgeChunks(ctx context.Context) (int64, error) {
	var jobs []struct {
		SiteID model.SiteID
		JobID  model.ImportJobID
	}
	err := s.db.Read.NewRaw(`SELECT DISTINCT c.site_id, c.job_id FROM import_chunks AS c
LEFT JOIN import_jobs AS j ON j.id = c.job_id WHERE j.id IS NULL OR j.state >= ?`, model.JobComplete).Scan(ctx, &jobs)
	if err != nil {
		return 0, fmt.Errorf("look for finished uploads: %w", err)
	}

	var all int64
	for _, job := range jobs {
		n, err := s.purgeChunks(ctx, job.SiteID, job.JobID)
		if all += n; err != nil {
			return all, err
		}
	}
	return all, nil
}

// purgedAtOnce is how many pieces one transaction deletes.
const purgedAtOnce = 2

func (s *Store) purgeChunks(ctx context.Context, siteID model.SiteID, jobID model.ImportJobID) (int64, error) {
	for all := int64(0); ; {
		result, err := s.db.Write.ExecContext(ctx, `DELETE FROM import_chunks WHERE (site_id, job_id, n) IN
(SELECT site_id, job_id, n FROM import_chunks WHERE site_id = ? AND job_id = ? ORDER BY n LIMIT ?)`, siteID, jobID, purgedAtOnce)
		if err != nil {
			return all, fmt.Errorf("delete the upload of import job %d: %w", jobID, err)
		}
		n, err := result.RowsAffected()
		if all += n; err != nil || n < purgedAtOnce {
			return all, err
		}
	}
}
