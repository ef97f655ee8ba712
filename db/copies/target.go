package copies

import (
	"context"
	"errors"
	"fmt"

	"github.com/tallygate/tallygate/db/inspect"
)

// checkTarget returns an error that says what to do before anything can be written to the target.
func (c *Copy) checkTarget(ctx context.Context) error {
	if err := c.to.Ping(ctx); err != nil {
		return fmt.Errorf("the target does not answer; create an empty database, or correct its address: %w", err)
	}
	if !c.to.IsPostgres() {
		return nil
	}

	if err := c.refusePooler(ctx); err != nil {
		return err
	}
	return c.refuseDistributed(ctx)
}

// refusePooler returns an error if the target's address leads through a pooler in transaction mode.
// Migrations that create indexes hold a lock of their session. A pooler gives this session to other
// clients, and may keep the lock after the command has ended.
func (c *Copy) refusePooler(ctx context.Context) error {
	store := inspect.New(c.to)
	addresses, err := store.Addresses(ctx)
	if err != nil || !addresses.IsDirectPooled {
		return err
	}

	// A pooler in session mode delivers notifications.
	if err := store.Notifications(ctx); !inspect.IsPooler(err) {
		return err
	}
	return errors.New("the target's address leads through a connection pooler in transaction mode, and nothing was " +
		"written; name the address of the PostgreSQL server itself, and give the pooler's address to the service afterwards")
}

// refuseDistributed returns an error if the target's schema is a distributed schema of Citus. The
// common tables must be on the coordinator. A cell is a distributed schema, and is created
// afterwards.
func (c *Copy) refuseDistributed(ctx context.Context) error {
	const schemas = "pg_catalog.pg_dist_schema" // since Citus 12

	var exists, distributed bool
	err := c.to.Read.NewRaw("SELECT to_regclass(?) IS NOT NULL", schemas).Scan(ctx, &exists)
	if err == nil && exists {
		err = c.to.Read.NewRaw("SELECT EXISTS (SELECT 1 FROM pg_catalog.pg_dist_schema "+
			"WHERE schemaid = to_regnamespace(current_schema()::text)::oid)").Scan(ctx, &distributed)
	}
	if err != nil {
		return fmt.Errorf("look for a distributed schema: %w", err)
	}
	if distributed {
		return errors.New("the target's schema is a distributed schema of Citus, and nothing was written; name an ordinary " +
			"schema, such as public, and add cells after the copy with \"tallygate admin cells add\"")
	}
	return nil
}
