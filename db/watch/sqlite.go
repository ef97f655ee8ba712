package watch

import (
	"context"
	"os"
	"sync"
	"time"

	"github.com/uptrace/bun"
)

const (
	// pollInterval is how often a process looks whether any process has written to SQLite's log.
	// Each look wakes an idle process, and a change must reach every process within a second.
	pollInterval = 500 * time.Millisecond

	// clockTick is the longest tick of a file system's clock, with a margin. Two writes within a
	// tick can look like one, so a log that was written is read until no tick can hide another
	// write.
	clockTick = 3 * time.Second

	// readInterval is how often a process reads the changes at least, for file systems that keep no
	// times.
	readInterval = 30 * time.Second

	// keptChanges is how many changes are kept: more than the sites and sitekeys of an account,
	// which are deleted in one transaction. A process that missed more must assume that everything
	// has changed.
	keptChanges = 4000
)

// SQLite stores changes for all processes on the file, and reports them. All watchers of a process
// share one poll, which runs while there are any. It is safe for concurrent use.
type SQLite struct {
	read    bun.IDB
	logFile string // SQLite's write-ahead log

	// Notify runs after each commit with changes. nil: nothing does.
	Notify func()

	mu       sync.Mutex // held while the functions of watchers are called
	watchers map[*watcher]bool
	poll     *changePoll // nil without watchers
}

// NewSQLite returns a SQLite that reads the database file at path with the given pool.
func NewSQLite(read bun.IDB, path string) *SQLite {
	return &SQLite{read: read, logFile: path + "-wal", watchers: make(map[*watcher]bool)}
}

// Read makes this process read the changes that are committed, and returns when its watchers know
// them, or after a failure.
func (s *SQLite) Read() {
	s.mu.Lock()
	p := s.poll
	s.mu.Unlock()
	if p == nil {
		return
	}

	read := make(chan struct{})
	select {
	case p.now <- read:
		<-read
	case <-p.done:
	}
}

// Committed follows the commit of a transaction with changes: the watchers of this process learn
// them before the caller goes on.
func (s *SQLite) Committed() {
	s.Read()
	if s.Notify != nil {
		s.Notify()
	}
}

// change is a committed change of a site or sitekey.
type change struct {
	Seq     int64 // contiguous
	Channel Channel
	ID      int64
}

// Store stores changes of a transaction on SQLite, and deletes all but the last 4000.
func Store[ID ~int64](ctx context.Context, tx bun.IDB, channel Channel, ids []ID) error {
	rows := make([]change, len(ids))
	for i, id := range ids {
		rows[i] = change{Channel: channel, ID: int64(id)}
	}

	if _, err := tx.NewInsert().Model(&rows).ExcludeColumn("seq").Exec(ctx); err != nil {
		return err
	}

	_, err := tx.ExecContext(ctx, "DELETE FROM changes WHERE seq <= (SELECT max(seq) FROM changes) - ?", keptChanges)
	return err
}

// Watch reports changes until ctx ends. DB.Watch of package db describes the functions.
func (s *SQLite) Watch(ctx context.Context, channel Channel, changed func(id int64), synced func(error)) error {
	w := &watcher{channel, changed, synced}
	s.add(w)
	defer s.remove(w)

	<-ctx.Done()
	return ctx.Err()
}

// add adds a watcher, and begins to poll for the first one.
func (s *SQLite) add(w *watcher) {
	s.mu.Lock()
	defer s.mu.Unlock()

	s.watchers[w] = true

	switch p := s.poll; {
	case p == nil:
		ctx, cancel := context.WithCancel(context.Background())
		s.poll = &changePoll{of: s, cancel: cancel, now: make(chan chan<- struct{}), done: make(chan struct{})}
		go s.poll.run(ctx)
	case p.inSync:
		w.synced(nil)
	case p.fault != nil:
		w.synced(p.fault)
	}
}

// remove removes a watcher. After the last one it ends the poll and waits for that.
func (s *SQLite) remove(w *watcher) {
	s.mu.Lock()
	delete(s.watchers, w)

	var ended *changePoll
	if len(s.watchers) == 0 {
		ended, s.poll = s.poll, nil
	}
	s.mu.Unlock()

	if ended != nil {
		ended.cancel()
		<-ended.done
	}
}

// changePoll reads the changes. It queries the table and not PRAGMA data_version: that changes with
// every commit of hits, and costs the same read transaction.
type changePoll struct {
	of     *SQLite
	cancel context.CancelFunc
	now    chan chan<- struct{} // asks to read at once; what it receives is closed then
	done   chan struct{}

	last   int64       // Seq of the newest change that was read
	log    os.FileInfo // of SQLite's log at the last look; nil: unknown
	wrote  time.Time   // when a look last found that the log was written
	readAt time.Time

	// The mutex of SQLite protects these.
	inSync bool
	fault  error // reported to the watchers; nil after they are in sync again
}

// run polls until ctx ends.
func (p *changePoll) run(ctx context.Context) {
	defer close(p.done)

	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()

	for {
		if p.due() {
			p.poll(ctx)
		}

		select {
		case <-ctx.Done():
			return
		case read := <-p.now:
			p.readFor(ctx, read)
		case <-ticker.C:
		}
	}
}

// readFor reads once for all that ask for it now.
func (p *changePoll) readFor(ctx context.Context, waiting ...chan<- struct{}) {
	for isMore := true; isMore; {
		select {
		case read := <-p.now:
			waiting = append(waiting, read)
		default:
			isMore = false
		}
	}

	p.poll(ctx)
	for _, read := range waiting {
		close(read)
	}
}

// due reports whether to read: if SQLite's log was written within the last tick of the file
// system's clock, the last read failed, or it is long ago.
func (p *changePoll) due() bool {
	// A write during the read makes the log differ from this state.
	log, err := os.Stat(p.of.logFile)
	if err != nil {
		log = nil
	}

	was := p.log
	p.log = log
	if log == nil || was == nil || log.Size() != was.Size() || !log.ModTime().Equal(was.ModTime()) {
		p.wrote = time.Now()
	}
	return time.Since(p.wrote) < clockTick || time.Since(p.readAt) >= readInterval
}

// poll reads once. It notifies the watchers, once, that changes may go unnoticed.
func (p *changePoll) poll(ctx context.Context) {
	read, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()

	p.readAt = time.Now()
	err := p.read(read)
	if err == nil || ctx.Err() != nil {
		return
	}

	p.log = nil
	p.of.mu.Lock()
	defer p.of.mu.Unlock()

	p.inSync = false
	if p.fault == nil {
		p.fault = err
		for w := range p.watching() {
			w.synced(err)
		}
	}
}

func (p *changePoll) read(ctx context.Context) error {
	// Only this goroutine writes inSync.
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

	p.of.mu.Lock()
	defer p.of.mu.Unlock()

	for _, c := range changes {
		p.last = c.Seq
		for w := range p.watching() {
			if w.channel == c.Channel {
				w.changed(c.ID)
			}
		}
	}

	return nil
}

// watching returns the watchers to report to. The caller holds the mutex of SQLite. After the last
// watcher has left, another poll may serve new ones.
func (p *changePoll) watching() map[*watcher]bool {
	if p.of.poll != p {
		return nil
	}
	return p.of.watchers
}

// sync starts with the changes that follow from now on.
func (p *changePoll) sync(ctx context.Context) error {
	if err := p.of.read.NewRaw("SELECT coalesce(max(seq), 0) FROM changes").Scan(ctx, &p.last); err != nil {
		return err
	}

	p.of.mu.Lock()
	defer p.of.mu.Unlock()

	p.inSync, p.fault = true, nil
	for w := range p.watching() {
		w.synced(nil)
	}
	return nil
}
