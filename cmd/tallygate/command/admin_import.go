package command

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/tallygate/tallygate/cmd/tallygate/importer"
	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/reports"
	"github.com/tallygate/tallygate/db/sites"
)

type importCommand struct {
	Files  []string           `arg:"" name:"file"`
	Site   siteKey            `required:"" placeholder:"KEY" help:"The site's key, 32 hexadecimal characters."`
	From   model.ImportSource `required:"" enum:"plausible,umami,goatcounter,ga4"`
	Since  *day               `placeholder:"DAY"`
	Until  *day               `placeholder:"DAY" help:"The last day to import. Default: the last one of the export."`
	DryRun bool               `help:"Read and check the export, and print what would be imported."`
}

// Run reads the whole export before it stores anything.
func (c *importCommand) Run(ctx context.Context, term terminal, d *db.DB, site *model.SiteRules) error {
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

	read, err := importer.Read(c.From, c.Files, options)
	if err != nil {
		return err
	}
	printImport(term, read, options)
	if err := store.CheckImport(ctx, site.ID, &read.Import); err != nil {
		return err
	}
	if c.DryRun {
		fmt.Fprintln(term.out, "Nothing was changed.")
		return nil
	}

	percent := 0
	stored, err := store.Import(ctx, site.ID, &read.Import, now, sites.RecordImport, func(done float64) {
		if next := int(done*10) * 10; next > percent {
			percent = next
			fmt.Fprintf(term.out, "%d %%\n", percent)
		}
	})
	if err != nil {
		return err
	}

	fmt.Fprintf(term.out, "Import %d is complete. To undo it: tallygate admin undo-import --site %s %d\n",
		stored.ID, c.Site, stored.ID)
	return nil
}

// printImport prints the result of reading an export.
func printImport(term terminal, read *importer.Result, o importer.Options) {
	for _, file := range read.Files {
		if file.Unused != "" {
			fmt.Fprintf(term.out, "%s: not imported, %s\n", file.Name, file.Unused)
			continue
		}
		fmt.Fprintf(term.out, "%s: %d rows\n", file.Name, file.Rows)
	}
	for _, note := range read.Notes {
		fmt.Fprintln(term.out, note)
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
	Site siteKey `required:"" placeholder:"KEY" help:"The site's key, 32 hexadecimal characters."`
}

// Run lists the imports of a site.
func (c *importsCommand) Run(ctx context.Context, term terminal, d *db.DB, site *model.SiteRules) error {
	list, err := reports.New(d).Imports(ctx, site.ID)
	if err != nil {
		return err
	}

	states := map[model.ImportState]string{
		model.ImportLoading: "not complete", model.ImportComplete: "complete", model.ImportDeleting: "being deleted",
	}
	for i := range list {
		m := &list[i]
		fmt.Fprintf(term.out, "%d: %s, %v to %v, %d visitors, %d visits, %d page views, %d events, %s\n", m.ID, m.Source,
			m.FirstDay, m.LastDay, m.Visitors, m.Visits, m.Pageviews, m.Events, states[m.State])
	}
	if len(list) == 0 {
		fmt.Fprintln(term.out, "The site has no imports.")
	}
	return nil
}

type undoImportCommand struct {
	Site siteKey `required:"" placeholder:"KEY" help:"The site's key, 32 hexadecimal characters."`
	ID   int64   `arg:"" help:"The import's number, see \"admin imports\"."`
}

// Run deletes an import.
func (c *undoImportCommand) Run(ctx context.Context, term terminal, d *db.DB, site *model.SiteRules) error {
	if err := reports.New(d).UndoImport(ctx, site.ID, c.ID, sites.RecordImport); err != nil {
		return err
	}
	fmt.Fprintf(term.out, "Import %d is undone.\n", c.ID)
	return nil
}
