package command

import (
	"context"
	"fmt"
	"text/tabwriter"
	"time"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/celllist"
	"github.com/tallygate/tallygate/db/cells"
	"github.com/tallygate/tallygate/db/model"
)

type cellsCommand struct {
	List  listCellsCommand `cmd:"" default:"withargs"`
	Add   addCellCommand   `cmd:""`
	Open  openCellCommand  `cmd:""`
	Close closeCellCommand `cmd:""`
}

type listCellsCommand struct {
}

// Run prints the cells.
func (c *listCellsCommand) Run(ctx context.Context, term terminal, d *db.DB) error {
	list, err := cells.New(d).List(ctx)
	if err != nil {
		return err
	}

	table := tabwriter.NewWriter(term.out, 0, 0, 2, ' ', 0)
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
func (c *addCellCommand) Run(ctx context.Context, term terminal, d *db.DB) error {
	cell, err := cells.New(d).Add(ctx, model.At(time.Now()))
	if err != nil {
		return err
	}
	fmt.Fprintf(term.out, "Cell %d is created in the schema %s. It takes new sites in %v.\n", cell.ID, cell.Schema,
		celllist.Delay)
	return nil
}

type openCellCommand struct {
	Cell int64 `arg:"" help:"Number of the cell."`
}

// Run opens a cell.
func (c *openCellCommand) Run(ctx context.Context, term terminal, d *db.DB) error {
	if err := cells.New(d).SetOpen(ctx, c.Cell, true); err != nil {
		return err
	}
	fmt.Fprintf(term.out, "Cell %d takes new sites.\n", c.Cell)
	return nil
}

type closeCellCommand struct {
	Cell int64 `arg:"" help:"Number of the cell."`
}

// Run closes a cell.
func (c *closeCellCommand) Run(ctx context.Context, term terminal, d *db.DB) error {
	if err := cells.New(d).SetOpen(ctx, c.Cell, false); err != nil {
		return err
	}
	fmt.Fprintf(term.out, "Cell %d takes no new sites.\n", c.Cell)
	return nil
}

type moveSiteCommand struct {
	SiteKey siteKey `arg:"" help:"Site key of the site."`
	To      int64   `required:"" placeholder:"CELL" help:"Number of the cell to move it to."`
}

// Run moves a site.
func (c *moveSiteCommand) Run(ctx context.Context, term terminal, d *db.DB, site *model.SiteRules) error {
	return runMove(term, site.Domain, site.Cell, c.To, func() error { return cells.New(d).Move(ctx, site.ID, c.To) })
}

// runMove moves a site or an account, and prints how long it took.
func runMove(term terminal, name string, from, to int64, move func() error) error {
	began := time.Now()
	if err := move(); err != nil {
		return fmt.Errorf("%w; the worker continues a move that has begun", err)
	}

	fmt.Fprintf(term.out, "%s is in cell %d after %v. The worker deletes its rows in cell %d in a minute.\n",
		name, to, time.Since(began).Round(time.Millisecond), from)
	return nil
}

type moveAccountCommand struct {
	Email accountOf `arg:"" help:"E-mail address of a user whose default account it is."`
	To    int64     `required:"" placeholder:"CELL" help:"Number of the cell to move its captcha to."`
}

// Run moves the captcha of an account.
func (c *moveAccountCommand) Run(ctx context.Context, term terminal, d *db.DB, account *model.Account) error {
	move := func() error { return cells.New(d).MoveAccount(ctx, account.ID, c.To) }
	return runMove(term, "The captcha of "+account.Name, account.Cell, c.To, move)
}

type setSlotsCommand struct {
	SiteKey siteKey `arg:"" help:"Site key of the site."`
	Slots   int     `arg:""`
}

// Run changes the number of slots of a site.
func (c *setSlotsCommand) Run(ctx context.Context, term terminal, d *db.DB, site *model.SiteRules) error {
	if err := cells.New(d).SetSlots(ctx, site.ID, c.Slots); err != nil {
		return err
	}
	fmt.Fprintf(term.out, "The usage of %s is divided into %d slots (before: %d).\n", site.Domain, c.Slots, site.UsageSlots)
	return nil
}
