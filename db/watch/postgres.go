package watch

import (
	"context"
	"crypto/rand"
	"errors"
	mathrand "math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

const (
	// A connection without notifications is checked after silence: a host or firewall may have
	// dropped it without closing it.
	silence = 3 * time.Second

	// probeInterval is how often a connection without notifications sends one to itself. Every
	// listening process of the database is woken for it.
	probeInterval = 30 * time.Second

	minPause = 100 * time.Millisecond
	maxPause = 2 * time.Second
)

// ErrNoNotifications means that the server confirmed LISTEN, and that a notification did not
// arrive. A connection pooler does that: it gives the connection that listens to another process.
var ErrNoNotifications = errors.New("the database's notifications do not arrive, perhaps because of a connection pooler")

// Postgres reports the changes that PostgreSQL's server notifies of. All watchers of a process
// share one connection, which exists while there are any. It is safe for concurrent use.
type Postgres struct {
	config func() *pgx.ConnConfig
	notify func(ctx context.Context, channel string) error

	mu       sync.Mutex // held while the functions of watchers are called
	watchers map[*watcher]bool
	listener *listener // nil without watchers
}

type watcher struct {
	channel Channel
	changed func(id int64)
	synced  func(error)
}

// listener is the work on the connection. The mutex of Postgres protects inSync and fault.
type listener struct {
	cancel context.CancelFunc
	done   chan struct{}
	inSync bool
	fault  error // reported to the watchers; nil after they are in sync again
}

// NewPostgres returns a Postgres that connects with a configuration of its own, which it changes.
// notify must send a notification on a channel over another connection.
func NewPostgres(config func() *pgx.ConnConfig, notify func(ctx context.Context, channel string) error) *Postgres {
	return &Postgres{config: config, notify: notify, watchers: make(map[*watcher]bool)}
}

// Watch reports changes until ctx ends. DB.Watch of package db describes the functions.
func (p *Postgres) Watch(ctx context.Context, channel Channel, changed func(id int64), synced func(error)) error {
	w := &watcher{channel, changed, synced}
	p.add(w)
	defer p.remove(w)

	<-ctx.Done()
	return ctx.Err()
}

// add adds a watcher, and begins to listen for the first one.
func (p *Postgres) add(w *watcher) {
	p.mu.Lock()
	defer p.mu.Unlock()

	p.watchers[w] = true

	switch l := p.listener; {
	case l == nil:
		ctx, cancel := context.WithCancel(context.Background())
		p.listener = &listener{cancel: cancel, done: make(chan struct{})}
		go p.run(ctx, p.listener)
	case l.inSync:
		w.synced(nil)
	case l.fault != nil:
		w.synced(l.fault)
	}
}

// remove removes a watcher. After the last one it closes the connection and waits for that.
func (p *Postgres) remove(w *watcher) {
	p.mu.Lock()
	delete(p.watchers, w)

	var ended *listener
	if len(p.watchers) == 0 {
		ended, p.listener = p.listener, nil
	}
	p.mu.Unlock()

	if ended != nil {
		ended.cancel()
		<-ended.done
	}
}

// run listens until ctx ends, over one connection after the other.
func (p *Postgres) run(ctx context.Context, l *listener) {
	defer close(l.done)

	for pause := minPause; ; pause = min(2*pause, maxPause) {
		began, err := p.listen(ctx, l)
		p.lost(l, err)
		if began {
			pause = minPause
		}

		select {
		case <-ctx.Done():
			return
		case <-time.After(pause/2 + mathrand.N(pause/2)):
			// Many processes lose a database at the same time: spread their attempts.
		}
	}
}

// began notifies the watchers that later changes will be reported.
func (p *Postgres) began(l *listener) {
	p.mu.Lock()
	defer p.mu.Unlock()

	// Without watchers another listener may have taken over.
	if p.listener != l {
		return
	}

	l.inSync, l.fault = true, nil
	for w := range p.watchers {
		w.synced(nil)
	}
}

// lost notifies the watchers, once, that changes may go unnoticed.
func (p *Postgres) lost(l *listener, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()

	if p.listener != l || l.fault != nil {
		return
	}

	l.inSync, l.fault = false, err
	for w := range p.watchers {
		w.synced(err)
	}
}

// report passes a notification on.
func (p *Postgres) report(n *pgconn.Notification) error {
	id, err := strconv.ParseInt(n.Payload, 10, 64)
	if err != nil {
		return err
	}

	p.mu.Lock()
	defer p.mu.Unlock()

	for w := range p.watchers {
		if string(w.channel) == n.Channel {
			w.changed(id)
		}
	}

	return nil
}

// listen reports changes over one connection until that breaks or ctx ends. began means that the
// watchers were in sync. When the connection breaks it notifies the watchers before it closes the
// connection, which can take a while.
func (p *Postgres) listen(ctx context.Context, l *listener) (began bool, err error) {
	config := p.config()
	config.DefaultQueryExecMode = pgx.QueryExecModeSimpleProtocol

	// Show in the server's list of connections why this one is idle.
	config.RuntimeParams["application_name"] += " watch"

	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return false, err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), answerTimeout)
		defer cancel()
		// The connection is usually broken already.
		_ = conn.Close(ctx)
	}()

	own := "tallygate_probe_" + strings.ToLower(rand.Text())
	channels := []string{string(Sites), string(Sitekeys), own}
	if _, err := conn.PgConn().Exec(ctx, "LISTEN "+strings.Join(channels, "; LISTEN ")).ReadAll(); err != nil {
		return false, err
	}

	if err := p.probe(ctx, conn, own); err != nil {
		return false, err
	}
	p.began(l)

	for probed := time.Now(); ; {
		if err := p.await(ctx, conn, own, &probed); err != nil {
			p.lost(l, err)
			return true, err
		}
	}
}

// await reports the next change. After a silence it checks the connection instead: always that it
// still works, and at intervals that notifications arrive.
func (p *Postgres) await(ctx context.Context, conn *pgx.Conn, own string, probed *time.Time) error {
	wait, cancel := context.WithTimeout(ctx, silence)
	defer cancel()

	notification, err := conn.WaitForNotification(wait)
	switch {
	case notification != nil:
		return p.take(notification, own)
	// The connection was lost or the watch has ended, before the silence was over.
	case wait.Err() == nil || ctx.Err() != nil:
		return err
	case time.Since(*probed) >= probeInterval:
		*probed = time.Now()
		return p.probe(ctx, conn, own)
	}

	answer, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()

	return conn.Ping(answer)
}

// take reports a notification, unless it is a late notification of probe.
func (p *Postgres) take(n *pgconn.Notification, own string) error {
	if n.Channel == own {
		return nil
	}
	return p.report(n)
}

// probe has a notification sent over another connection, and waits for it.
func (p *Postgres) probe(ctx context.Context, conn *pgx.Conn, own string) error {
	answer, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()

	if err := p.notify(answer, own); err != nil {
		return err
	}

	for {
		notification, err := conn.WaitForNotification(answer)
		if err != nil && ctx.Err() == nil && answer.Err() != nil {
			// Only the deadline ended the wait: the connection works, but the notification was
			// lost.
			return ErrNoNotifications
		}
		if err != nil {
			return err
		}

		if notification.Channel == own {
			return nil
		}

		// Other notifications arrive meanwhile.
		if err := p.report(notification); err != nil {
			return err
		}
	}
}
