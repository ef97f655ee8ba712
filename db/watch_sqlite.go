package db

import (
	"context"
	"time"
)

const (
	// watchPoll is how often a process reads the changes of other processes from SQLite. One query
	// takes about 20 µs.
	watchPoll = 250 * time.Millisecond

	// watchAnswer bounds the wait for the database's answer to a query of a watcher.
	watchAnswer = 2 * time.Second

	// keptChanges is how many changes are kept. A process that missed more must assume that
	// everything has changed.
	keptChanges = 1000
)

// change is a committed change of a site or sitekey.
type change struct {
	Seq     int64 // contiguous
	Channel Channel
	ID      int64
	Source  int64 // DB.source of the process that wrote it
}

// noteChanges stores changes for the watchers of other processes on this SQLite file.
func (tx *Tx) noteChanges(ctx context.Context, channel Channel, ids []int64) error {
	rows := make([]change, len(ids))
	for i, id := range ids {
		rows[i] = change{Channel: channel, ID: id, Source: tx.db.source}
	}

	if _, err := tx.NewInsert().Model(&rows).ExcludeColumn("seq").Exec(ctx); err != nil {
		return err
	}
	return pruneChanges(ctx, tx)
}

// pruneChanges deletes all but the last changes.
func pruneChanges(ctx context.Context, tx *Tx) error {
	_, err := tx.ExecContext(ctx, "DELETE FROM changes WHERE seq <= (SELECT max(seq) FROM changes) - ?", keptChanges)
	return err
}

// watchSQLite is Watch on SQLite. Changes made through this DB arrive through the watchers, others
// through the table.
func (d *DB) watchSQLite(ctx context.Context, channel Channel, changed func(id int64), synced func(error)) error {
	remove := d.watchers.add(channel, changed)
	defer remove()

	poll := changePoll{db: d, channel: channel, changed: changed, synced: synced}
	ticker := time.NewTicker(watchPoll)
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
	db      *DB
	channel Channel
	changed func(id int64)
	synced  func(error)

	last     int64 // Seq of the newest change that was read
	inSync   bool
	reported bool // that the database does not answer
}

func (p *changePoll) run(ctx context.Context) {
	read, cancel := context.WithTimeout(ctx, watchAnswer)
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
	err := p.db.DataRead.NewSelect().Model(&changes).Where("seq > ?", p.last).Order("seq").Limit(keptChanges).Scan(ctx)
	if err != nil {
		return err
	}

	// Some changes were deleted before they were read.
	if len(changes) > 0 && changes[0].Seq != p.last+1 {
		return p.sync(ctx)
	}

	for _, c := range changes {
		if p.last = c.Seq; c.Channel == p.channel && c.Source != p.db.source {
			p.changed(c.ID)
		}
	}

	return nil
}

// sync starts with the changes that follow from now on.
func (p *changePoll) sync(ctx context.Context) error {
	if err := p.db.DataRead.NewRaw("SELECT coalesce(max(seq), 0) FROM changes").Scan(ctx, &p.last); err != nil {
		return err
	}
	p.inSync, p.reported = true, false
	p.synced(nil)
	return nil
}
