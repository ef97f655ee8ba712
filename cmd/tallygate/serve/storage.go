package serve

import (
	"context"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tallygate/tallygate/db/files"
)

const (
	// storageFresh is the lifetime of what storageCollector has read of the database.
	storageFresh = time.Minute

	// storageTimeout bounds the reads of the database in a scrape.
	storageTimeout = 3 * time.Second
)

var (
	freeDesc = prometheus.NewDesc("tallygate_disk_free_bytes",
		"Bytes that can be written to the disk of the data folder, with SQLite on Linux.", nil, nil)
	sizeDesc = prometheus.NewDesc("tallygate_database_size_bytes",
		"Bytes of the database: SQLite's file without its log, or all of PostgreSQL's database with the common tables. "+
			"Read once a minute.", nil, nil)
	backupDesc = prometheus.NewDesc("tallygate_last_backup_timestamp_seconds",
		"Unix time of the newest backup that admin backup or admin record-backup has recorded. 0 if SQLite has none; no "+
			"value if PostgreSQL has none.", nil, nil)
)

// storageCollector describes the database's storage when it is scraped. Unknown figures have no
// value.
type storageCollector struct {
	*App

	mu           sync.Mutex
	at           time.Time // when the figures were read
	size, backup float64   // -1: unknown
}

// Describe implements prometheus.Collector.
func (c *storageCollector) Describe(out chan<- *prometheus.Desc) {
	for _, desc := range []*prometheus.Desc{freeDesc, sizeDesc, backupDesc} {
		out <- desc
	}
}

// Collect implements prometheus.Collector.
func (c *storageCollector) Collect(out chan<- prometheus.Metric) {
	if !c.db.IsPostgres() {
		if free, known := files.FreeBytes(c.config.DataDir); known {
			out <- prometheus.MustNewConstMetric(freeDesc, prometheus.GaugeValue, float64(free))
		}
	}

	size, backup := c.figures()
	if size >= 0 {
		out <- prometheus.MustNewConstMetric(sizeDesc, prometheus.GaugeValue, size)
	}
	if backup >= 0 {
		out <- prometheus.MustNewConstMetric(backupDesc, prometheus.GaugeValue, backup)
	}
}

// figures returns the size and the last backup, at most storageFresh old. Scrapes at the same time
// wait for one another.
func (c *storageCollector) figures() (size, backup float64) {
	c.mu.Lock()
	defer c.mu.Unlock()

	if c.at.IsZero() || time.Since(c.at) >= storageFresh {
		c.read()
	}
	return c.size, c.backup
}

func (c *storageCollector) read() {
	ctx, cancel := context.WithTimeout(context.Background(), storageTimeout)
	defer cancel()

	c.size, c.backup = -1, -1
	store := files.New(c.db)
	if size, err := store.Size(ctx); err == nil {
		c.size = float64(size)
	}
	if at, err := store.LastBackup(ctx); err == nil && (at > 0 || !c.db.IsPostgres()) {
		c.backup = float64(at) / 1e6
	}
	c.at = time.Now()
}
