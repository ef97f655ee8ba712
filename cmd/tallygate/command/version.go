package command

import (
	"context"
	"fmt"
	"runtime"
	"text/tabwriter"

	"github.com/tallygate/tallygate/cmd/tallygate/version"
	"github.com/tallygate/tallygate/db/inspect"
)

type versionCommand struct {
	JSON bool `long:"json" description:"Print JSON."`
}

// Run prints the versions of the program and of its database engines. It connects to nothing.
func (c *versionCommand) Run(_ context.Context, s *session) error {
	b := version.Read()
	shown := struct {
		Version  string `json:"version"`
		Commit   string `json:"commit"`
		Go       string `json:"go"`
		Platform string `json:"platform"`
		SQLite   string `json:"sqlite"`
		Postgres string `json:"postgres"`
	}{
		b.Version, b.Commit, b.Go, runtime.GOOS + "/" + runtime.GOARCH,
		inspect.SQLiteVersion, fmt.Sprintf("%d or newer", inspect.OldestPostgres),
	}
	if c.JSON {
		return writeJSON(s.out, shown)
	}

	table := tabwriter.NewWriter(s.out, 0, 0, 2, ' ', 0)
	for _, line := range [][2]string{
		{"version", shown.Version}, {"commit", shown.Commit}, {"Go", shown.Go + " " + shown.Platform},
		{"SQLite", shown.SQLite}, {"PostgreSQL", shown.Postgres},
	} {
		fmt.Fprintf(table, "%s:\t%s\n", line[0], line[1])
	}

	return table.Flush()
}
