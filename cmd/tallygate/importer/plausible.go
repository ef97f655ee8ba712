package importer

import (
	"regexp"
	"strings"

	"github.com/tallygate/tallygate/dataplane/analytics"
	"github.com/tallygate/tallygate/dataplane/analytics/channel"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/reports"
)

// plausible reads the files of Plausible's CSV export, each the daily sums of one kind.
type plausible struct {
	*sums
	exits map[figureKey]int64 // of pages
	hosts map[figureKey]bool  // sums that finish bounds
	pages bool                // whether there is a file of pages
}

// plausibleClients are the dimensions of the tables about browsers.
var plausibleClients = map[string]model.ReportDimension{
	"locations": model.DimensionCountry, "browsers": model.DimensionBrowser,
	"operating_systems": model.DimensionSystem, "devices": model.DimensionDevice,
}

// plausibleFile is the name of a file: the table, and the days that it may have.
var plausibleFile = regexp.MustCompile(`^imported_([a-z_]+?)(?:_\d{8}_\d{8})?\.csv$`)

// plausibleColumns are the columns that the files of each table must have. The first one of a table
// about browsers has the row's value.
var plausibleColumns = map[string][]string{
	"visitors":          {"visitors", "pageviews", "bounces", "visits", "date"},
	"sources":           {"visitors", "visits", "date"},
	"pages":             {"page", "visitors", "pageviews", "date"},
	"entry_pages":       {"entry_page", "visitors", "entrances", "date"},
	"exit_pages":        {"exit_page", "visitors", "exits", "date"},
	"custom_events":     {"name", "visitors", "events", "date"},
	"locations":         {"country", "visitors", "visits", "date"},
	"browsers":          {"browser", "visitors", "visits", "date"},
	"operating_systems": {"operating_system", "visitors", "visits", "date"},
	"devices":           {"device", "visitors", "visits", "date"},
}

func (p *plausible) read(t *table) (unused model.ImportUnused, err error) {
	name := plausibleFile.FindStringSubmatch(t.name)
	if name == nil {
		return "", model.Damaged(model.FaultUnknownFile, model.ImportValues{Name: "Plausible", Value: "imported_pages_20240101_20241231.csv"})
	}
	kind := name[1]
	wanted, ok := plausibleColumns[kind]
	if !ok {
		return "", model.Damaged(model.FaultUnknownTable, model.ImportValues{Name: "imported_" + kind})
	}
	if err := t.header(wanted...); err != nil {
		return "", err
	}

	p.pages = p.pages || kind == "pages"
	for t.more() {
		if err := p.row(t, kind); err != nil {
			return "", err
		}
	}
	return "", t.err
}

// row adds a row of a table, if its day is imported.
func (p *plausible) row(t *table, kind string) error {
	if t.text("date") == "" {
		return p.days.skip("date")
	}
	day, err := day(t.text("date"))
	if err != nil {
		return err
	}
	sum := &reports.ImportFigure{Day: day}
	err = t.counts(map[string]*int64{
		"visitors": &sum.Visitors, "visits": &sum.Visits, "pageviews": &sum.Pageviews, "bounces": &sum.Bounces,
		"events": &sum.Events, "exits": &sum.Exits,
	})
	if err != nil {
		return err
	}

	// Entrances and exits are the visits of these pages.
	switch kind {
	case "visitors":
		if sum.Bounces > sum.Visits {
			return moreBounces(sum)
		}
	case "entry_pages":
		if sum.Visits, err = t.count("entrances"); err != nil {
			return err
		}
	case "exit_pages":
		sum.Visits = sum.Exits
	}
	if err := p.once(t, kind, day); err != nil || !p.days.keeps(day, false) {
		return err
	}
	return p.addRow(t, kind, sum)
}

// addRow adds the sums of a row.
func (p *plausible) addRow(t *table, kind string, sum *reports.ImportFigure) error {
	switch kind {
	case "visitors":
		return p.add("", "", sum)
	case "sources":
		return p.addSource(t, sum)
	case "pages", "entry_pages", "exit_pages":
		return p.addPage(t, kind, sum)
	case "custom_events":
		name := t.text("name")
		if name == "" {
			return p.days.skip("name")
		}
		return p.add(model.DimensionEvent, p.event(name), sum)
	}

	by, column := plausibleClients[kind], plausibleColumns[kind][0]
	if !t.has("bounces") {
		sum.Unbounced = sum.Visits
	}
	return p.add(by, clientValue(by, t.text(column)), sum)
}

// addPage adds the sums of a row about a page.
func (p *plausible) addPage(t *table, kind string, sum *reports.ImportFigure) error {
	column := strings.TrimSuffix(kind, "s")
	page := t.page(column)
	if page == "" {
		return p.days.skip(column)
	}

	switch kind {
	case "entry_pages":
		return p.add(model.DimensionEntryPage, page, sum)
	case "exit_pages":
		if p.exits == nil {
			p.exits = make(map[figureKey]int64)
		}
		p.exits[figureKey{model.DimensionPage, sum.Day, strings.Clone(page)}] += sum.Exits
		return p.add(model.DimensionExitPage, page, sum)
	}

	sum.Unbounced = sum.Visits // the file has no bounces
	if err := p.addHost(t, sum); err != nil {
		return err
	}
	return p.add(model.DimensionPage, page, sum)
}

// addHost adds the sums of a page to its host. A visitor of several pages is in several rows: see
// boundHosts.
func (p *plausible) addHost(t *table, page *reports.ImportFigure) error {
	if !t.has("hostname") {
		return nil
	}
	host := hostOf(t.text("hostname"))
	if p.hosts == nil {
		p.hosts = make(map[figureKey]bool)
	}
	p.hosts[figureKey{model.DimensionHostname, page.Day, strings.Clone(host)}] = true
	return p.add(model.DimensionHostname, host, &reports.ImportFigure{
		Day: page.Day, Visitors: page.Visitors, Visits: page.Visits, Pageviews: page.Pageviews,
	})
}

// boundHosts limits the visitors and visits of each host to the totals of its day, so that they are
// exact on a day with a single host.
func (p *plausible) boundHosts() {
	for key := range p.hosts {
		total, ok := p.figures[figureKey{day: key.day}]
		if !ok {
			continue // sums.finish reports the day
		}
		host := p.figures[key]
		host.Visitors, host.Visits = min(host.Visitors, total.Visitors), min(host.Visits, total.Visits)
		host.Unbounced = host.Visits
	}
}

// addSource adds the visits of a source to all dimensions that say where a visit came from.
func (p *plausible) addSource(t *table, sum *reports.ImportFigure) error {
	campaign := model.Campaign{
		Source: lower(t.text("utm_source")), Medium: lower(t.text("utm_medium")), Name: lower(t.text("utm_campaign")),
		Content: lower(t.text("utm_content")), Term: lower(t.text("utm_term")),
	}
	host, page := analytics.ReferringPage(address(t.text("referrer")), nil)

	source := campaign.Source
	if source == "" {
		source = host
	}
	from := channel.Of(campaign, host)
	if name := t.text("source"); source == "" && name != "Direct / None" {
		// Sources without a referrer, such as an app, have only a name.
		source = sourceOf(name)
		if source != "" && campaign.Medium == "" {
			from = channel.Of(model.Campaign{Source: source}, "")
		}
	}

	return p.addOrigin(source, &origin{channel: string(from), referrer: page, campaign: campaign}, sum,
		model.DimensionUTMSource, model.DimensionUTMMedium, model.DimensionUTMCampaign, model.DimensionUTMContent,
		model.DimensionUTMTerm)
}

func (p *plausible) finish(r *Result) error {
	if p.pages {
		for key, exits := range p.exits {
			if err := p.add(model.DimensionPage, key.value, &reports.ImportFigure{Day: key.day, Exits: exits}); err != nil {
				return err
			}
		}
	}
	if len(p.figures) == 0 {
		return nil
	}
	p.boundHosts()
	return p.sums.finish(r)
}

// event returns the name of an event. Plausible's automatic events get the names of the script's
// automatic events.
func (p *plausible) event(name string) string {
	switch name {
	case "Outbound Link: Click", "Cloaked Link: Click":
		return model.EventOutboundClick
	case "File Download":
		return model.EventFileDownload
	}
	return p.days.eventName(name)
}

// moreBounces returns the failure of a day with more bounces than visits.
func moreBounces(sum *reports.ImportFigure) error {
	return model.Damaged(model.FaultBounces, model.ImportValues{First: sum.Day, Count: sum.Bounces, Limit: sum.Visits})
}
