package importer

import (
	"strconv"
	"strings"
	"time"

	"github.com/tallygate/tallygate/dataplane/analytics"
	"github.com/tallygate/tallygate/dataplane/analytics/channel"
	"github.com/tallygate/tallygate/db/model"
)

// goatCounter reads GoatCounter's CSV export, a row for each page view and event.
type goatCounter struct {
	*hits
	bots int64
}

func (g *goatCounter) read(t *table) (unused model.ImportUnused, err error) {
	if err := t.header(); err != nil {
		return "", err
	}

	// The name of the first column begins with the version of the format.
	switch name := strings.ToLower(strings.TrimSpace(t.row[0])); name {
	case "1path", "2path":
		t.columns["path"] = 0
	default:
		return "", model.Damaged(model.FaultFileVersion, model.ImportValues{Value: name})
	}
	delete(t.columns, strings.ToLower(strings.TrimSpace(t.row[0])))
	if err := t.want("event", "session", "bot", "referrer", "referrer scheme", "screen size", "date"); err != nil {
		return "", err
	}
	if err := t.each(func() error { return g.row(t) }); err != nil {
		return "", err
	}
	return "", g.apart(t)
}

func (g *goatCounter) row(t *table) error {
	if t.text("date") == "" {
		return g.filter.skip("date")
	}
	at, err := time.Parse(time.RFC3339, t.text("date"))
	if err != nil {
		return model.Damaged(model.FaultTime, model.ImportValues{Name: "date", Value: t.text("date")})
	}
	bot, err := t.count("bot")
	if err != nil {
		return err
	}
	isEvent, err := strconv.ParseBool(t.text("event"))
	if err != nil {
		return model.Damaged(model.FaultValue, model.ImportValues{Name: "event", Value: t.text("event")})
	}
	origin, err := goatOrigin(t.text("referrer"), t.text("referrer scheme"), g.filter.Domains)
	if err != nil {
		return err
	}
	from := g.originOf(origin)

	g.extend(model.At(at))
	switch when := model.At(at); {
	case bot != 0:
		g.bots++
		return nil
	case !g.keeps(when):
		return nil
	}

	session, path := t.text("session"), t.text("path")
	switch {
	case session == "":
		return g.filter.skip("session")
	case path == "":
		return g.filter.skip("path")
	}

	// Version 1 of the export has no systems. The size of a screen does not decide the class of a device.
	one := hit{at: model.At(at), session: g.number(session), origin: from, width: model.UnknownWidth, client: g.clientOf(rawClient{
		country: t.text("location"), browser: t.text("browser"), system: t.text("system"),
	})}
	if isEvent {
		one.event = g.text(g.filter.eventName(path))
		return g.add(one)
	}
	width, _, _ := strings.Cut(t.text("screen size"), ",")
	one.path, one.width = g.text(pathOf(path)), widthOf(width)
	return g.add(one)
}

// goatNames maps the names that GoatCounter shows in place of hosts to one of these hosts, which decides the channel.
var goatNames = map[string]string{
	"google": "www.google.com", "yandex": "yandex.com", "yahoo": "search.yahoo.com", "baidu": "www.baidu.com",
	"hacker news": "news.ycombinator.com", "email": "mail.google.com", "rss": "feedly.com",
	"telegram messenger": "org.telegram.messenger", "slack chat": "com.slack",
}

// goatOrigin returns where a visit to a site came from, by a referrer and its scheme.
func goatOrigin(referrer, scheme string, domains []string) (origin, error) {
	switch scheme {
	case "", "h", "o":
		host, page := analytics.ReferringPage(address(referrer), domains)
		return origin{channel: string(channel.Of(model.Campaign{}, host)), referrer: page}, nil
	case "g":
		// The name of a service, such as Google, in place of its many hosts.
		name := lower(referrer)
		from := channel.Of(model.Campaign{Source: name}, "")
		if host, ok := goatNames[name]; ok {
			from = channel.Of(model.Campaign{}, host)
		}
		return origin{channel: string(from), referrer: name}, nil
	case "c":
		campaign := model.Campaign{Source: lower(referrer)}
		return origin{channel: string(channel.Of(campaign, "")), campaign: campaign}, nil
	}
	return origin{}, model.Damaged(model.FaultValue, model.ImportValues{Name: "referrer scheme", Value: scheme})
}

func (g *goatCounter) finish(r *Result) error {
	if g.bots > 0 {
		r.Notes = append(r.Notes, model.ImportNote{Code: model.NoteBots, Count: g.bots})
	}
	return g.hits.finish(r)
}

// widthOf returns the range of a screen width.
func widthOf(text string) int16 {
	n, err := strconv.ParseFloat(text, 64)
	if err != nil || n < 1 || n > 1e6 {
		return model.UnknownWidth
	}
	return model.WidthRange(int(n))
}
