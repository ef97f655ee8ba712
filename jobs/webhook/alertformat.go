package webhook

import (
	"bytes"
	"encoding/json"
	"strings"
	"time"
	"unicode/utf16"

	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/nodeid"
	"github.com/tallygate/tallygate/db/outbox"
	"github.com/tallygate/tallygate/jobs/alerts/texts"
)

// The bodies of messages to alert channels. Values that others choose, such as the subject and
// paths of pages, never become markup, links or mentions: each format uses fields without markup
// where it has them, and the others are escaped.

// alertBody returns the body of a leased message to a channel.
func (d *Deliverer) alertBody(leased *outbox.Leased, ids *nodeid.IDs) ([]byte, error) {
	m, siteID := leased.Message, ""
	if m.Data.SiteID != 0 {
		siteID = nodeid.Of(ids, m.Data.SiteID)
	}

	t := texts.Of(leased.Channel.Language, m.Event, m.Phase, &m.Data, siteID)
	link := ""
	if d.baseURL != "" {
		link = d.baseURL + t.Path
	}

	switch leased.Channel.Kind {
	case model.ChannelSlack:
		return encodeBody(slackBody(t, link))
	case model.ChannelDiscord:
		return encodeBody(discordBody(t, link))
	case model.ChannelTeams:
		return encodeBody(teamsBody(t, link))
	}
	return encodeBody(eventBody(leased, ids, t, link))
}

// encodeBody returns a value as JSON. Without the escapes of HTML the texts stay short.
func encodeBody(value any) ([]byte, error) {
	var body bytes.Buffer
	e := json.NewEncoder(&body)
	e.SetEscapeHTML(false)
	err := e.Encode(value)
	return bytes.TrimSpace(body.Bytes()), err
}

type object = map[string]any

// Limits of the formats.
const (
	maxSlackHeader = 150   // characters of a header
	maxSlackText   = 3_000 // characters of a section
	maxDiscord     = 2_000 // UTF-16 code units of a message
	maxTeams       = 8_000 // characters; the message has at most 28 KB
)

// slackBody returns a message for incoming webhooks of Slack, and of services with the same form.
// Blocks have plain text. The field text is for notifications, and for services that know no
// blocks.
func slackBody(t texts.Text, link string) object {
	plain := func(s string, most int) object {
		return object{"type": "plain_text", "text": cut(harmless(s), most), "emoji": false}
	}

	blocks := []object{{"type": "header", "text": plain(t.Title, maxSlackHeader)}}
	if len(t.Lines) > 0 {
		blocks = append(blocks, object{"type": "section", "text": plain(strings.Join(t.Lines, "\n"), maxSlackText)})
	}

	text := escapeSlack(t.Title)
	for _, line := range t.Lines {
		text += "\n" + escapeSlack(line)
	}
	text = cut(text, maxSlackText)
	if link != "" {
		blocks = append(blocks, object{"type": "actions", "elements": []object{{
			"type": "button", "text": plain(t.Open, maxSlackHeader), "url": link,
		}}})
		text += "\n" + link
	}

	return object{
		"text": text, "blocks": blocks, "mrkdwn": false, "parse": "none", "link_names": false,
		"unfurl_links": false, "unfurl_media": false,
	}
}

// discordBody returns a message for webhooks of Discord. It mentions no one, and shows no preview
// of a link.
func discordBody(t texts.Text, link string) object {
	const suppressEmbeds = 1 << 2
	content := "**" + escapeMarkdown(t.Title) + "**"
	for _, line := range t.Lines {
		content += "\n" + escapeMarkdown(line)
	}

	end := ""
	if link != "" {
		end = "\n<" + link + ">"
	}
	return object{
		"content":          cutUTF16(content, maxDiscord-len(end)) + end,
		"allowed_mentions": object{"parse": []string{}},
		"flags":            suppressEmbeds,
	}
}

// teamsBody returns a message with an Adaptive Card for workflows of Teams. Text runs have no
// markup.
func teamsBody(t texts.Text, link string) object {
	run := func(s string, style object) object {
		inline := object{"type": "TextRun", "text": cut(harmless(s), maxTeams/4)}
		for name, value := range style {
			inline[name] = value
		}
		return object{"type": "RichTextBlock", "inlines": []object{inline}}
	}

	body, left := []object{run(t.Title, object{"weight": "bolder", "size": "medium"})}, maxTeams
	for _, line := range t.Lines {
		if left -= len(line); left < 0 {
			break
		}
		body = append(body, run(line, nil))
	}

	card := object{
		"$schema": "http://adaptivecards.io/schemas/adaptive-card.json", "type": "AdaptiveCard", "version": "1.4", "body": body,
	}
	if link != "" {
		card["actions"] = []object{{"type": "Action.OpenUrl", "title": t.Open, "url": link}}
	}
	return object{
		"type": "message",
		"attachments": []object{{
			"contentType": "application/vnd.microsoft.card.adaptive", "contentUrl": nil, "content": card,
		}},
	}
}

// alertEvent is the body of a signed call; docs/owner/alerts.md describes it.
type alertEvent struct {
	Type    string               `json:"type"` // alert, summary or test
	ID      string               `json:"id"`   // the same as webhook-id
	Event   string               `json:"event"`
	Phase   model.AlertPhase     `json:"phase,omitempty"`
	Title   string               `json:"title"`
	Account string               `json:"account,omitempty"`
	Site    *alertObject         `json:"site,omitempty"`
	Sitekey *alertObject         `json:"sitekey,omitempty"`
	Subject string               `json:"subject,omitempty"`
	BeganAt string               `json:"began_at,omitempty"`
	EndedAt string               `json:"ended_at,omitempty"`
	Figures *alertFigures        `json:"figures,omitempty"`
	Change  string               `json:"change,omitempty"`
	From    string               `json:"from,omitempty"`
	To      string               `json:"to,omitempty"`
	Summary *model.ReportSummary `json:"summary,omitempty"`
	URL     string               `json:"url,omitempty"`
}

// alertObject is a site or a sitekey.
type alertObject struct {
	ID     string `json:"id"`
	Domain string `json:"domain,omitempty"`
	Name   string `json:"name,omitempty"`
}

// alertFigures are model.AlertFigures with a readable time.
type alertFigures struct {
	Value     int64  `json:"value"`
	Usual     int64  `json:"usual,omitempty"`
	Percent   int64  `json:"percent,omitempty"`
	Threshold int64  `json:"threshold,omitempty"`
	Since     string `json:"since,omitempty"`
}

// eventBody returns the body of a signed call.
func eventBody(leased *outbox.Leased, ids *nodeid.IDs, t texts.Text, link string) *alertEvent {
	m, data := leased.Message, &leased.Message.Data
	e := &alertEvent{
		Type: "alert", ID: leased.MessageID, Event: m.Event, Phase: m.Phase, Title: t.Title, Account: data.Account,
		Subject: data.Subject, BeganAt: timeText(data.BeganAt), EndedAt: timeText(data.EndedAt),
		From: data.From, To: data.To, Summary: data.Summary, Change: t.Change, URL: link,
	}
	switch m.Event {
	case model.MessageTest:
		e.Type = "test"
	case model.MessageWeekly, model.MessageMonthly:
		e.Type = "summary"
	default:
		f := data.Figures
		if f == (model.AlertFigures{}) {
			break
		}
		e.Figures = &alertFigures{f.Value, f.Usual, f.Percent, f.Threshold, timeText(f.Since)}
	}

	if data.SiteID != 0 {
		e.Site = &alertObject{ID: nodeid.Of(ids, data.SiteID), Domain: data.Site}
	}
	if data.SitekeyID != 0 {
		e.Sitekey = &alertObject{ID: nodeid.Of(ids, data.SitekeyID), Name: data.Sitekey}
	}
	return e
}

// timeText returns a time in RFC 3339, or "" for none.
func timeText(at model.Instant) string {
	if at == 0 {
		return ""
	}
	return at.Time().UTC().Format(time.RFC3339)
}

// joiner is a zero-width space, which separates characters that programs would join to a link or a
// mention.
const joiner = "\u200b"

// harmless separates the characters of a text that programs make links and mentions of, also
// without markup.
var harmless = strings.NewReplacer("@", "@"+joiner, "://", ":"+joiner+"//", "www.", "www"+joiner+".",
	"mailto:", "mailto"+joiner+":").Replace

// escapeSlack escapes what Slack reads in the text of a message: entities, and by harmless and more
// joiners the markup of services that read Markdown there.
func escapeSlack(s string) string {
	return slackEscapes.Replace(harmless(s))
}

var slackEscapes = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", "*", "*"+joiner, "_", "_"+joiner,
	"~", "~"+joiner, "`", "'", "[", "["+joiner, "]", "]"+joiner, "|", "|"+joiner)

// escapeMarkdown escapes Markdown with backslashes.
func escapeMarkdown(s string) string { return markdownEscapes.Replace(harmless(s)) }

var markdownEscapes = func() *strings.Replacer {
	var pairs []string
	for _, c := range "\\`*_{}[]()<>#+-.!|~:" {
		pairs = append(pairs, string(c), "\\"+string(c))
	}
	return strings.NewReplacer(pairs...)
}()

// cut returns at most n characters of a text.
func cut(s string, n int) string {
	if runes := []rune(s); len(runes) > n {
		return string(runes[:n-1]) + "…"
	}
	return s
}

// cutUTF16 returns a text of at most n UTF-16 code units, in which Discord counts. It never ends
// within an escape or in a bold title.
func cutUTF16(s string, n int) string {
	if units := utf16.Encode([]rune(s)); len(units) <= n {
		return s
	}

	lines, used := strings.Split(s, "\n"), 0
	for i, line := range lines {
		size := len(utf16.Encode([]rune(line))) + 1
		if used += size; used > n-2 {
			return strings.Join(append(lines[:i:i], "…"), "\n")
		}
	}
	return s
}
