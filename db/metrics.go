package db

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/uptrace/bun"
)

// Measure registers the metrics of the connection pools, which have the pool's name in the label
// db_name. Writers of hits and claims on PostgreSQL have connections outside of the pools.
func (d *DB) Measure(r prometheus.Registerer) error {
	pools := map[string]*bun.DB{"main": d.Write, "data": d.DataRead}
	if !d.IsPostgres() {
		pools = map[string]*bun.DB{"write": d.Write, "read": d.Read, "data_write": d.DataWrite, "data_read": d.DataRead}
	}
	if d.isPooled {
		pools["sessions"] = d.sessions
	}

	var err error
	for name, pool := range pools {
		err = errors.Join(err, r.Register(collectors.NewDBStatsCollector(pool.DB, name)))
	}
	return err
}
