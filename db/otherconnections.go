package db

import (
	"context"
	"strings"

	"github.com/uptrace/bun"
)

// copyPurpose is the Options.Purpose of a process that copies an installation.
const copyPurpose = "copy"

// ForCopy returns the options for a process that copies the database: OtherConnections does not
// count its connections.
func (o Options) ForCopy() Options {
	o.purpose = copyPurpose
	return o
}

// OtherConnections returns the number of connections of other Tallygate processes to this
// PostgreSQL database, for a process with the options of ForCopy. Behind a pooler it counts data
// nodes only: the pooler keeps the other connections open after the processes have stopped. On
// SQLite it returns 0.
func (d *DB) OtherConnections(ctx context.Context) (connections int, err error) {
	if !d.IsPostgres() {
		return 0, nil
	}

	name := strings.TrimSuffix(d.pg.RuntimeParams["application_name"], " "+copyPurpose)
	names := []string{name + " watch"}
	if !d.isPooled {
		names = append(names, name)
	}

	err = d.Read.NewRaw("SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() "+
		"AND application_name IN (?)", bun.List(names)).Scan(ctx, &connections)
	return connections, err
}
