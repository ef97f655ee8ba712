package command

import (
	"context"
	"fmt"

	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/reports"
)

// checkReportsCommand compares stored reports with the rows that they were counted from.
type checkReportsCommand struct {
	Args struct {
		Site siteName `positional-arg-name:"<site>" description:"The domain or the key of one site. Default: all sites."`
	} `positional-args:"yes"`
}

// Run counts each day by SQL and compares. It fails if a figure differs.
func (c *checkReportsCommand) Run(ctx context.Context, s *session) error {
	d, err := s.open(ctx)
	if err != nil {
		return err
	}

	check := &reportsCheck{store: reports.New(d), term: s.terminal}
	if c.Args.Site == "" {
		if err := check.sites(ctx); err != nil {
			return err
		}
		return check.summary()
	}

	site, err := c.Args.Site.site(ctx, d)
	if err != nil {
		return err
	}
	if err := check.site(ctx, site.ID); err != nil {
		return err
	}
	return check.summary()
}

// reportsCheck adds up what was checked.
type reportsCheck struct {
	store       *reports.Store
	term        terminal
	total       reports.Checked
	differences int
}

// sites checks the days of all sites.
func (c *reportsCheck) sites(ctx context.Context) error {
	ids, err := c.store.SitesToCheck(ctx)
	if err != nil {
		return err
	}
	for _, id := range ids {
		if err := c.site(ctx, id); err != nil {
			return err
		}
	}
	return nil
}

// site checks the days of one site.
func (c *reportsCheck) site(ctx context.Context, id model.SiteID) error {
	checked, err := c.store.Check(ctx, id, func(d reports.Difference) {
		c.differences++
		fmt.Fprintf(c.term.out, "site %d, %v, %s: %d in the report, %d in the rows\n",
			d.SiteID, d.Day, d.Figure, d.Segment, d.Rows)
	})
	c.total.Days += checked.Days
	c.total.Skipped += checked.Skipped
	return err
}

// summary prints the result. It is an error if a figure differs.
func (c *reportsCheck) summary() error {
	fmt.Fprintf(c.term.out, "Checked %d days. Skipped %d that still change or whose rows may be deleted.\n",
		c.total.Days, c.total.Skipped)
	if c.differences > 0 {
		return fmt.Errorf("%d figures differ", c.differences)
	}
	return nil
}
