// Package watch reports committed changes of rows to the processes that keep them in memory: with
// LISTEN on PostgreSQL, and through the table changes on SQLite. Package db
// announces changes with the transaction that makes them.
package watch

import "time"

// answerTimeout bounds the wait for the database's answer to a query of a watcher.
const answerTimeout = 2 * time.Second

// Channel names a kind of changes that can be watched. It is a channel of PostgreSQL's LISTEN.
type Channel string

// The channels.
const (
	Sites    Channel = "tallygate_site"
	Sitekeys Channel = "tallygate_sitekey"
)
