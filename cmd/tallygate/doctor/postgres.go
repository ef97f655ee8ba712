package doctor

import (
	"context"
	"fmt"
	"strings"

	"github.com/tallygate/tallygate/cmd/tallygate/config"
	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/inspect"
)

// checkServer checks how a PostgreSQL server is set up. It returns whether the program can use it.
func (e *examination) checkServer(ctx context.Context, d *db.DB) bool {
	store := inspect.New(d)
	server, err := store.Server(ctx)
	if err != nil && strings.Contains(err.Error(), "client_encoding") { // the driver's text for another encoding
		e.reportEncoding("not UTF8")
		return false
	}
	if err != nil {
		e.fault("database-read", "See the message, and the log of the database.", "the database cannot be read: %v", cause(err))
		return false
	}

	if server.Version < inspect.OldestPostgres*10_000 {
		e.fault("postgres-version", fmt.Sprintf("Install PostgreSQL %d or newer.", inspect.OldestPostgres),
			"PostgreSQL is version %s", server.VersionText)
	}
	if server.Encoding != "UTF8" {
		e.reportEncoding(server.Encoding)
	}
	if server.Recovering || server.ReadOnly == "on" {
		e.fault("postgres-read-only", "Name the primary server in TALLYGATE_DATABASE_URL, and turn default_transaction_read_only off.",
			"the database can only be read")
	}

	e.checkDurability(server)
	e.checkRights(ctx, store, server)
	e.checkConnections(server)
	e.checkSessions(ctx, store)

	return true
}

func (e *examination) reportEncoding(encoding string) {
	e.fault("postgres-encoding", "Create the database again: CREATE DATABASE … ENCODING 'UTF8' TEMPLATE template0",
		"the database's encoding is %s", encoding)
}

// checkDurability reports settings with which acknowledged hits can be lost.
func (e *examination) checkDurability(server inspect.Server) {
	for _, setting := range []struct{ name, value string }{
		{"fsync", server.Fsync}, {"full_page_writes", server.FullPageWrites}, {"synchronous_commit", server.SynchronousCommit},
	} {
		if setting.value == "off" {
			e.fault("postgres-"+strings.ReplaceAll(setting.name, "_", "-"), "Turn "+setting.name+" on.",
				"%s is off: a crash of the server loses acknowledged hits or damages the database", setting.name)
		}
	}

	if server.Autovacuum == "off" {
		e.warn("postgres-autovacuum", "Turn autovacuum on.", "autovacuum is off: tables grow, and queries become slow")
	}
}

// checkRights reports missing rights of the role.
func (e *examination) checkRights(ctx context.Context, store *inspect.Store, server inspect.Server) {
	const grants = "Give the role the rights in docs/operator/operations.md, \"Migrations\"."

	denied, err := store.DeniedTables(ctx)
	switch {
	case err != nil:
		e.fault("database-read", "See the message, and the log of the database.", "the database cannot be read: %v", cause(err))
	case len(denied) > 0:
		e.fault("postgres-rights", grants, "the role cannot read and write %s", strings.Join(denied, ", "))
	}

	if server.MayCreate && server.OwnsTables {
		return
	}
	e.mayNotChange = true

	if !e.c.NoMigrate {
		e.warn("postgres-ddl", "Set TALLYGATE_NO_MIGRATE, and run tallygate migrate with another role before each upgrade and once a month.",
			"the role may not create or change tables, and TALLYGATE_NO_MIGRATE is not set")
	}
	if e.c.RetentionMonths > 0 && e.c.Has(config.RoleWorker) {
		e.fault("postgres-retention", "Run the worker with the role that owns the tables.",
			"TALLYGATE_RETENTION_MONTHS is set, and the role may not remove partitions: old rows stay")
	}

	next := e.Now().UTC().AddDate(0, 1, 1-e.Now().UTC().Day()).Format("200601")
	if missing, err := store.MissingPartitions(ctx, next); err == nil && len(missing) > 0 {
		e.warn("postgres-partitions", "Run tallygate migrate with a role that may create tables, once a month.",
			"the tables %s have no partition for next month, and the role cannot create one", strings.Join(missing, ", "))
	}
}

// checkConnections compares the limit of connections with what the nodes open.
func (e *examination) checkConnections(server inspect.Server) {
	perNode := connections(e.c)
	if e.c.Splits() {
		own, child := e.c.Split()
		perNode = connections(own) + connections(child)
	}

	if need := perNode * e.Nodes; need > server.Connections {
		e.fault("postgres-connections", "Raise max_connections or the limit of the role, or lower TALLYGATE_DATABASE_POOL and TALLYGATE_DATA_POOL.",
			"%d nodes with these settings open %d connections, and the role may have %d", e.Nodes, need, server.Connections)
	}
}

// connections returns the most connections that one process opens.
func connections(c *config.Config) int {
	most := 1 // watches changes
	if c.Has(config.RoleData) {
		most += 2 // the writers of hits and of the captcha
	}

	// A pooler shares the other connections among the processes.
	if c.DatabaseDirectURL == "" {
		most += c.DatabasePool
		if c.Has(config.RoleData) {
			most += c.DataPool
		}
	}
	return most
}

// checkSessions checks what needs a session of the server, which a pooler in transaction mode takes
// away.
func (e *examination) checkSessions(ctx context.Context, store *inspect.Store) {
	const action = "Set TALLYGATE_DATABASE_DIRECT_URL to the address of the server itself; see docs/operator/operations.md, \"Connection poolers\"."

	addresses, err := store.Addresses(ctx)
	switch {
	case err != nil:
		e.fault("postgres-direct", "Correct TALLYGATE_DATABASE_DIRECT_URL.", "no direct connection to the database: %v", cause(err))
		return
	case addresses.IsOther:
		e.fault("postgres-direct-other", "Let both addresses lead to the same database.",
			"TALLYGATE_DATABASE_URL and TALLYGATE_DATABASE_DIRECT_URL lead to different databases")
		return
	}

	switch err := store.Notifications(ctx); {
	case err == nil && addresses.IsDirectPooled && e.c.DatabaseDirectURL != "":
		e.warn("postgres-pooler", "Let TALLYGATE_DATABASE_DIRECT_URL lead to the server itself.",
			"the direct address of the database leads through a connection pooler")
	case err == nil:
	case inspect.IsPooler(err) || addresses.IsDirectPooled:
		e.fault("postgres-pooler", action, "a connection pooler in transaction mode is in front of the database: hits are refused")
	default:
		e.fault("postgres-listen", "Check that the role can connect, and that nothing between closes idle connections.",
			"notifications of changes do not arrive: %v", cause(err))
	}
}
