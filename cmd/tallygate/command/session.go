package command

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"

	"github.com/tallygate/tallygate/cmd/commandline"
	"github.com/tallygate/tallygate/cmd/tallygate/config"
	"github.com/tallygate/tallygate/cmd/tallygate/database"
	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/model"
)

// terminal is the output of a command: results on out, log lines on log.
type terminal struct {
	out, log io.Writer
}

// runner is a command, after its flags and arguments were parsed.
type runner interface {
	Run(ctx context.Context, s *session) error
}

// checker is a command that checks or completes its settings before it runs. An error is one of the
// command line.
type checker interface {
	check(s *session) error
}

// session is what a command runs with: the output, the settings, and the database, which is opened
// when the command needs it.
type session struct {
	terminal
	settings *config.Config
	parser   *commandline.Parser

	db   *db.DB // nil until opened
	hold *database.Hold
}

// open opens and migrates the database, which must exist.
func (s *session) open(ctx context.Context) (*db.DB, error) {
	if err := database.CheckExists(ctx, s.settings); err != nil {
		return nil, err
	}
	return s.openOrCreate(ctx)
}

// openOrCreate opens and migrates the database, and creates an embedded one that is missing.
func (s *session) openOrCreate(ctx context.Context) (*db.DB, error) {
	var err error
	s.db, s.hold, err = database.Open(ctx, s.settings, s.settings.Logger(s.log))
	return s.db, err
}

// account opens the database and returns a user's default account.
func (s *session) account(ctx context.Context, user accountOf) (*db.DB, *model.Account, error) {
	d, err := s.open(ctx)
	if err != nil {
		return nil, nil, err
	}

	account, err := accountByEmail(ctx, d, string(user))
	return d, account, err
}

// site opens the database and returns the site with a domain or a key.
func (s *session) site(ctx context.Context, name siteName) (*db.DB, *model.SiteRules, error) {
	d, err := s.open(ctx)
	if err != nil {
		return nil, nil, err
	}

	site, err := name.site(ctx, d)
	return d, site, err
}

// close closes the database after a command that ended with err. Domain errors are reduced to the
// messages for people, one on each line.
func (s *session) close(err error) error {
	if s.db == nil {
		return readable(err)
	}
	defer s.hold.Release()

	return readable(errors.Join(err, s.db.Close()))
}

// name returns the name of the command, such as "admin set-plan", without a word for one of its
// parts.
func (s *session) name() string {
	words := strings.Fields(s.parser.Path())
	return strings.Join(words[:min(len(words), 2)], " ")
}

// serves reports whether the command is or prepares the service. Such a command may write JSON log
// lines, and refuses unknown variables.
func (s *session) serves() bool {
	return slices.Contains([]string{"", "serve", "demo", "migrate"}, s.name())
}
