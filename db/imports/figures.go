package imports

import (
	"bufio"
	"compress/gzip"
	"context"
	"encoding/gob"
	"errors"
	"fmt"
	"io"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/reports"
)

// KeepFigures stores the daily sums that a job has read from an API in place of an upload. The job
// stores them after its confirmation, and does not call the API again.
func (s *Store) KeepFigures(ctx context.Context, l *Leased, m *reports.Import) error {
	// A run before this one may have stored some.
	if _, err := s.purgeChunks(ctx, l.SiteID, l.ID); err != nil {
		return err
	}

	to := &pieces{ctx: ctx, store: s, job: l}
	buffered := bufio.NewWriterSize(to, model.ImportChunk)
	packed := gzip.NewWriter(buffered)
	if err := errors.Join(gob.NewEncoder(packed).Encode(m), packed.Close(), buffered.Flush(), to.end()); err != nil {
		return fmt.Errorf("keep the figures of import job %d: %w", l.ID, err)
	}
	l.Size = to.size
	return s.update(ctx, l, "size = ?, received = ?", to.size, to.size)
}

// pieces stores what is written in pieces of model.ImportChunk bytes.
type pieces struct {
	ctx   context.Context
	store *Store
	job   *Leased
	left  []byte
	n     int64
	size  int64
}

func (p *pieces) Write(data []byte) (int, error) {
	p.left = append(p.left, data...)
	for len(p.left) >= model.ImportChunk {
		if err := p.put(p.left[:model.ImportChunk]); err != nil {
			return 0, err
		}
		p.left = append(p.left[:0], p.left[model.ImportChunk:]...)
	}
	return len(data), nil
}

// end stores the last piece.
func (p *pieces) end() error {
	if len(p.left) == 0 {
		return nil
	}
	return p.put(p.left)
}

func (p *pieces) put(data []byte) error {
	err := p.store.db.InTx(p.ctx, func(ctx context.Context, tx *db.Tx) error {
		piece := &chunk{SiteID: p.job.SiteID, JobID: p.job.ID, N: p.n, Data: data}
		if _, err := tx.NewInsert().Model(piece).Exec(ctx); err != nil {
			return err
		}
		return held(tx.NewUpdate().Model((*row)(nil)).Set("received = ?", p.size+int64(len(data))).
			Where("id = ? AND lease = ? AND state = ?", p.job.ID, p.job.lease, p.job.State).Exec(ctx))
	})
	p.n, p.size = p.n+1, p.size+int64(len(data))
	return err
}

// Figures returns the daily sums that KeepFigures has stored.
func (s *Store) Figures(ctx context.Context, l *Leased) (*reports.Import, error) {
	whole := &File{Size: l.Size, upload: &upload{
		ctx: ctx, store: s, siteID: l.SiteID, jobID: l.ID, done: func(int64) {},
	}}
	packed, err := gzip.NewReader(io.NewSectionReader(whole, 0, l.Size))
	if err != nil {
		return nil, fmt.Errorf("read the figures of import job %d: %w", l.ID, err)
	}
	m := new(reports.Import)
	if err := gob.NewDecoder(packed).Decode(m); err != nil {
		return nil, fmt.Errorf("read the figures of import job %d: %w", l.ID, err)
	}
	return m, nil
}
