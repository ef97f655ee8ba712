// Package background runs the roles other than data in a child process of low priority, so that
// reports, imports and builds can neither slow nor stop the hits. Process is the parent's side of
// it, and Parent the child's side.
//
// The two meet in the database. They share two pipes: the child reads settings and orders from its
// standard input, and writes reports to an inherited file. The child reads the end of its input
// when the parent has ended, however that happened, and ends too.
package background

import (
	"github.com/tallygate/tallygate/cmd/tallygate/config"
)

// Command is the name of the command that the child runs.
const Command = "background"

// opening is the first message to the child. The messages are gob's, which keeps texts that are not
// UTF-8, such as a path.
type opening struct {
	Settings *config.Config
	Reports  uintptr // descriptor, or on Windows handle, of the file for reports
}

// order is a message to the child.
type order struct {
	Stop   bool // drain and end; the second one ends the wait for load balancers
	Scrape bool // report the metrics
}

// report is a message from the child.
type report struct {
	Addresses map[string]string // of the listeners by role, once the child serves
	Failure   string            // why the child ends
	Refused   bool              // the failure is a db.Refusal
	Metrics   []byte            // in Prometheus's text format
	Changed   bool              // changes for the parent are in the database
}
