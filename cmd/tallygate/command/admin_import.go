package command

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/tallygate/tallygate/cmd/tallygate/importer"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/reports"
	"github.com/tallygate/tallygate/db/sites"
)

type importCommand struct {
	Args struct {
		Files []string `positional-arg-name:"<file>" required:"1"`
	} `positional-args:"yes" required:"yes"`
	Site   siteName           `long:"site" required:"true" value-name:"SITE" description:"The site's domain or key."`
	From   model.ImportSource `long:"from" required:"true" value-name:"SERVICE" choice:"plausible" choice:"umami" choice:"goatcounter-api" choice:"ga4" choice:"matomo"`
	Token  existingFile       `long:"token-file" value-name:"FILE"`
	Since  *day               `long:"since" value-name:"DAY"`
	Until  *day               `long:"until" value-name:"DAY" description:"The last day to import. Default: the last one of the export."`
	DryRun bool               `long:"dry-run" description:"Read and check the export, and print what would be imported."`
}

// Run reads the whole export before it stores anything.
func (c *importCommand) Run(ctx context.Context, s *session) error {
	d, site, err := s.site(ctx, c.Site)
	if err != nil {
		return err
	}

	zone, err := site.Zone()
	if err != nil {
		return err
	}
	now, err := d.Now(ctx)
	if err != nil {
		return err
	}

	store := reports.New(d)
	options := importer.Options{
		Since: math.MinInt32, Until: math.MaxInt32, Domains: append(slices.Clone(site.ExtraDomains), site.Domain),
	}
	if c.Since != nil {
		options.Since = model.Day(*c.Since)
	}
	if c.Until != nil {
		options.Until = model.Day(*c.Until)
	}
	options.BeforeLocal, options.BeforeUTC, err = store.ImportBefore(ctx, site.ID, zone, now)
	if err != nil {
		return err
	}

	read, err := c.read(ctx, zone, options)
	if err != nil {
		return withFlags(err)
	}
	printImport(s.terminal, read, options)
	if err := store.CheckImport(ctx, site.ID, &read.Import); err != nil {
		return withFlags(err)
	}
	if c.DryRun {
		fmt.Fprintln(s.out, "Nothing was changed.")
		return nil
	}

	percent := 0
	stored, err := store.Import(ctx, site.ID, &read.Import, now, sites.RecordImport, func(done float64) {
		if next := int(done*10) * 10; next > percent {
			percent = next
			fmt.Fprintf(s.out, "%d %%\n", percent)
		}
	})
	if err != nil {
		return err
	}

	fmt.Fprintf(s.out, "Import %d is complete. To undo it: tallygate admin undo-import --site %s %d\n",
		stored.ID, c.Site, stored.ID)
	return nil
}

// withFlags adds to an error about days how the command chooses days.
func withFlags(err error) error {
	failure, ok := errors.AsType[*model.ImportFailure](err)
	if !ok || !slices.Contains([]string{model.ImportTooLarge, model.ImportAlready, model.ImportNothing}, failure.Code) {
		return err
	}
	return fmt.Errorf("%w (--since and --until choose the days)", err)
}

// read reads the export, or the sums that the API of a service has.
func (c *importCommand) read(ctx context.Context, zone *time.Location, o importer.Options) (*importer.Result, error) {
	if c.From != model.ImportGoatCounterSums {
		return importer.Read(c.From, c.Args.Files, o)
	}
	if len(c.Args.Files) != 1 || c.Token == "" {
		return nil, errors.New("goatcounter-api takes the address of one GoatCounter site, and a token by --token-file")
	}

	token, err := os.ReadFile(string(c.Token))
	if err != nil {
		return nil, err
	}
	return importer.FetchGoatCounter(ctx, c.Args.Files[0], strings.TrimSpace(string(token)), zone, o)
}

// printImport prints the result of reading an export.
func printImport(term terminal, read *importer.Result, o importer.Options) {
	for _, file := range read.Files {
		if file.Unused != "" {
			fmt.Fprintf(term.out, "%s: not imported, %s\n", file.Name, file.Unused.Text())
			continue
		}
		fmt.Fprintf(term.out, "%s: %d rows\n", file.Name, file.Rows)
	}
	for _, note := range read.Notes {
		fmt.Fprintln(term.out, note.Text())
	}
	if read.Late > 0 {
		fmt.Fprintf(term.out, "%d rows of days from %v on are not imported: the site counts them itself\n",
			read.Late, o.BeforeLocal)
	}
	if read.Other > 0 {
		fmt.Fprintf(term.out, "%d rows of other days are not imported\n", read.Other)
	}

	fmt.Fprintf(term.out, "%v to %v, %d days: %d visitors, %d visits, %d page views, %d events\n", read.First, read.Last,
		read.Days, read.Totals.Visitors, read.Totals.Visits, read.Totals.Pageviews, read.Totals.Events)
}

type importsCommand struct {
	Site siteName `long:"site" required:"true" value-name:"SITE" description:"The site's domain or key."`
}

// Run lists the imports of a site.
func (c *importsCommand) Run(ctx context.Context, s *session) error {
	d, site, err := s.site(ctx, c.Site)
	if err != nil {
		return err
	}

	list, err := reports.New(d).Imports(ctx, site.ID)
	if err != nil {
		return err
	}

	states := map[model.ImportState]string{
		model.ImportLoading: "not complete", model.ImportComplete: "complete", model.ImportDeleting: "being deleted",
	}
	for i := range list {
		m := &list[i]
		fmt.Fprintf(s.out, "%d: %s, %v to %v, %d visitors, %d visits, %d page views, %d events, %s\n", m.ID, m.Source,
			m.FirstDay, m.LastDay, m.Visitors, m.Visits, m.Pageviews, m.Events, states[m.State])
	}
	if len(list) == 0 {
		fmt.Fprintln(s.out, "The site has no imports.")
	}
	return nil
}

type undoImportCommand struct {
	Args struct {
		ID model.ImportID `positional-arg-name:"<id>" description:"The import's number, see \"admin imports\"."`
	} `positional-args:"yes" required:"yes"`
	Site siteName `long:"site" required:"true" value-name:"SITE" description:"The site's domain or key."`
}

// Run deletes an import.
func (c *undoImportCommand) Run(ctx context.Context, s *session) error {
	d, site, err := s.site(ctx, c.Site)
	if err != nil {
		return err
	}

	if err := reports.New(d).UndoImport(ctx, site.ID, c.Args.ID, sites.RecordImport); err != nil {
		return err
	}
	fmt.Fprintf(s.out, "Import %d is undone.\n", c.Args.ID)
	return nil
}
