package webhook

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf16"

	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/nodeid"
	"github.com/tallygate/tallygate/db/outbox"
	"github.com/tallygate/tallygate/jobs/alerts/texts"
	"github.com/tallygate/tallygate/tools/openapitest"
	"github.com/tallygate/tallygate/tools/testkit"
)

// injections are values with mentions, links and markup of chats.
var injections = []string{
	"@everyone", "<!channel>", "<@U123>", "<@&456>", "@here and @channel", "<https://evil.example|Sign in>",
	"[Sign in](https://evil.example)", "![](https://evil.example/a.png)", "https://evil.example", "www.evil.example",
	"**bold** _em_ ~~gone~~ `code` ||spoiler||", "# title", "> quote", "- item\n- item", "<at>Everyone</at>", "a\\*b", "<#123> <t:1>",
	"javascript:alert(1)", "mailto:x@evil.example", "\u202eevil", "\x00\x1b[31m", "&lt;!channel&gt;",
}

// messageOf returns a text with a value in its title and lines.
func messageOf(value string) texts.Text {
	change := &model.Change{Metric: "VISITS", Before: 1, After: 4, Causes: []model.ChangeCause{{
		Names: []model.ChangeName{{By: model.DimensionPage, Value: value}}, Difference: 3,
	}}}
	data := &model.AlertData{MailSite: model.MailSite{Site: "shop.example", SiteID: 7}, Subject: value, Account: value,
		Figures: model.AlertFigures{Change: change}, Summary: &model.ReportSummary{Pages: []model.ReportRow{{Value: value, Visitors: 3}}}}
	return texts.Of(model.English, string(model.AlertNewSignIn), model.AlertOnce, data, "site_x")
}

// encoded returns a body as the receiver decodes it.
func encoded(t *testing.T, body any) (decoded map[string]any, text string) {
	t.Helper()
	raw, err := encodeBody(body)
	if err != nil || json.Unmarshal(raw, &decoded) != nil {
		t.Fatalf("%s, %v", raw, err)
	}
	return decoded, string(raw)
}

// TestSlackBody checks that no value becomes a mention, a link or markup in Slack and services like
// it.
func TestSlackBody(t *testing.T) {
	t.Parallel()
	for _, value := range injections {
		body, _ := encoded(t, slackBody(messageOf(value), "https://stats.example/sites/x"))
		text := strings.TrimSuffix(body["text"].(string), "\nhttps://stats.example/sites/x")
		if body["mrkdwn"] != false || body["parse"] != "none" || body["link_names"] != false {
			t.Errorf("%q: flags %v", value, body)
		}
		for _, bad := range []string{"<", ">", "@e", "@h", "@c", "://", "](", "**", "~~", "`", "www.e"} {
			if strings.Contains(text, bad) {
				t.Errorf("%q: the text has %q: %q", value, bad, text)
			}
		}

		for _, block := range body["blocks"].([]any) {
			if text, ok := block.(map[string]any)["text"].(map[string]any); ok {
				if text["type"] != "plain_text" || strings.Contains(text["text"].(string), "://") {
					t.Errorf("%q: block %v", value, text)
				}
			}
		}
	}
}

// TestDiscordBody checks that no value becomes a mention, a link or markup in Discord, and the length.
func TestDiscordBody(t *testing.T) {
	t.Parallel()
	for _, value := range append(injections, strings.Repeat("😀*", 200)) {
		body, raw := encoded(t, discordBody(messageOf(value), "https://stats.example/"))
		content := body["content"].(string)
		if !strings.Contains(raw, `"allowed_mentions":{"parse":[]}`) || body["flags"] != 4.0 {
			t.Errorf("%q: %s", value, raw)
		}
		if n := len(utf16.Encode([]rune(content))); n > maxDiscord {
			t.Errorf("%q: %d characters", value, n)
		}

		// Without escaped characters nothing remains but the title's own marks, and the link.
		rest := strings.TrimSuffix(content, "\n<https://stats.example/>")
		title, lines, _ := strings.Cut(rest, "\n")
		rest = strings.TrimSuffix(strings.TrimPrefix(title, "**"), "**") + "\n" + lines
		for i := 0; i < len(rest); i++ {
			if rest[i] == '\\' {
				i++
				continue
			}
			if strings.ContainsRune("*_`[]()<>#|~", rune(rest[i])) {
				t.Errorf("%q: %q is not escaped in %q", value, rest[i], rest)
			}
		}
		if strings.Contains(rest, "@e") || strings.Contains(rest, "://") {
			t.Errorf("%q: %q", value, rest)
		}
	}

	long := texts.Text{Title: "t", Lines: []string{strings.Repeat("a", 1_000), strings.Repeat("😀", 900), "end"}}
	content := discordBody(long, "https://stats.example/")["content"].(string)
	if n := len(utf16.Encode([]rune(content))); n > maxDiscord || !strings.HasSuffix(content, "…\n<https://stats.example/>") {
		t.Errorf("%d characters, ends with %q", n, content[len(content)-40:])
	}
}

// TestTeamsBody checks that all values are runs of text, which have no markup.
func TestTeamsBody(t *testing.T) {
	t.Parallel()
	for _, value := range injections {
		body, _ := encoded(t, teamsBody(messageOf(value), "https://stats.example/"))
		attachment := body["attachments"].([]any)[0].(map[string]any)
		card := attachment["content"].(map[string]any)
		if body["type"] != "message" || attachment["contentType"] != "application/vnd.microsoft.card.adaptive" ||
			card["type"] != "AdaptiveCard" || card["msteams"] != nil {
			t.Errorf("%q: %v", value, body)
		}
		for _, block := range card["body"].([]any) {
			inlines, ok := block.(map[string]any)["inlines"].([]any)
			if !ok || block.(map[string]any)["type"] != "RichTextBlock" || inlines[0].(map[string]any)["type"] != "TextRun" {
				t.Errorf("%q: block %v", value, block)
			}
		}
	}
}

// TestEventBody checks the JSON of a signed call.
func TestEventBody(t *testing.T) {
	t.Parallel()
	ids, err := nodeid.New(strings.Repeat("0123456789abcdef", 4))
	testkit.NoError(t, err)
	at := model.Instant(1795168800000000)
	leased := &outbox.Leased{MessageID: "alertmessage_x", Channel: &model.AlertChannel{Kind: model.ChannelWebhook},
		Message: &model.AlertMessage{Event: "traffic_drop", Phase: model.AlertBegun, Data: model.AlertData{
			MailSite: model.MailSite{Site: "shop.example", SiteID: 7}, Account: "Shop <Ltd>", BeganAt: at,
			Figures: model.AlertFigures{Value: 3, Usual: 120, Percent: 2},
		}}}
	raw, err := encodeBody(eventBody(leased, ids, texts.Text{Title: "Few page views on shop.example", Change: "Page views −97%: /sale −110"}, "https://stats.example/sites/x"))
	want := `{"type":"alert","id":"alertmessage_x","event":"traffic_drop","phase":"begun","title":"Few page views on shop.example",` +
		`"account":"Shop <Ltd>","site":{"id":"` + ids.Of(nodeid.Site, 7) + `","domain":"shop.example"},"began_at":"2026-11-20T10:00:00Z",` +
		`"figures":{"value":3,"usual":120,"percent":2},"change":"Page views −97%: /sale −110","url":"https://stats.example/sites/x"}`
	if err != nil || string(raw) != want {
		t.Errorf("body %s, %v\nwant %s", raw, err, want)
	}
	openapitest.Webhook(t, model.MessageKindAlert, leased.Message.Event, string(raw))

	// The other messages have the documented fields too.
	summary := &model.ReportSummary{Pages: []model.ReportRow{{Value: "/", Visitors: 3}}, Sources: []model.ReportRow{{Value: "x.example"}}}
	for _, m := range []*model.AlertMessage{
		{Event: model.MessageTest, Phase: model.AlertOnce},
		{Event: model.MessageWeekly, Phase: model.AlertOnce, Data: model.AlertData{From: "2026-11-16", To: "2026-11-22", Summary: summary}},
		{Event: model.MessageMonthly, Phase: model.AlertOnce, Data: model.AlertData{From: "2026-10-01", To: "2026-10-31", Summary: summary}},
		{Event: "captcha_attack", Phase: model.AlertBoth, Data: model.AlertData{
			SitekeyID: 8, Sitekey: "form", Subject: "form", Account: "Shop", BeganAt: at, EndedAt: at,
			Figures: model.AlertFigures{Value: 3, Usual: 1, Percent: 300, Threshold: 2, Since: at},
		}},
	} {
		raw, err := encodeBody(eventBody(&outbox.Leased{MessageID: "alertmessage_x", Message: m}, ids, texts.Text{Title: "A title"}, ""))
		testkit.NoError(t, err)
		openapitest.Webhook(t, model.MessageKindAlert, m.Event, string(raw))
	}
}

// TestAlertTextsAreComplete checks that each event has a title in each language.
func TestAlertTextsAreComplete(t *testing.T) {
	t.Parallel()
	for _, language := range model.Languages {
		for _, event := range model.AlertEvents {
			text := texts.Of(language, string(event), model.AlertBegun, &model.AlertData{Subject: "s"}, "")
			if text.Title == string(event) || strings.Contains(text.Title, "%!") {
				t.Errorf("%s in %s has the title %q", event, language, text.Title)
			}
		}
	}
}
