package importer

import (
	"fmt"
	"net/url"
	"regexp"
	"strings"

	"github.com/tallygate/tallygate/dataplane/analytics"
	"github.com/tallygate/tallygate/dataplane/analytics/channel"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/reports"
	"github.com/tallygate/tallygate/db/reports/scan"
)

// matomo reads reports of Matomo's Reporting API as CSV, one file for each method, with a row for
// each day and value.
type matomo struct {
	*sums
	hasVisits, hasViews bool // of the totals
	folders             int64
}

// matomoFile is the name of a file: the method, and a suffix that distinguishes the files of one
// method.
var matomoFile = regexp.MustCompile(`^([A-Z][A-Za-z]+\.get[A-Za-z]*)(?:[-_ ].*)?\.csv$`)

// matomoReports are the methods that are imported, with the columns that each must have.
var matomoReports = map[string][]string{
	"VisitsSummary.get":            {"nb_uniq_visitors", "nb_visits", "bounce_count"},
	"Actions.get":                  {"nb_pageviews"},
	"Actions.getPageUrls":          {"label", "nb_uniq_visitors", "nb_visits", "nb_hits"},
	"Referrers.getReferrerType":    {"label", "nb_uniq_visitors", "nb_visits"},
	"Referrers.getWebsites":        {"label", "nb_uniq_visitors", "nb_visits"},
	"Referrers.getSearchEngines":   {"label", "nb_uniq_visitors", "nb_visits"},
	"Referrers.getSocials":         {"label", "nb_uniq_visitors", "nb_visits"},
	"Referrers.getCampaigns":       {"label", "nb_uniq_visitors", "nb_visits"},
	"Events.getAction":             {"label", "nb_events"},
	"UserLanguage.getLanguageCode": {"label", "nb_uniq_visitors", "nb_visits"},

	"UserCountry.getCountry":         {"label", "nb_uniq_visitors", "nb_visits"},
	"DevicesDetection.getBrowsers":   {"label", "nb_uniq_visitors", "nb_visits"},
	"DevicesDetection.getOsFamilies": {"label", "nb_uniq_visitors", "nb_visits"},
	"DevicesDetection.getType":       {"label", "nb_uniq_visitors", "nb_visits"},
}

// matomoClients are the methods of browsers, with their dimensions.
var matomoClients = map[string]model.ReportDimension{
	"UserCountry.getCountry": model.DimensionCountry, "DevicesDetection.getBrowsers": model.DimensionBrowser,
	"DevicesDetection.getOsFamilies": model.DimensionSystem, "DevicesDetection.getType": model.DimensionDevice,
}

// matomoChannels maps types of referrers, by their segment and by their English label, to channels.
// Campaigns have no medium that decides.
var matomoChannels = map[string]channel.Channel{
	"direct": channel.Direct, "direct entry": channel.Direct,
	"search": channel.OrganicSearch, "search engines": channel.OrganicSearch,
	"social": channel.OrganicSocial, "social networks": channel.OrganicSocial,
	"website": channel.Referral, "websites": channel.Referral,
}

func (m *matomo) read(t *table) (unused model.ImportUnused, err error) {
	name := matomoFile.FindStringSubmatch(t.name)
	if name == nil {
		return "", model.Damaged(model.FaultUnknownFile, model.ImportValues{Name: "Matomo", Value: "Actions.getPageUrls.csv"})
	}
	method := name[1]
	wanted, ok := matomoReports[method]
	if !ok {
		return "", model.Damaged(model.FaultUnknownTable, model.ImportValues{Name: method})
	}
	if err := t.header(); err != nil {
		return "", err
	}

	// An answer without a table is a sentence.
	switch first := t.row[0]; {
	case strings.EqualFold(first, "No data available"):
		return model.UnusedEmpty, nil
	case strings.HasPrefix(first, "Error:"):
		return "", model.Damaged(model.FaultAnswer, model.ImportValues{Value: fmt.Sprintf("the answer of Matomo is %.150q", strings.Join(t.row, ","))})
	}
	if err := t.want(append([]string{"date"}, wanted...)...); err != nil {
		return "", err
	}

	t.short = true
	for t.more() {
		if err := m.row(t, method); err != nil {
			return "", err
		}
	}
	return "", t.err
}

// row adds a row of a report.
func (m *matomo) row(t *table, method string) error {
	if t.text("date") == "" {
		return m.days.skip("date")
	}
	day, err := day(t.text("date"))
	if err != nil {
		return err
	}
	if err := m.once(t, method, day); err != nil {
		return err
	}

	sum := &reports.ImportFigure{Day: day}
	var entries, exits reports.ImportFigure
	err = t.counts(map[string]*int64{
		"nb_uniq_visitors": &sum.Visitors, "nb_visits": &sum.Visits, "bounce_count": &sum.Bounces, "nb_events": &sum.Events,
		"entry_nb_uniq_visitors": &entries.Visitors, "entry_nb_visits": &entries.Visits, "entry_bounce_count": &entries.Bounces,
		"exit_nb_uniq_visitors": &exits.Visitors, "exit_nb_visits": &exits.Visits,
	})
	if err != nil {
		return err
	}
	views, err := t.count(map[bool]string{true: "nb_hits", false: "nb_pageviews"}[method == "Actions.getPageUrls"])
	if err != nil || !m.days.keeps(day, false) {
		return err
	}

	switch method {
	case "VisitsSummary.get":
		m.hasVisits = true
		if sum.Bounces > sum.Visits {
			return moreBounces(sum)
		}
		if *sum == (reports.ImportFigure{Day: day}) {
			return nil // Matomo lists days without visits, too
		}
		return m.add("", "", sum)
	case "Actions.get":
		m.hasViews = true
		if views == 0 {
			return nil
		}
		return m.add("", "", &reports.ImportFigure{Day: day, Pageviews: views})
	case "Actions.getPageUrls":
		sum.Pageviews, sum.Unbounced, sum.Exits = views, sum.Visits, exits.Visits
		entries.Day, exits.Day = day, day
		exits.Exits, exits.Unbounced = exits.Visits, exits.Visits
		return m.addPage(t, sum, &entries, &exits)
	case "Events.getAction":
		label := t.text("label")
		if label == "" {
			return m.days.skip("label")
		}
		return m.add(model.DimensionEvent, m.days.eventName(label),
			&reports.ImportFigure{Day: day, Visitors: sum.Visitors, Events: sum.Events})
	case "UserLanguage.getLanguageCode":
		label := t.text("label")
		if label == "xx" {
			label = "" // not known
		}
		return m.add(model.DimensionLanguage, analytics.Language(label), sum)
	}
	if by, ok := matomoClients[method]; ok {
		return m.add(by, clientValue(by, matomoClient(t)), sum)
	}
	return m.addReferrer(t, method, sum)
}

// matomoClient returns what a row says about browsers: the code of the country, or the type of
// device of its segment, which do not depend on the language, or else the label.
func matomoClient(t *table) string {
	if code := t.text("metadata_code"); code != "" {
		return code
	}
	for _, name := range []string{"countryCode==", "deviceType=="} {
		if value, ok := strings.CutPrefix(t.text("metadata_segment"), name); ok {
			if text, err := url.QueryUnescape(value); err == nil {
				return text
			}
		}
	}
	return t.text("label")
}

// addPage adds the sums of a page, and of the visits that began and ended on it.
func (m *matomo) addPage(t *table, sum, entries, exits *reports.ImportFigure) error {
	page := scan.OtherValue
	if url := t.page("metadata_url"); url != "" {
		page = url
	} else {
		m.folders++
	}

	if err := m.add(model.DimensionPage, page, sum); err != nil {
		return err
	}
	if entries.Visits > 0 {
		if err := m.add(model.DimensionEntryPage, page, entries); err != nil {
			return err
		}
	}
	if exits.Visits > 0 {
		return m.add(model.DimensionExitPage, page, exits)
	}
	return nil
}

// addReferrer adds the visits of a type of referrers, or of one referrer. Matomo does not say from
// which source the visits of a campaign came.
func (m *matomo) addReferrer(t *table, method string, sum *reports.ImportFigure) error {
	label := lower(t.text("label"))
	switch method {
	case "Referrers.getReferrerType":
		if kind, ok := strings.CutPrefix(t.text("metadata_segment"), "referrerType=="); ok {
			label = lower(kind)
		}
		from, ok := matomoChannels[label]
		if !ok {
			from = channel.Unassigned
		}
		if err := m.add(model.DimensionChannel, string(from), sum); err != nil || from != channel.Direct {
			return err
		}
		return m.add(model.DimensionSource, "", sum)
	case "Referrers.getCampaigns":
		return m.add(model.DimensionUTMCampaign, label, sum)
	}
	return m.add(model.DimensionSource, sourceOf(label), sum)
}

func (m *matomo) finish(r *Result) error {
	if len(m.figures) == 0 {
		return nil
	}
	if !m.hasVisits || !m.hasViews {
		return model.Damaged(model.FaultNoTotals, model.ImportValues{Value: m.totals})
	}
	if m.folders > 0 {
		r.Notes = append(r.Notes, model.ImportNote{Code: model.NoteFolders, Count: int64(m.folders)})
	}
	return m.sums.finish(r)
}
