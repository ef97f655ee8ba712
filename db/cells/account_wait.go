package cells

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/uptrace/bun"
)

const (
	// claimsWait is the longest wait for the claims in progress. The server ends a transaction of a
	// writer that is idle for 10 seconds (package ingest).
	claimsWait = 12 * time.Second

	// claimsPoll is the pause between two reads of the locks.
	claimsPoll = 10 * time.Millisecond
)

// errClaimsInProgress is returned when the claims in progress do not end within claimsWait.
var errClaimsInProgress = errors.New("a transaction that may store claims of the account does not end; the account stays closed")

// awaitClaims waits until the transactions have ended that may have read that the account is open.
//
// Each statement that stores claims or usage locks the tables of the cell before it takes its
// snapshot. Transactions without such a lock after the closing will find the account closed, so
// only those that have one now must end. The move takes no lock of the tables itself: others'
// claims would wait behind it.
func (s *accountStep) awaitClaims(ctx context.Context) error {
	if err := poll(ctx, func() (bool, error) { return s.isClosedThere(ctx) }); err != nil {
		return err
	}

	before, err := s.writers(ctx)
	if err != nil {
		return err
	}
	return poll(ctx, func() (bool, error) {
		now, err := s.writers(ctx)
		return !slices.ContainsFunc(before, func(one string) bool { return slices.Contains(now, one) }), err
	})
}

// poll calls a function until it returns true, an error, or claimsWait is over.
func poll(ctx context.Context, isDone func() (bool, error)) error {
	for began := time.Now(); ; {
		done, err := isDone()
		if done || err != nil {
			return err
		}
		if time.Since(began) > claimsWait {
			return errClaimsInProgress
		}

		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(claimsPoll):
		}
	}
}

// isClosedThere reports whether statements in the former cell find the account closed. A node of
// Citus that was restarted may not have committed that yet.
func (s *accountStep) isClosedThere(ctx context.Context) (isClosed bool, err error) {
	// The usage, which never exists, makes Citus read on the cell's node.
	err = s.tx.NewRaw(`
SELECT EXISTS (SELECT 1 FROM accounts WHERE id = ? AND cell_closed
  AND NOT EXISTS (SELECT 1 FROM ? WHERE account_id = -1 AND month = 0))`,
		s.move.AccountID, bun.Safe(s.from+".captcha_usage")).Scan(ctx, &isClosed)
	return isClosed, err
}

// claimLocks returns the transactions with a lock for changes of the captcha's tables of a schema,
// also of the shards that they have on Citus. Prepared transactions are among them.
const claimLocks = `
SELECT coalesce(string_agg(DISTINCT virtualtransaction, ' '), '') FROM pg_locks JOIN pg_class ON pg_class.oid = relation
WHERE relnamespace = to_regnamespace('%s') AND relname ~ '^captcha_(usage|spent)(_[0-9]+|)$'
AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
AND mode IN ('RowShareLock', 'RowExclusiveLock')`

// writers returns the transactions that change the captcha's tables of the former cell now. On
// Citus it asks all nodes: a writer can be connected to any of them, and locks the table there
// first.
func (s *accountStep) writers(ctx context.Context) (all []string, err error) {
	isCitus, err := s.store.db.IsCitus(ctx)
	if err != nil {
		return nil, err
	}

	query := "SELECT 0 AS node, true AS success, (" + fmt.Sprintf(claimLocks, s.from) + ") AS result"
	if isCitus {
		query = "SELECT nodeid AS node, success, result FROM run_command_on_all_nodes($nodes$" + fmt.Sprintf(claimLocks, s.from) + "$nodes$)"
	}

	var nodes []struct {
		Node    int64
		Success bool
		Result  string
	}
	if err := s.tx.NewRaw("?", bun.Safe(query)).Scan(ctx, &nodes); err != nil {
		return nil, err
	}

	for _, node := range nodes {
		if !node.Success {
			return nil, fmt.Errorf("read the locks of node %d of Citus: %s", node.Node, node.Result)
		}
		for one := range strings.FieldsSeq(node.Result) {
			all = append(all, fmt.Sprint(node.Node, " ", one))
		}
	}
	return all, nil
}
