package importer

import (
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/tallygate/tallygate/dataplane/analytics"
	"github.com/tallygate/tallygate/dataplane/analytics/channel"
	"github.com/tallygate/tallygate/db/model"
)

// umami reads Umami's table website_event, a row for each page view and event.
type umami struct {
	*hits
	website string // the only one of the export
	others  int64  // rows that are neither page views nor events
}

// umamiTimes are the forms of created_at, which is in UTC without a zone.
var umamiTimes = []string{"2006-01-02 15:04:05", time.RFC3339, "2006-01-02 15:04:05Z07", "2006-01-02 15:04:05Z07:00"}

func (u *umami) read(t *table) (unused model.ImportUnused, err error) {
	if err := t.header(); err != nil {
		return "", err
	}
	switch {
	case t.has("event_key"), t.has("data_key"):
		return model.UnusedEventProperties, nil
	case t.has("x") && t.has("y"), !t.has("created_at") && !t.has("session_id"):
		return "", model.Damaged(model.FaultPeriodSums, model.ImportValues{})
	}

	if err := t.want("session_id", "url_path", "event_type", "created_at"); err != nil {
		return "", err
	}
	for t.more() {
		if err := u.row(t); err != nil {
			return "", err
		}
	}
	if t.err != nil {
		return "", t.err
	}
	return "", u.apart(t)
}

func (u *umami) row(t *table) error {
	if t.text("created_at") == "" {
		return u.filter.skip("created_at")
	}
	at, err := umamiTime(t.text("created_at"))
	if err != nil {
		return err
	}
	u.extend(at)
	if site := t.text("website_id"); u.website == "" {
		u.website = site
	} else if site != "" && site != u.website {
		return model.Damaged(model.FaultSecondSite, model.ImportValues{Value: site})
	}

	kind, err := t.count("event_type")
	if err != nil {
		return err
	}

	// 1 is a page view, 2 an event.
	if kind != 1 && kind != 2 {
		u.others++
		return nil
	}
	if !u.keeps(at) {
		return nil
	}

	// Umami writes rows without a path for addresses that it cannot read.
	session, path, name := t.text("session_id"), t.page("url_path"), t.text("event_name")
	switch {
	case session == "":
		return u.filter.skip("session_id")
	case path == "":
		return u.filter.skip("url_path")
	case kind == 2 && name == "":
		return u.filter.skip("event_name")
	}

	screen, _, _ := strings.Cut(t.text("screen"), "x")
	one := hit{
		at: at, session: u.number(session), path: u.text(path), language: u.text(analytics.Language(t.text("language"))),
		width: widthOf(screen), origin: u.origin(t), client: u.clientOf(rawClient{
			country: t.text("country"), browser: t.text("browser"), system: t.text("os"), device: t.text("device"),
			host: t.text("hostname"),
		}),
	}
	if visit := t.text("visit_id"); visit != "" {
		// The prefix keeps the numbers of visits and sessions apart.
		one.visit = u.number("visit " + visit)
	}
	if kind == 2 {
		one.event = u.text(u.filter.eventName(name))
	}
	return u.add(one)
}

func umamiTime(text string) (model.Instant, error) {
	for _, form := range umamiTimes {
		if at, err := time.Parse(form, text); err == nil {
			return model.At(at), nil
		}
	}
	return 0, model.Damaged(model.FaultTime, model.ImportValues{Name: "created_at", Value: text})
}

// origin returns where a visit came from. Campaign values have columns of their own, or else are in
// the query of the page.
func (u *umami) origin(t *table) *origin {
	query, _ := url.ParseQuery(strings.TrimPrefix(t.text("url_query"), "?"))
	field := func(name string) string {
		if t.has(name) {
			return t.text(name)
		}
		return value(bounded(query.Get(name)))
	}
	marked := func(names ...string) string {
		for _, name := range names {
			if field(name) != "" {
				return "1" // segments store only whether a value exists
			}
		}
		return ""
	}

	campaign := channel.Complete(model.Campaign{
		Source: lower(field("utm_source")), Medium: lower(field("utm_medium")), Name: lower(field("utm_campaign")),
		Content: lower(field("utm_content")), Term: lower(field("utm_term")),
		Gclid: marked("gclid", "gbraid", "wbraid"), Fbclid: marked("fbclid"), Msclkid: marked("msclkid"),
	})
	var referrer string
	if host := t.text("referrer_domain"); host != "" {
		referrer = address(host + pathOf(t.text("referrer_path")))
	}
	host, page := analytics.ReferringPage(referrer, u.filter.Domains)
	return u.originOf(origin{channel: string(channel.Of(campaign, host)), referrer: page, campaign: campaign})
}

func (u *umami) finish(r *Result) error {
	if u.others > 0 {
		r.Notes = append(r.Notes, model.ImportNote{Code: model.NoteOtherRows, Count: u.others})
	}
	return u.hits.finish(r)
}

// widthOf returns the range of a screen width.
func widthOf(text string) int16 {
	n, err := strconv.ParseFloat(text, 64)
	if err != nil || n < 1 || n > 1e6 {
		return model.UnknownWidth
	}
	return model.WidthRange(int(n))
}
