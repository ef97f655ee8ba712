package watch

import (
	"context"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
)

const (
	// A connection without notifications is checked after silence: a host or firewall may have
	// dropped it without closing it.
	silence = 3 * time.Second

	minPause = 100 * time.Millisecond
	maxPause = 2 * time.Second
)

// Postgres reports the changes that PostgreSQL's server notifies of, until ctx ends. It changes the
// configuration. DB.Watch of package db describes the functions.
func Postgres(
	ctx context.Context, config *pgx.ConnConfig, channel Channel, changed func(id int64), synced func(error),
) error {
	config.DefaultQueryExecMode = pgx.QueryExecModeSimpleProtocol

	// Show in the server's list of connections why this one is idle.
	config.RuntimeParams["application_name"] += " watch"

	pause, reported := minPause, false
	began := func() {
		pause, reported = minPause, false
		synced(nil)
	}

	failed := func(err error) {
		if !reported && ctx.Err() == nil {
			reported = true
			synced(err)
		}
	}
	for {
		failed(listen(ctx, config, channel, changed, began, failed))

		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pause/2 + rand.N(pause/2)):
			// Many processes lose a database at the same time: spread their attempts.
			pause = min(2*pause, maxPause)
		}
	}
}

// listen reports changes over one connection until that breaks or ctx ends. It calls began when it
// listens. After that it calls lost as soon as the connection breaks, because closing the
// connection can take a while.
func listen(
	ctx context.Context, config *pgx.ConnConfig, channel Channel, changed func(int64), began func(), lost func(error),
) error {
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), answerTimeout)
		defer cancel()
		// The connection is usually broken already.
		_ = conn.Close(ctx)
	}()

	if _, err := conn.Exec(ctx, "LISTEN "+string(channel)); err != nil {
		return err
	}

	began()

	for {
		id, err := nextChange(ctx, conn)
		if err != nil {
			lost(err)
			return err
		}

		if id != 0 {
			changed(id)
		}
	}
}

// nextChange returns the id of the next changed row. It returns 0 when there was none for a while
// and the connection still works.
func nextChange(ctx context.Context, conn *pgx.Conn) (int64, error) {
	wait, cancel := context.WithTimeout(ctx, silence)
	defer cancel()

	notification, err := conn.WaitForNotification(wait)
	if notification != nil {
		return strconv.ParseInt(notification.Payload, 10, 64)
	}
	if wait.Err() == nil || ctx.Err() != nil {
		return 0, err
	}

	answer, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()

	return 0, conn.Ping(answer)
}
