package importer

import (
	"errors"
	"fmt"
	"net/url"
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
		return "", errors.New("sums of a whole period, which reports by day cannot show. Export the table website_event")
	}

	if err := t.want("session_id", "url_path", "event_type", "created_at"); err != nil {
		return "", err
	}
	if err := t.each(func() error { return u.row(t) }); err != nil {
		return "", err
	}
	return "", u.apart(t)
}

func (u *umami) row(t *table) error {
	at, err := umamiTime(t.text("created_at"))
	if err != nil {
		return err
	}
	u.extend(at)
	session := t.text("session_id")
	if session == "" {
		return errors.New("session_id is missing")
	}
	if site := t.text("website_id"); u.website == "" {
		u.website = site
	} else if site != "" && site != u.website {
		return fmt.Errorf("a second website, %.40q. Export one website", site)
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
	path := t.text("url_path")
	if path == "" {
		return errors.New("url_path is missing")
	}
	if !u.keeps(at) {
		return nil
	}

	screen, _, _ := strings.Cut(t.text("screen"), "x")
	one := hit{
		at: at, session: u.number(session), path: u.text(pathOf(path)), language: u.text(analytics.Language(t.text("language"))),
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
		name := t.text("event_name")
		if name == "" {
			return errors.New("event_name is missing")
		}
		one.event = u.text(eventName(name))
	}
	return u.add(one)
}

func umamiTime(text string) (model.Instant, error) {
	for _, form := range umamiTimes {
		if at, err := time.Parse(form, text); err == nil {
			return model.At(at), nil
		}
	}
	return 0, fmt.Errorf("created_at is not a time: %.40q", text)
}

// origin returns where a visit came from. Campaign values have columns of their own, or else are in
// the query of the page.
func (u *umami) origin(t *table) *origin {
	query, _ := url.ParseQuery(strings.TrimPrefix(t.text("url_query"), "?"))
	value := func(name string) string {
		if t.has(name) {
			return t.text(name)
		}
		return model.Storable(query.Get(name), model.MaxFilterText)
	}
	marked := func(names ...string) string {
		for _, name := range names {
			if value(name) != "" {
				return "1" // segments store only whether a value exists
			}
		}
		return ""
	}

	campaign := channel.Complete(model.Campaign{
		Source: lower(value("utm_source")), Medium: lower(value("utm_medium")), Name: lower(value("utm_campaign")),
		Content: lower(value("utm_content")), Term: lower(value("utm_term")),
		Gclid: marked("gclid", "gbraid", "wbraid"), Fbclid: marked("fbclid"), Msclkid: marked("msclkid"),
	})
	var referrer string
	if host := t.text("referrer_domain"); host != "" {
		referrer = address(host + t.text("referrer_path"))
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
