package channel_test

import (
	"encoding/json"
	"net/url"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/tallygate/tallygate/dataplane/analytics/channel"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/tools/testkit"
)

// every is the contract's list of allowed values (section 2), written out again to reveal typing
// errors.
var every = []channel.Channel{
	"direct", "organic search", "paid search", "organic social", "paid social", "organic video", "paid video", "email",
	"referral", "display", "affiliates", "other paid", "unassigned",
}

type vector struct {
	Referrer    *string `json:"referrer"`
	UTMSource   *string `json:"utm_source"`
	UTMMedium   *string `json:"utm_medium"`
	UTMCampaign *string `json:"utm_campaign"`
	ClickID     *string `json:"click_id"`
	Expect      string  `json:"expect"`
}

func (v vector) campaign() model.Campaign {
	lower := func(s *string) string {
		if s == nil {
			return ""
		}
		return strings.ToLower(*s)
	}

	c := model.Campaign{Source: lower(v.UTMSource), Medium: lower(v.UTMMedium), Name: lower(v.UTMCampaign)}

	switch lower(v.ClickID) {
	case "gclid":
		c.Gclid = "id"
	case "gbraid":
		c.Gbraid = "id"
	case "wbraid":
		c.Wbraid = "id"
	case "fbclid":
		c.Fbclid = "id"
	case "msclkid":
		c.Msclkid = "id"
	}

	return c
}

// host returns the host of a referrer as the collect handler does: empty for the site's own, which
// is example.com here.
func (v vector) host(t *testing.T) string {
	t.Helper()

	if v.Referrer == nil {
		return ""
	}

	u, err := url.Parse(*v.Referrer)
	testkit.NoError(t, err)
	if h := u.Hostname(); h != "example.com" && !strings.HasSuffix(h, ".example.com") {
		return h
	}

	return ""
}

func TestVectors(t *testing.T) {
	text, err := os.ReadFile("testdata/channels.json")
	testkit.NoError(t, err)

	var vectors []vector
	testkit.NoError(t, json.Unmarshal(text, &vectors))
	testkit.Require(t, len(vectors), 69, "vectors")

	reached := map[channel.Channel]bool{}
	for _, v := range vectors {
		got := channel.Of(v.campaign(), v.host(t))
		reached[got] = true
		if string(got) != v.Expect {
			line, _ := json.Marshal(v)
			t.Errorf("Of = %q, want %q: %s", got, v.Expect, line)
		}
	}

	for _, c := range every {
		if !reached[c] {
			t.Errorf("no vector reaches %q", c)
		}
	}
}

func TestOf(t *testing.T) {
	tests := []struct {
		name, source, medium, referrer string
		want                           channel.Channel
	}{
		{"nothing", "", "", "", channel.Direct},
		{"placeholders only", "(not set)", "(none)", "", channel.Direct},
		{"a direct tag outranks the referrer", "(direct)", "(none)", "www.google.com", channel.Direct},
		{"campaign name alone leaves the referrer", "", "", "www.google.com", channel.OrganicSearch},

		// Whole labels, never substrings.
		{"microsoft.com is not t.co", "", "", "microsoft.com", channel.Referral},
		{"independent.co.uk is not t.co", "", "", "www.independent.co.uk", channel.Referral},
		{"notgoogle.com", "", "", "notgoogle.com", channel.Referral},
		{"google.com as a lower label", "", "", "google.com.evil.example", channel.Referral},
		{"vox.com is not x.com", "", "", "vox.com", channel.Referral},
		{"a public suffix", "", "", "co.uk", channel.Referral},
		{"the TLD google is not the name", "", "", "blog.google", channel.Referral},
		{"a host without dots is not a name", "", "", "google", channel.Referral},
		{"google.org is not in the list", "", "", "www.google.org", channel.Referral},
		{"a trailing dot", "", "", "www.google.com.", channel.OrganicSearch},
		{"dots only", "", "", "...", channel.Referral},
		{"longer than a host can be", "", "", strings.Repeat("a.", 4000) + "google.com", channel.Referral},
		{"an address", "", "", "192.0.2.7", channel.Referral},
		{"an IPv6 address", "", "", "[2001:db8::1]", channel.Referral},

		// The nearest listed host decides.
		{"a country's engine", "", "", "www.google.com.br", channel.OrganicSearch},
		{"webmail below an engine", "", "", "mail.google.com", channel.Email},
		{"documents below an engine", "", "", "docs.google.com", channel.Referral},
		{"forum below an engine", "", "", "tieba.baidu.com", channel.OrganicSocial},
		{"ads below an engine", "", "", "yabs.yandex.ru", channel.Display},
		{"engine below a webmail host", "", "", "search.gmx.net", channel.OrganicSearch},
		{"manager below a network", "", "", "business.facebook.com", channel.Referral},
		{"an app", "", "", "com.google.android.gm", channel.Email},
		{"another app", "", "", "com.google.android.googlequicksearchbox", channel.OrganicSearch},
		{"a short link of a network", "", "", "t.co", channel.OrganicSocial},
		{"an ad server", "", "", "googleads.g.doubleclick.net", channel.Display},
		{"an affiliate network", "", "", "www.awin1.com", channel.Affiliates},

		// Sources as hosts and as names.
		{"source host", "www.facebook.com", "", "", channel.OrganicSocial},
		{"source host, paid", "m.youtube.com", "cpc", "", channel.PaidVideo},
		{"source in capitals with blanks", " Facebook ", "", "", channel.OrganicSocial},
		{"an unknown site that names itself", "chatgpt.com", "", "", channel.Referral},
		{"an unknown name", "flyer", "", "", channel.Unassigned},
		{"an unknown name outranks the referrer", "flyer", "", "www.google.com", channel.Unassigned},
		{"a mailing service", "mailchimp", "", "", channel.Email},
		{"a webmail host as source", "mail.google.com", "", "", channel.Email},
		{"an ad network without medium", "taboola", "", "", channel.Display},
		{"an affiliate network without medium", "awin", "", "", channel.Affiliates},

		// Mediums.
		{"prepaid is not paid", "shop", "prepaid", "", channel.Unassigned},
		{"paid of any form", "shop", "paid_inclusion", "", channel.OtherPaid},
		{"cpa", "shop", "cpa", "", channel.OtherPaid},
		{"cpm on a social network is paid social", "facebook", "cpm", "", channel.PaidSocial},
		{"cpm elsewhere is display", "shop", "cpm", "", channel.Display},
		{"display outranks an engine", "google", "display", "", channel.Display},
		{"expandable", "shop", "expandable", "", channel.Display},
		{"e-mail outranks a network", "facebook", "e-mail", "", channel.Email},
		{"e_mail", "x", "e_mail", "", channel.Email},
		{"e mail", "x", "e mail", "", channel.Email},
		{"a video medium", "partner", "in-video", "", channel.OrganicVideo},
		{"organic", "partner", "organic", "", channel.OrganicSearch},
		{"app", "partner", "app", "", channel.Referral},
		{"link", "partner", "link", "", channel.Referral},
		{"social media in words", "partner", "social media", "", channel.OrganicSocial},
		{"sms of a mailing service", "klaviyo", "sms", "", channel.Unassigned},
		{"web push", "partner", "webpush", "", channel.Unassigned},
		{"audio", "partner", "audio", "", channel.Unassigned},

		// For a medium without a source, the referring site counts too.
		{"paid from an engine", "", "cpc", "www.bing.com", channel.PaidSearch},
		{"paid from nowhere", "", "cpc", "", channel.OtherPaid},
		{"e-mail from an engine", "", "email", "www.bing.com", channel.Email},
		{"unknown medium from an unknown site", "", "qr", "example.org", channel.Unassigned},
	}
	for _, tt := range tests {
		got := channel.Of(model.Campaign{Source: tt.source, Medium: tt.medium}, tt.referrer)
		testkit.Equal(t, got, tt.want, "%s: Of(%q, %q, %q)", tt.name, tt.source, tt.medium, tt.referrer)
	}
}

func TestComplete(t *testing.T) {
	tests := []struct {
		name           string
		in             model.Campaign
		source, medium string
		want           channel.Channel
	}{
		{"no click id", model.Campaign{Medium: "print"}, "", "print", channel.Unassigned},
		{"gclid", model.Campaign{Gclid: "a"}, "google", "cpc", channel.PaidSearch},
		{"gbraid", model.Campaign{Gbraid: "a"}, "google", "cpc", channel.PaidSearch},
		{"wbraid", model.Campaign{Wbraid: "a"}, "google", "cpc", channel.PaidSearch},
		{"fbclid", model.Campaign{Fbclid: "a"}, "facebook", "cpc", channel.PaidSocial},
		{"msclkid", model.Campaign{Msclkid: "a"}, "bing", "cpc", channel.PaidSearch},
		{"fbclid yields to gclid", model.Campaign{Fbclid: "a", Gclid: "b"}, "google", "cpc", channel.PaidSearch},
		{"fbclid yields to msclkid", model.Campaign{Fbclid: "a", Msclkid: "b"}, "bing", "cpc", channel.PaidSearch},
		{"a medium without source is replaced", model.Campaign{Medium: "social", Fbclid: "a"}, "facebook", "cpc", channel.PaidSocial},
		{"a source is kept", model.Campaign{Source: "newsletter", Gclid: "a"}, "newsletter", "", channel.Unassigned},
	}
	for _, tt := range tests {
		got := channel.Complete(tt.in)
		want := tt.in
		want.Source, want.Medium = tt.source, tt.medium
		testkit.Equal(t, got, want, "%s: Complete", tt.name)
		testkit.Equal(t, channel.Complete(got), got, "%s: completing twice changes %+v into", tt.name, got)
		if before, after := channel.Of(tt.in, ""), channel.Of(got, ""); before != tt.want || after != tt.want {
			t.Errorf("%s: Of = %q before and %q after Complete, want %q", tt.name, before, after, tt.want)
		}
	}
}

func TestOfAllocatesNothing(t *testing.T) {
	c := model.Campaign{Source: "facebook", Medium: "paid-social"}
	if n := testing.AllocsPerRun(100, func() {
		channel.Of(c, "l.facebook.com")
		channel.Of(model.Campaign{}, "news.some.deep.host.example.org")
	}); n != 0 {
		t.Errorf("%v allocations, want 0", n)
	}
}

func FuzzOf(f *testing.F) {
	f.Add("google", "cpc", "www.google.com", "x", "")
	f.Add("", "", "..", "", "y")
	f.Add("(direct)", "(none)", "mail.google.com.", "", "")
	f.Add("\xff.", "PAID\x00", "xn--e1afmkfd.xn--p1ai", "", "")
	f.Fuzz(func(t *testing.T, source, medium, host, gclid, fbclid string) {
		c := model.Campaign{Source: source, Medium: medium, Gclid: gclid, Fbclid: fbclid}
		got := channel.Of(c, host)
		if !slices.Contains(every, got) {
			t.Errorf("Of(%+v, %q) = %q, not an allowed value", c, host, got)
		}
		testkit.Equal(t, channel.Of(channel.Complete(c), host), got, "Of(%+v, %q) = %q, after Complete", c, host, got)
	})
}

func BenchmarkOf(b *testing.B) {
	for _, bb := range []struct {
		name string
		c    model.Campaign
		host string
	}{
		{"direct", model.Campaign{}, ""},
		{"engine", model.Campaign{}, "www.google.co.uk"},
		{"unknown site", model.Campaign{}, "blog.some.company.example.org"},
		{"campaign", model.Campaign{Source: "newsletter", Medium: "email", Name: "june"}, "www.google.com"},
		{"click id", model.Campaign{Gclid: "EAIaIQobChMI"}, "www.google.com"},
	} {
		b.Run(bb.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				channel.Of(bb.c, bb.host)
			}
		})
	}
}
