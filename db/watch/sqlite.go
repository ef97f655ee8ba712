package watch

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/uptrace/bun"
)

const (
	// pollInterval is how often a process reads the changes of other processes from SQLite. One query
	// takes about 20 µs.
	pollInterval = 250 * time.Millisecond

	// keptChanges is how many changes are kept. A process that missed more must assume that
	// everything has changed.
	keptChanges = 1000
)

// SQLite stores changes of one process for the others on the file, and reports changes of all of
// them. It is safe for concurrent use.
type SQLite struct {
	read     bun.IDB
	source   int64    // random; identifies this process's changes
	watchers watchers // of this process
}

// NewSQLite returns a SQLite that reads with the given pool.
func NewSQLite(read bun.IDB) *SQLite { return &SQLite{read: read, source: rand.Int64()} }

// change is a committed change of a site or sitekey.
type change struct {
	Seq     int64 // contiguous
	Channel Channel
	ID      int64
	Source  int64 // SQLite.source of the process that wrote it
}

// Store stores changes of a transaction for the other processes, and deletes all but the last 1000.
// After the commit, Committed reports them in this process.
func (s *SQLite) Store(ctx context.Context, tx bun.IDB, channel Channel, ids []int64) error {
	rows := make([]change, len(ids))
	for i, id := range ids {
		rows[i] = change{Channel: channel, ID: id, Source: s.source}
	}

	if _, err := tx.NewInsert().Model(&rows).ExcludeColumn("seq").Exec(ctx); err != nil {
		return err
	}

	_, err := tx.ExecContext(ctx, "DELETE FROM changes WHERE seq <= (SELECT max(seq) FROM changes) - ?", keptChanges)
	return err
}

// Committed reports committed changes of this process to its watchers.
func (s *SQLite) Committed(changes []Notice) { s.watchers.report(changes) }

// Watch reports changes until ctx ends. Changes of this process come from Committed, other changes
// from the table. DB.Watch of package db describes the functions.
func (s *SQLite) Watch(ctx context.Context, channel Channel, changed func(id int64), synced func(error)) error {
	remove := s.watchers.add(channel, changed)
	defer remove()

	poll := changePoll{of: s, channel: channel, changed: changed, synced: synced}
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()

	for {
		poll.run(ctx)

		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C:
		}
	}
}

// changePoll reads the changes of other processes. It queries the table and not PRAGMA
// data_version: that changes with every commit of hits, including this process's own, and costs the
// same read transaction.
type changePoll struct {
	of      *SQLite
	channel Channel
	changed func(id int64)
	synced  func(error)

	last     int64 // Seq of the newest change that was read
	inSync   bool
	reported bool // that the database does not answer
}

func (p *changePoll) run(ctx context.Context) {
	read, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()

	err := p.read(read)
	if err == nil || ctx.Err() != nil {
		return
	}

	p.inSync = false
	if !p.reported {
		p.reported = true
		p.synced(err)
	}
}

func (p *changePoll) read(ctx context.Context) error {
	if !p.inSync {
		return p.sync(ctx)
	}

	var changes []change
	err := p.of.read.NewSelect().Model(&changes).Where("seq > ?", p.last).Order("seq").Limit(keptChanges).Scan(ctx)
	if err != nil {
		return err
	}

	// Some changes were deleted before they were read.
	if len(changes) > 0 && changes[0].Seq != p.last+1 {
		return p.sync(ctx)
	}

	for _, c := range changes {
		if p.last = c.Seq; c.Channel == p.channel && c.Source != p.of.source {
			p.changed(c.ID)
		}
	}

	return nil
}

// sync starts with the changes that follow from now on.
func (p *changePoll) sync(ctx context.Context) error {
	if err := p.of.read.NewRaw("SELECT coalesce(max(seq), 0) FROM changes").Scan(ctx, &p.last); err != nil {
		return err
	}
	p.inSync, p.reported = true, false
	p.synced(nil)
	return nil
}
