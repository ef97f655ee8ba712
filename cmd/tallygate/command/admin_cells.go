package command

import (
	"context"
	"fmt"
	"text/tabwriter"
	"time"

	"github.com/tallygate/tallygate/db/celllist"
	"github.com/tallygate/tallygate/db/cells"
	"github.com/tallygate/tallygate/db/model"
)

type listCellsCommand struct {
}

// Run prints the cells.
func (c *listCellsCommand) Run(ctx context.Context, s *session) error {
	d, err := s.open(ctx)
	if err != nil {
		return err
	}

	list, err := cells.New(d).List(ctx)
	if err != nil {
		return err
	}

	table := tabwriter.NewWriter(s.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "CELL\tSCHEMA\tNODE\tNEW SITES\tSITES\tACCOUNTS\tMB")
	for _, cell := range list {
		schema, node, open := cell.Schema, cell.Node, "no"
		if schema == "" {
			schema = "(common)"
		}
		if node == "" {
			node = "(this server)"
		}
		if cell.Open {
			open = "yes"
		}
		fmt.Fprintf(table, "%d\t%s\t%s\t%s\t%d\t%d\t%.1f\n", cell.ID, schema, node, open, cell.Sites,
			cell.Accounts, float64(cell.Bytes)/(1<<20))
	}
	return table.Flush()
}

type addCellCommand struct {
}

// Run creates a cell.
func (c *addCellCommand) Run(ctx context.Context, s *session) error {
	d, err := s.open(ctx)
	if err != nil {
		return err
	}

	cell, err := cells.New(d).Add(ctx, model.At(time.Now()))
	if err != nil {
		return err
	}
	fmt.Fprintf(s.out, "Cell %d is created in the schema %s. It takes new sites in %v.\n", cell.ID, cell.Schema,
		celllist.Delay)
	return nil
}

type setCellCommand struct {
	Args struct {
		Cell int64 `positional-arg-name:"<cell>" description:"Number of the cell."`
	} `positional-args:"yes" required:"yes"`

	open bool
}

// Run opens or closes a cell.
func (c *setCellCommand) Run(ctx context.Context, s *session) error {
	d, err := s.open(ctx)
	if err != nil {
		return err
	}
	if err := cells.New(d).SetOpen(ctx, c.Args.Cell, c.open); err != nil {
		return err
	}

	takes := "no new sites"
	if c.open {
		takes = "new sites"
	}
	fmt.Fprintf(s.out, "Cell %d takes %s.\n", c.Args.Cell, takes)
	return nil
}

type moveSiteCommand struct {
	Args struct {
		Site siteName `positional-arg-name:"<site>" description:"The site's domain or key."`
	} `positional-args:"yes" required:"yes"`
	To int64 `long:"to" required:"true" value-name:"CELL" description:"Number of the cell to move it to."`
}

// Run moves a site.
func (c *moveSiteCommand) Run(ctx context.Context, s *session) error {
	d, site, err := s.site(ctx, c.Args.Site)
	if err != nil {
		return err
	}

	began := time.Now()
	err = cells.New(d).Move(ctx, site.ID, c.To)
	return reportMove(s.terminal, err, site.Domain, site.Cell, c.To, began)
}

// reportMove prints how long the move of a site or an account took, or returns why it failed.
func reportMove(term terminal, err error, name string, from, to int64, began time.Time) error {
	if err != nil {
		return fmt.Errorf("%w; the worker continues a move that has begun", err)
	}

	fmt.Fprintf(term.out, "%s is in cell %d after %v. The worker deletes its rows in cell %d in a minute.\n",
		name, to, time.Since(began).Round(time.Millisecond), from)
	return nil
}

type moveAccountCommand struct {
	Args struct {
		Email accountOf `positional-arg-name:"<email>" description:"E-mail address of a user whose default account it is."`
	} `positional-args:"yes" required:"yes"`
	To int64 `long:"to" required:"true" value-name:"CELL" description:"Number of the cell to move its captcha to."`
}

// Run moves the captcha of an account.
func (c *moveAccountCommand) Run(ctx context.Context, s *session) error {
	d, account, err := s.account(ctx, c.Args.Email)
	if err != nil {
		return err
	}

	began := time.Now()
	err = cells.New(d).MoveAccount(ctx, account.ID, c.To)
	return reportMove(s.terminal, err, "The captcha of "+account.Name, account.Cell, c.To, began)
}
