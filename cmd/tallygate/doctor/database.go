package doctor

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/tallygate/tallygate/cmd/tallygate/config"
	"github.com/tallygate/tallygate/cmd/tallygate/database"
	"github.com/tallygate/tallygate/cmd/tallygate/secret"
	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/accounts"
	"github.com/tallygate/tallygate/db/celllist"
	"github.com/tallygate/tallygate/db/files"
	"github.com/tallygate/tallygate/db/health"
	"github.com/tallygate/tallygate/db/keys"
	"github.com/tallygate/tallygate/db/migrations"
	"github.com/tallygate/tallygate/db/model"
)

// checkDatabase opens the database as a start does, but migrates nothing.
func (e *examination) checkDatabase(ctx context.Context) bool {
	lost, release, isNew := e.openFolder()
	defer release()
	if lost || isNew {
		return false
	}

	d, err := db.OpenWith(e.c.Database(), e.c.DatabaseOptions())
	if err == nil {
		defer d.Close()
		err = within(ctx, d.Ping)
	}
	if err != nil {
		e.reportUnreachable(err)
		return false
	}

	if d.IsPostgres() {
		limited, cancel := context.WithTimeout(ctx, areaTimeout)
		defer cancel()
		if !e.checkServer(limited, d) {
			return true
		}
	}

	// Reading a whole database can take minutes and comes last. What was found before does not
	// count in a damaged one.
	before := e.report.Findings
	e.report.Findings = nil
	isCurrent := e.checkContents(ctx, d)
	contents := e.report.Findings
	e.report.Findings = before
	if e.checkIntegrity(ctx, d) {
		e.report.Findings = append(e.report.Findings, contents...)
		if isCurrent {
			e.checkWrite(ctx, d) // a damaged file is kept as it is
		}
	}

	return true
}

// within runs a check for at most areaTimeout.
func within(ctx context.Context, check func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, areaTimeout)
	defer cancel()
	return check(ctx)
}

// checkWrite reports a database that accepts no writes.
func (e *examination) checkWrite(ctx context.Context, d *db.DB) {
	// The time of the area may be over.
	if err := within(context.WithoutCancel(ctx), files.New(d).ProbeWrite); err != nil {
		e.fault("database-write", "Free space on the database's disk, or name the primary server in TALLYGATE_DATABASE_URL.",
			"nothing can be written to the database: %v", cause(err))
	}
}

// checkContents runs the checks that read few rows, and reports whether the database has the
// program's tables.
func (e *examination) checkContents(ctx context.Context, d *db.DB) bool {
	limited, cancel := context.WithTimeout(ctx, areaTimeout)
	defer cancel()
	if !e.checkSchema(limited, d) {
		return false
	}

	for _, check := range []func(context.Context, *db.DB) error{e.checkCells, e.checkKeys, e.checkState, e.checkAccounts} {
		err := within(ctx, func(ctx context.Context) error { return check(ctx, d) })
		if err != nil && !errors.Is(err, celllist.ErrDenied) { // checkCells reports that
			e.fault("database-read", "See the message, and the log of the database.", "the database cannot be read: %v", cause(err))
		}
	}
	return true
}

// openFolder examines the files of an embedded database. lost is true if it must not be opened;
// isNew if there is none yet.
func (e *examination) openFolder() (lost bool, release func(), isNew bool) {
	path, isFile := db.SQLiteFile(e.c.Database())
	if !e.c.UsesDataFolder() {
		return false, func() {}, false
	}

	folder, release, err := database.Examine(e.c)
	if err != nil && !errors.Is(err, fs.ErrPermission) { // checkFolder reports missing rights
		e.fault("folder-access", "Give the service's user rights on the folder.", "the data folder: %v", err)
	}

	switch folder.LogLost {
	case "":
	case database.LogAbsent:
		e.warn("log-absent", "See docs/operator/operations.md, \"After a kill\".", "%s", folder.LogLost)
	default:
		e.fault("log-lost", "Put the right tallygate.sqlite-wal back before anything starts; see docs/operator/operations.md, \"After a kill\".",
			"%s", folder.LogLost)
		lost = true
	}

	if folder.Empty != nil {
		e.fault("database-empty", "See docs/operator/backup.md, and docs/operator/move.md if the database moved.", "%v", folder.Empty)
		lost = true
	}

	if isFile {
		_, err := os.Stat(path)
		isNew = err != nil
	}

	return lost, release, isNew
}

// reportUnreachable reports a database that cannot be opened.
func (e *examination) reportUnreachable(err error) {
	if _, isFile := db.SQLiteFile(e.c.Database()); !isFile {
		e.fault("database-unreachable", "Start the database, or correct TALLYGATE_DATABASE_URL, its password and the server's pg_hba.conf.",
			"the database does not answer: %v", cause(err))
		return
	}
	if db.IsDamaged(err) {
		e.fault("database-damaged", restoreBackup, "the database file is damaged: %v", cause(err))
		return
	}

	e.fault("database-unreachable", "Restore a backup if the file is damaged, or give the service's user rights on it; see docs/operator/backup.md.",
		"the database file cannot be opened: %v", cause(err))
}

// cause returns the innermost text of an error, in one line. The outer ones repeat the operation,
// user, host and database.
func cause(err error) string {
	if joined, ok := err.(interface{ Unwrap() []error }); ok && len(joined.Unwrap()) > 0 {
		return cause(joined.Unwrap()[0])
	}
	if inner := errors.Unwrap(err); inner != nil {
		return cause(inner)
	}
	return strings.ReplaceAll(err.Error(), "\n", " ")
}

// checkSchema compares the schema with this program. It returns whether the program can use it.
func (e *examination) checkSchema(ctx context.Context, d *db.DB) bool {
	schema, err := migrations.ReadSchemaOrEmpty(ctx, d)
	if err == nil && len(schema.Applied) > 0 {
		err = migrations.CheckComplete(ctx, d)
	}

	switch {
	case isForeign(err):
		e.fault("database-foreign", "Name a database of its own in TALLYGATE_DATABASE_URL, or another folder in TALLYGATE_DATA_DIR.", "%v", err)
	case isIncomplete(err):
		e.fault("schema-incomplete", "Restore the backup again into an empty database, see docs/operator/backup.md.", "%v", err)
	case errors.Is(err, migrations.ErrEarlierBuild):
		e.fault("schema-earlier-build", "Name an empty database in TALLYGATE_DATABASE_URL, or another folder in TALLYGATE_DATA_DIR.", "%v", err)
	case errors.Is(err, migrations.ErrUnfinishedCopy):
		e.fault("copy-unfinished", "Empty the database and run tallygate admin copy again, see docs/operator/move.md.", "a copy into this database did not end")
	case errors.Is(err, migrations.ErrCopied):
		e.fault("database-copied", "See docs/operator/move.md.", "%v", err)
	case errors.Is(err, context.DeadlineExceeded):
		e.fault("database-read", "Run doctor again when the machine has less to do.", "the database did not answer within %v", areaTimeout)
	case err != nil:
		e.fault("schema", "Name the database of this program in TALLYGATE_DATABASE_URL.",
			"the schema's state cannot be read: %v", cause(err))
	case schema.TooNew():
		e.fault("schema-too-new", "Install the program that migrated the database, or a newer one.",
			"this program is too old for the database: it needs one that knows %s", schema.OldestProgram)
	case len(schema.Pending) > 0 && e.c.NoMigrate:
		e.fault("schema-pending", "Run tallygate migrate with a role that may create tables.",
			"%d migrations are pending, and TALLYGATE_NO_MIGRATE keeps this program from applying them", len(schema.Pending))
	case len(schema.Pending) > 0 && e.mayNotChange:
		e.fault("schema-pending", "Run tallygate migrate with a role that may create tables.",
			"%d migrations are pending, and the role may not change tables", len(schema.Pending))
	case len(schema.Pending) > 0:
		// An installation's first start, or an upgrade: the next start migrates.
	}

	return err == nil && !schema.TooNew() && len(schema.Pending) == 0
}

// previousKeyNeeded is how long sessions need a previous application key.
const previousKeyNeeded = 90 * 24 * time.Hour

// checkKeys compares the application key with the database's.
func (e *examination) checkKeys(ctx context.Context, d *db.DB) error {
	const action = "See docs/operator/incidents.md, \"Change the application key\"."

	k, err := secret.Existing(e.c)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		e.fault("key-unreadable", "Give the service's user the right to read it, or restore the file.", "%v", err)
		return nil
	}

	state, stateErr := keys.New(d).ApplicationKeyState(ctx)
	if stateErr != nil || state.Current == "" {
		return stateErr // no process has started yet
	}

	if err != nil {
		e.fault("key-missing", "Restore the file "+secret.File+" in the data folder, or set TALLYGATE_SECRET to the key that was used before.",
			"the database was used with an application key, and this configuration has none")
		return nil
	}

	if err := k.Match(state); err != nil {
		e.fault("key-mismatch", action, "%v", err)
		return nil
	}

	switch {
	case k.Previous == nil:
	case k.Rotation.SignsWithPrevious():
		e.warn("key-rotation-open", "When every process has both keys, run: tallygate admin rotate-secret",
			"a new application key is configured, and the database still uses the previous one")
	case e.Now().Sub(state.RotatedAt.Time()) > previousKeyNeeded:
		e.warn("key-previous-old", "Remove TALLYGATE_SECRET_PREVIOUS or the file "+secret.PreviousFile+".",
			"the previous application key is still accepted, and nothing needs it any more")
	}

	return nil
}

// checkState reports what the database shows of the work of all processes.
func (e *examination) checkState(ctx context.Context, d *db.DB) error {
	state, err := health.Read(ctx, d, "", e.Now)
	if err != nil {
		return err
	}
	found, err := state.Findings(ctx, false)
	if err != nil {
		return err
	}

	// Other settings may have named further hosts in the last day.
	hosts := e.c.TLSHosts()
	for _, f := range found {
		isOwn := func(host string) bool { return slices.Contains(strings.Fields(f.Problem), host) }
		if f.Check != "tls-certificate" || e.c.UsesTLS() && slices.ContainsFunc(hosts, isOwn) {
			e.report.Findings = append(e.report.Findings, f)
		}
	}
	return nil
}

// checkAccounts reports an installation that the first visitor can take over.
func (e *examination) checkAccounts(ctx context.Context, d *db.DB) error {
	isPublic := e.c.BaseURL != "" && e.c.BaseURL.IsPublic() || !config.IsLoopback(config.HostOf(string(e.c.ControlAddr)))
	if !e.c.Has(config.RoleControl) || e.c.Signups == model.SignupsClosed || !isPublic {
		return nil
	}

	hasUsers, err := accounts.New(d).HasUsers(ctx)
	if err == nil && !hasUsers {
		e.warn("account-missing", "Create it now: tallygate admin create-account EMAIL --name NAME",
			"there is no account yet: the first visitor who signs up becomes the operator")
	}

	return err
}
