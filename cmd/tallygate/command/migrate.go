package command

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tallygate/tallygate/cmd/tallygate/config"
	"github.com/tallygate/tallygate/cmd/tallygate/database"
	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/migrations"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/retention"
)

type migrateCommand struct {
	Plan  bool `long:"plan" description:"Print the pending migrations with their SQL, and change nothing."`
	Check bool `long:"check"`
}

// check fails for two reports at once.
func (c *migrateCommand) check(*session) error {
	if c.Plan && c.Check {
		return errors.New("--plan and --check can't be used together")
	}
	return nil
}

// Run migrates the database, or reports what that would do.
func (c *migrateCommand) Run(ctx context.Context, s *session) error {
	if c.Plan || c.Check {
		return c.report(ctx, s.terminal, s.settings)
	}

	s.settings.NoMigrate = false
	d, hold, err := database.Open(ctx, s.settings, s.settings.Logger(s.log))
	if err != nil {
		return err
	}
	defer hold.Release()

	if err := retention.New(d).EnsurePartitions(ctx, model.At(time.Now())); err != nil {
		return errors.Join(fmt.Errorf("create partitions: %w", err), d.Close())
	}

	fmt.Fprintln(s.out, "The schema is up to date.")
	return d.Close()
}

// report prints the plan, or the result of the check.
func (c *migrateCommand) report(ctx context.Context, term terminal, settings *config.Config) (err error) {
	d, err := database.OpenToRead(settings)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.Close()) }()

	schema, err := migrations.ReadSchemaOrEmpty(ctx, d)
	if err != nil {
		return fmt.Errorf("read the schema's state: %w", database.Damaged(err))
	}
	if c.Check {
		return printCheck(term, schema)
	}

	return printPlan(term, d, schema)
}

// printCheck prints a line for each property of the schema. It returns an error for a schema that
// this program cannot serve.
func printCheck(term terminal, schema migrations.Schema) error {
	oldest := schema.OldestProgram
	if oldest == "" {
		oldest = "any"
	}

	fmt.Fprintf(term.out, "newest migration of this program: %s\n", schema.Newest)
	fmt.Fprintf(term.out, "oldest program that the schema permits: %s\n", oldest)
	fmt.Fprintf(term.out, "pending migrations: %d\n", len(schema.Pending))
	fmt.Fprintf(term.out, "migrations of a newer program: %d\n", len(schema.Unknown))

	switch {
	case schema.TooNew():
		return migrations.ErrProgramTooOld
	case len(schema.Pending) > 0:
		return fmt.Errorf("%d migrations are pending", len(schema.Pending))
	}

	return nil
}

// printPlan prints the pending migrations.
func printPlan(term terminal, d *db.DB, schema migrations.Schema) error {
	if schema.TooNew() {
		return migrations.ErrProgramTooOld
	}

	for _, name := range schema.Pending {
		migration, err := migrations.Read(d, name)
		if err != nil {
			return err
		}

		how := "in one transaction"
		if migration.Outside {
			how = "statement by statement, while the tables are in use"
		}
		fmt.Fprintf(term.out, "-- %s, %s\n%s\n", name, how, migration.SQL)
	}

	fmt.Fprintf(term.out, "-- %d pending migrations\n", len(schema.Pending))
	return nil
}
