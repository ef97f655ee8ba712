package mcp

import (
	"maps"

	"github.com/google/jsonschema-go/jsonschema"
)

// siteArguments are the arguments of tools about sites that read no report.
type siteArguments struct {
	Site, Domain, Name, TimeZone string

	Search, After, Sitekey string
	First, Days            int

	Events []string
	Event  string
}

// join returns the arguments of several groups.
func join(groups ...map[string]*jsonschema.Schema) map[string]*jsonschema.Schema {
	all := make(map[string]*jsonschema.Schema)
	for _, group := range groups {
		maps.Copy(all, group)
	}
	return all
}

// pageArguments are the arguments of lists.
func pageArguments(what string) map[string]*jsonschema.Schema {
	return map[string]*jsonschema.Schema{
		"search": text("Only " + what + " with this text in the name or a domain."),
		"first":  whole(1, maxRows, "Number of "+what+". Default: 20."),
		"after":  text("The endCursor of the previous page."),
	}
}

// tools returns all tools.
func (s *server) tools() []tool {
	return append(append(s.reportTools(), s.siteTools()...), s.configurationTools()...)
}

// reportTools returns the tools that read reports.
func (s *server) reportTools() []tool {
	period, byDefault := periodArguments(s.Schema, "LAST_28_DAYS"), comparisonArguments(s.Schema, "none")
	metrics, rows := metricArgument(s.Schema), rowArguments(s.Schema)
	interval := map[string]*jsonschema.Schema{
		"interval": oneOf(values(s.Schema, "ReportInterval"), "The length of a point of the time series. Default: no series."),
	}

	funnelStep := object()
	funnelStep.Properties = map[string]*jsonschema.Schema{
		"page":  text("The path of a page, or a pattern: * is any text without a slash and ** any text."),
		"event": text("The name of an event, instead of page."),
		"label": text("Display name."),
	}
	least := 2
	steps := list(8, funnelStep, "2 to 8 steps in order, each a page or an event.")
	steps.MinItems = &least

	return []tool{{
		name: "report", title: "Report",
		description: "What visitors did in a period: totals, on request with a time series (interval), the rows of a dimension (by) and a " +
			"second period (compare).",
		arguments: join(siteArgument(), period, byDefault, metrics, interval, rows), document: decoded(figures("query Report", "series")),
		readers: true, untrusted: true,
	}, {
		name: "compare", title: "Comparison",
		description: "The totals of two periods with their changes in percent, on request with the rows of a dimension (by).",
		arguments:   join(siteArgument(), period, comparisonArguments(s.Schema, "PREVIOUS_PERIOD"), metrics, rows),
		document:    decoded(figures("query Compare", "series")),
		readers:     true, untrusted: true,
	}, {
		name: "top", title: "Top values",
		description: "The most frequent values of a dimension, such as PAGE, SOURCE_NAME, CHANNEL, COUNTRY or EVENT.",
		arguments:   join(siteArgument(), period, byDefault, metrics, rows), required: []string{"by"},
		document: decoded(figures("query Top", "series")),
		readers:  true, untrusted: true,
	}, {
		name: "funnel", title: "Funnel",
		description: "How many visitors went through steps in this order within a UTC day. The tool site lists saved funnels with their steps.",
		arguments:   join(siteArgument(), period, byDefault, map[string]*jsonschema.Schema{"steps": steps}), required: []string{"steps"},
		document: decoded(funnel),
		readers:  true, untrusted: true,
	}, {
		name: "journey", title: "Journey",
		description: "The pages that visits viewed just after a page or event, or just before it.",
		arguments: join(siteArgument(), period, map[string]*jsonschema.Schema{
			"page":      text("The path of the page from which visits are followed, or a pattern."),
			"event":     text("The name of the event from which visits are followed, instead of page."),
			"direction": oneOf(values(s.Schema, "JourneyDirection"), "Default: NEXT."),
			"following": whole(1, 3, "How many pages are followed. Default: 2."),
			"width":     whole(1, 10, "How many pages follow each page. Default: 5."),
		}),
		document: decoded(journey),
		readers:  true, untrusted: true,
	}, {
		name: "cohorts", title: "Cohorts",
		description: "User ids by the week of their first visit, and how many came back in the weeks after it. Null for a site without pseudonymous user ids.",
		arguments:   join(siteArgument(), periodArguments(s.Schema, "LAST_91_DAYS")),
		document:    decoded(cohorts),
		readers:     true,
	}, {
		name: "live", title: "Live visitors",
		description: "Who is on the site now: visitors of the last 5 minutes, page views of the last 30 minutes. Null for a shared link with a segment.",
		arguments:   siteArgument(),
		document:    decoded(live),
		readers:     true, untrusted: true,
	}}
}

// siteTools returns the tools that read what else there is of sites, and captcha statistics.
func (s *server) siteTools() []tool {
	days := map[string]*jsonschema.Schema{"days": whole(1, 90, "Number of UTC days including today. Default: 7.")}

	return []tool{{
		name: "sites", title: "Sites",
		description: "Lists the sites that the caller reaches, with domain, id, time zone and usage.",
		arguments:   pageArguments("sites"), document: decoded(sites),
		readers: true,
	}, {
		name: "site", title: "Site",
		description: "Settings of a site: key events (goals), registered event names, refused event names, saved segments and funnels, " +
			"what visits keep, usage and notices.",
		arguments: siteArgument(), document: decoded(site),
		untrusted: true,
	}, {
		name: "rejections", title: "Refused calls",
		description: "Calls of the last days that were refused or ignored, by day and reason, with advice, and event names that are not registered.",
		arguments:   join(siteArgument(), days), document: decoded(rejections),
		untrusted: true,
	}, {
		name: "install_check", title: "Installation check",
		description: "Whether hits arrive: the time of the last one, the script tag and the Content-Security-Policy that the pages need, " +
			"and calls that were refused in the last 7 days.",
		arguments: siteArgument(), document: decoded(installation),
		untrusted: true,
	}, {
		name: "script_tag", title: "Script tag",
		description: "The script tag for the pages of a site, and what their Content-Security-Policy must allow.",
		arguments:   siteArgument(), document: decoded(scriptTag),
	}, {
		name: "captcha", title: "Captcha statistics",
		description: "Without sitekey: the sitekeys, and the usage of the captcha in this month. With sitekey: challenges, solutions, " +
			"verifications and refusals of the last days.",
		arguments: join(pageArguments("sitekeys"), map[string]*jsonschema.Schema{
			"sitekey": text("The id of a sitekey."),
			"days":    whole(1, 30, "Number of UTC days including today, with sitekey. Default: 7."),
		}),
		document: decoded(captcha),
	}}
}

// configurationTools returns the tools that change something. They need the permission CONFIGURE.
func (s *server) configurationTools() []tool {
	events := list(100, &jsonschema.Schema{Type: "string"}, "The complete list of the names of key events. purchase always is one.")
	zero := 0
	events.MinItems = &zero

	return []tool{{
		name: "create_site", title: "Create a site",
		description: "Creates a site, and returns the script tag for its pages.",
		arguments: map[string]*jsonschema.Schema{
			"domain":   text("Domain name, for example example.com, without https:// and path."),
			"name":     text("Display name. Default: the domain."),
			"timeZone": text("IANA name of the time zone for reports, such as Europe/Berlin. Default: UTC."),
		},
		required: []string{"domain"},
		document: decoded(createSite),
		changes:  true,
	}, {
		name: "register_event", title: "Register an event",
		description: "Registers the name of an event, so that pages can send it. Has no effect if it is registered.",
		arguments:   join(siteArgument(), map[string]*jsonschema.Schema{"event": text("Name: 1 to 48 lower-case letters, digits, underscores and hyphens.")}),
		required:    []string{"site", "event"},
		document:    decoded(registerEvent),
		changes:     true, repeats: true,
	}, {
		name: "set_key_events", title: "Set key events",
		description: "Replaces the key events (goals) of a site, which count as conversions and call its conversion webhook. The tool site lists the " +
			"present ones. Each must be a registered, automatic or e-commerce event.",
		arguments: join(siteArgument(), map[string]*jsonschema.Schema{"events": events}), required: []string{"site", "events"},
		document: decoded(setKeyEvents),
		changes:  true, replaces: true, repeats: true,
	}}
}

// sites returns the document of the list of sites. A reader of a shared link has one.
func sites(a siteArguments, reader bool) (*document, error) {
	var c composer
	if reader {
		if a.Search != "" || a.First != 0 || a.After != "" {
			return nil, invalid("A shared link reaches one site: the list has no page and no search.")
		}
		return c.siteDocument("query Sites", "", true, "")
	}
	field := "sites" + c.arguments(argument{"search", "String", a.Search}, argument{"first", "Int", pageSize(a.First)}, argument{"after", "String", a.After})
	return c.document("query Sites", block(field, `totalCount
nodes { id name domain timeZone state lastHitAt notice usage { period pageviews quota percent resetsAt } }
pageInfo { hasNextPage endCursor }`)), nil
}

func pageSize(first int) int {
	if first == 0 {
		return 20
	}
	return first
}

// site returns the document of the settings of a site.
func site(a siteArguments, reader bool) (*document, error) {
	var c composer
	return c.siteDocument("query Site", a.Site, reader, `state createdAt lastHitAt notice
keyEvents registeredEvents extraDomains
measureSiteSearch measureEcommerce allowPseudonymousUserId automaticEvents visitDetails smallGroup
unknownEvents { name count lastDay }
segments { id name filters { dimension property event operator values } }
funnels { id name steps { page event label } }
plan usage { period pageviews quota percent resetsAt }`)
}

// rejections returns the document of the refused calls of a site.
func rejections(a siteArguments, reader bool) (*document, error) {
	if a.Days == 0 {
		a.Days = 7
	}
	var c composer
	return c.siteDocument("query Rejections", a.Site, reader, "notice\n"+
		"rejections"+c.arguments(argument{"days", "Int!", a.Days})+" { day endpoint code count ignored recorded advice }\n"+
		"unknownEvents { name count lastDay }")
}

// installation returns the document of what shows whether a site's script works.
func installation(a siteArguments, reader bool) (*document, error) {
	var c composer
	return c.siteDocument("query Installation", a.Site, reader, `state lastHitAt notice scriptTag cspLines
usage { period pageviews quota percent resetsAt }
rejections { day endpoint code count ignored recorded advice }
unknownEvents { name count lastDay }`)
}

// scriptTag returns the document of a site's script tag.
func scriptTag(a siteArguments, reader bool) (*document, error) {
	var c composer
	return c.siteDocument("query ScriptTag", a.Site, reader, "scriptTag cspLines")
}

// captcha returns the document of the sitekeys, or of the statistics of one.
func captcha(a siteArguments, _ bool) (*document, error) {
	var c composer
	if a.Sitekey == "" {
		if a.Days != 0 {
			return nil, invalid("days needs the argument sitekey.")
		}
		field := "sitekeys" + c.arguments(argument{"search", "String", a.Search}, argument{"first", "Int", pageSize(a.First)}, argument{"after", "String", a.After})
		return c.document("query Sitekeys", block(field, `totalCount
nodes { id name sitekey domains notice createdAt }
pageInfo { hasNextPage endCursor }`)+`
viewer { account { captchaPlan captchaUsage { period verifications quota percent reserve reserveEndsAt standing resetsAt } } }`), nil
	}

	if a.Search != "" || a.First != 0 || a.After != "" {
		return nil, invalid("search, first and after list the sitekeys, without the argument sitekey.")
	}
	if a.Days == 0 {
		a.Days = 7
	}
	field := "sitekey" + c.arguments(argument{"id", "ID!", a.Sitekey})
	activity := "activity" + c.arguments(argument{"days", "Int!", a.Days})
	return c.document("query Captcha", block(field, "id name sitekey domains notice\n"+
		block(activity, "day challenges automated solved renewed unredeemed verified medianWorkMs\n"+
			"refusals { endpoint code count expected advice }"))), nil
}

// createSite returns the document that creates a site.
func createSite(a siteArguments, _ bool) (*document, error) {
	input := map[string]any{"domain": a.Domain}
	if a.Name != "" {
		input["name"] = a.Name
	}
	if a.TimeZone != "" {
		input["timeZone"] = a.TimeZone
	}
	return mutation("createSite", "CreateSiteInput!", input, "id name domain timeZone scriptTag cspLines"), nil
}

// registerEvent returns the document that registers the name of an event.
func registerEvent(a siteArguments, _ bool) (*document, error) {
	return siteMutation("registerEvent", "SiteEventInput!", a.Site, map[string]any{"name": a.Event}, "id domain registeredEvents keyEvents")
}

// setKeyEvents returns the document that sets the key events of a site.
func setKeyEvents(a siteArguments, _ bool) (*document, error) {
	return siteMutation("updateSite", "UpdateSiteInput!", a.Site, map[string]any{"keyEvents": a.Events}, "id domain registeredEvents keyEvents")
}
