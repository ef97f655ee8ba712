// Package channel determines the marketing channel of a visit from the campaign and the referring
// site of its first page view (analytics contract, section 2 "Campaign object"). The analytics
// endpoints call Complete for each campaign, and Of for each possible start of a visit. It is pure.
//
// The rules are those of Google Analytics 4's default channel grouping, mapped to the contract's
// thirteen values. The first match wins. Sites are matched by whole host labels, so that
// microsoft.com does not match t.co, and by map lookups, so that the cost does not grow with the
// lists.
package channel

import (
	"strings"

	"github.com/tallygate/tallygate/db/model"
)

// Channel is one of the contract's thirteen channel values.
type Channel = model.Channel

// The allowed values (contract, section 2).
const (
	Direct        Channel = "direct"
	OrganicSearch Channel = "organic search"
	PaidSearch    Channel = "paid search"
	OrganicSocial Channel = "organic social"
	PaidSocial    Channel = "paid social"
	OrganicVideo  Channel = "organic video"
	PaidVideo     Channel = "paid video"
	Email         Channel = "email"
	Referral      Channel = "referral"
	Display       Channel = "display"
	Affiliates    Channel = "affiliates"
	OtherPaid     Channel = "other paid"
	Unassigned    Channel = "unassigned"
)

// Complete returns the campaign with source and medium set from its click id, if it has a click id
// and no source (contract, section 2 "Click id platforms"). The medium is then always cpc. Of
// several click ids Meta's has the lowest priority, because it is on unpaid links too.
func Complete(c model.Campaign) model.Campaign {
	if c.Source != "" {
		return c
	}

	switch {
	case c.Gclid != "" || c.Gbraid != "" || c.Wbraid != "":
		c.Source = "google"
	case c.Msclkid != "":
		c.Source = "bing"
	case c.Fbclid != "":
		c.Source = "facebook"
	default:
		return c
	}

	c.Medium = "cpc"
	return c
}

// Of returns the channel of a visit that began with this campaign on a page reached from
// referrerHost, a lower-case host without port. An empty host means no referrer, or a page of the
// site itself.
//
// Campaign values take precedence over the referrer. A campaign without a source is completed
// first. If that sets no source, its medium and the referring site decide; without a medium, the
// referring site alone.
func Of(c model.Campaign, referrerHost string) Channel {
	c = Complete(c)
	source, medium := value(c.Source), value(c.Medium)
	switch {
	case source == "(direct)" && medium == "":
		return Direct
	case source == "" && medium == "":
		return ofReferrer(referrerHost)
	case source == "":
		return ofCampaign(source, medium, model.KindOfHost(referrerHost))
	}

	return ofCampaign(source, medium, model.KindOfSource(source))
}

// value normalises a campaign value. Values arrive in lower case, so that this rarely copies.
func value(s string) string {
	s = strings.ToLower(strings.TrimSpace(s))
	if s == "(none)" || s == "(not set)" {
		return ""
	}
	return s
}

// ofReferrer returns the channel of a visit without campaign values.
func ofReferrer(host string) Channel {
	if host == "" {
		return Direct
	}

	switch model.KindOfHost(host) {
	case model.SourceSearch:
		return OrganicSearch
	case model.SourceSocial:
		return OrganicSocial
	case model.SourceVideo:
		return OrganicVideo
	case model.SourceMail:
		return Email
	case model.SourceAds:
		// An untagged click on a banner shows only the ad server.
		return Display
	case model.SourceAffiliates:
		return Affiliates
	}

	return Referral
}

// ofCampaign applies the grouping's table in its order, with one exception: e-mail comes first, so
// that a mailing through a social network or a portal counts as e-mail.
func ofCampaign(source, medium string, from model.SourceKind) Channel {
	paid := isPaid(medium)
	switch {
	case isEmail(source) || isEmail(medium):
		return Email
	case paid && from == model.SourceSearch:
		return PaidSearch
	case paid && from == model.SourceSocial:
		return PaidSocial
	case paid && from == model.SourceVideo:
		return PaidVideo
	case isDisplay(medium):
		// This includes cpm, which is a paid medium as well.
		return Display
	case paid:
		return OtherPaid
	case from == model.SourceSocial || isSocial(medium):
		return OrganicSocial
	case from == model.SourceVideo || strings.Contains(medium, "video"):
		return OrganicVideo
	case from == model.SourceSearch || medium == "organic":
		return OrganicSearch
	case medium == "affiliate" || medium == "affiliates":
		return Affiliates
	case medium == "referral" || medium == "app" || medium == "link":
		return Referral
	case source == "sms" || isMessage(medium):
		// The grouping's channels for these are not among the thirteen.
		return Unassigned
	case from == model.SourceMail:
		return Email
	case from == model.SourceAds:
		return Display
	case from == model.SourceAffiliates:
		return Affiliates
	case medium == "" && strings.Contains(source, "."):
		// This is a site that tags its links with its own name only.
		return Referral
	}

	return Unassigned
}

// isPaid matches the grouping's expression ^(.*cp.*|ppc|retargeting|paid.*)$. So prepaid is not a
// paid medium.
func isPaid(medium string) bool {
	return strings.Contains(medium, "cp") || medium == "ppc" || medium == "retargeting" ||
		strings.HasPrefix(medium, "paid")
}

func isEmail(s string) bool {
	return s == "email" || s == "e-mail" || s == "e_mail" || s == "e mail"
}

func isDisplay(medium string) bool {
	switch medium {
	case "display", "banner", "expandable", "interstitial", "cpm":
		return true
	}
	return false
}

func isSocial(medium string) bool {
	switch medium {
	case "social", "social-network", "social-media", "sm", "social network", "social media":
		return true
	}
	return false
}

func isMessage(medium string) bool {
	return medium == "sms" || medium == "audio" || strings.HasSuffix(medium, "push") ||
		strings.Contains(medium, "mobile") || strings.Contains(medium, "notification")
}
