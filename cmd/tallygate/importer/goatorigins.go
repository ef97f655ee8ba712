package importer

import (
	"github.com/tallygate/tallygate/dataplane/analytics"
	"github.com/tallygate/tallygate/dataplane/analytics/channel"
	"github.com/tallygate/tallygate/db/model"
)

// goatNames maps the names that GoatCounter shows in place of hosts to one of these hosts, which
// decides the channel.
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
