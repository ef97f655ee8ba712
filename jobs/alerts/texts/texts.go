// Package texts writes what messages to alert channels say, in each language: a title and lines of
// plain text. Package mail puts it into mails, and package webhook into the formats of chats, which
// escape it.
package texts

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/jobs/mail/text"
)

// Text is the text of a message. Its values can have any characters that a site's visitors chose,
// except controls and line breaks.
type Text struct {
	Title  string
	Lines  []string
	Change string // why a figure is different, which is also one of Lines; may be ""
	Open   string // text of the link to Path
	Path   string // of the console's page
}

// words are the texts of one language. %[1]s is the site or sitekey, %[2]s the subject.
type words struct {
	titles map[string]string
	lines  map[string]func(l *text.Locale, f model.AlertFigures) string

	over, both, began, ended, open, captcha, installation string

	visitors, visits, pageviews, before, pages, sources, direct string

	change *changeWords
}

// englishTraffic is the line of spikes and of drops.
func englishTraffic(l *text.Locale, f model.AlertFigures) string {
	return fmt.Sprintf("%s in an hour, usually %s.", l.Count(f.Value, "page view", "page views"), l.Number(f.Usual))
}

// germanTraffic is englishTraffic in German.
func germanTraffic(l *text.Locale, f model.AlertFigures) string {
	return fmt.Sprintf("%s in einer Stunde, üblich sind %s.", l.Count(f.Value, "Seitenaufruf", "Seitenaufrufe"), l.Number(f.Usual))
}

var languages = map[model.Language]*words{
	model.English: {
		titles: map[string]string{
			string(model.AlertTrafficSpike):      "Many page views on %[1]s",
			string(model.AlertTrafficDrop):       "Few page views on %[1]s",
			string(model.AlertNoHits):            "No page views on %[1]s",
			string(model.AlertCallsRefused):      "Calls of %[1]s are refused",
			string(model.AlertQuota):             "Quota of %[1]s",
			string(model.AlertDeliveriesFailed):  "Webhook deliveries of %[1]s fail",
			string(model.AlertCaptchaAttack):     "Attack on the sitekey %[1]s",
			string(model.AlertNewSignIn):         "New sign-in: %[2]s",
			string(model.AlertJobsFailed):        "A periodic task fails: %[2]s",
			string(model.AlertCertificateFailed): "A certificate is missing or expires soon: %[2]s",
			string(model.AlertQuotasUsed):        "Quotas are nearly used up",
			model.MessageTest:                    "Test message",
			model.MessageWeekly:                  "Week on %[1]s",
			model.MessageMonthly:                 "Month on %[1]s",
			model.MessageSpike:                   "Many visitors on %[1]s",
			model.MessageDrop:                    "Few visitors on %[1]s",
		},
		lines: map[string]func(*text.Locale, model.AlertFigures) string{
			string(model.AlertTrafficSpike): englishTraffic,
			string(model.AlertTrafficDrop):  englishTraffic,
			model.MessageSpike: func(l *text.Locale, f model.AlertFigures) string {
				return fmt.Sprintf("%s within 5 minutes, more than %s.", l.Count(f.Value, "visitor", "visitors"), l.Number(f.Threshold))
			},
			model.MessageDrop: func(l *text.Locale, f model.AlertFigures) string {
				return fmt.Sprintf("%s on a day, fewer than %s.", l.Count(f.Value, "visitor", "visitors"), l.Number(f.Threshold))
			},
			string(model.AlertNoHits): func(l *text.Locale, f model.AlertFigures) string {
				if f.Since == 0 {
					return fmt.Sprintf("%s are usual in this time.", l.Count(f.Usual, "page view", "page views"))
				}
				return fmt.Sprintf("The last one arrived on %s. Usually there are %s in this time.", l.Time(f.Since), l.Number(f.Usual))
			},
			string(model.AlertCallsRefused): func(l *text.Locale, f model.AlertFigures) string {
				return fmt.Sprintf("%s: %s of all.", l.Count(f.Value, "refused call", "refused calls"), l.Percent(f.Percent))
			},
			string(model.AlertQuota): func(l *text.Locale, f model.AlertFigures) string {
				return fmt.Sprintf("%s of the month's quota of %s is used.", l.Percent(f.Percent), l.Number(f.Threshold))
			},
			string(model.AlertDeliveriesFailed): func(l *text.Locale, f model.AlertFigures) string {
				return l.Count(f.Value, "delivery failed", "deliveries failed") + "."
			},
			string(model.AlertCaptchaAttack): func(l *text.Locale, f model.AlertFigures) string {
				return fmt.Sprintf("%s in ten minutes, usually %s.", l.Count(f.Value, "network", "networks"), l.Number(f.Usual))
			},
			string(model.AlertCertificateFailed): func(l *text.Locale, f model.AlertFigures) string {
				if f.Since == 0 {
					return "There is no certificate."
				}
				return fmt.Sprintf("End of the certificate: %s.", l.Time(f.Since))
			},
			string(model.AlertQuotasUsed): func(l *text.Locale, f model.AlertFigures) string {
				return l.Count(f.Value, "quota of the month is", "quotas of the month are") + " used to 80 % or more."
			},
			model.MessageTest: func(*text.Locale, model.AlertFigures) string {
				return "This channel gets alerts. Nothing has happened."
			},
		},
		over: "Over: ", both: "Began and ended: ", began: "Began", ended: "Ended", open: "Open Tallygate",
		captcha: "the captcha", installation: "the installation",
		visitors: "Visitors", visits: "Visits", pageviews: "Page views", before: "before", pages: "Pages", sources: "Sources",
		direct: "Direct", change: englishChange,
	},
	model.German: {
		titles: map[string]string{
			string(model.AlertTrafficSpike):      "Viele Seitenaufrufe auf %[1]s",
			string(model.AlertTrafficDrop):       "Wenige Seitenaufrufe auf %[1]s",
			string(model.AlertNoHits):            "Keine Seitenaufrufe auf %[1]s",
			string(model.AlertCallsRefused):      "Aufrufe von %[1]s werden abgelehnt",
			string(model.AlertQuota):             "Kontingent von %[1]s",
			string(model.AlertDeliveriesFailed):  "Webhook-Zustellungen von %[1]s schlagen fehl",
			string(model.AlertCaptchaAttack):     "Angriff auf den Sitekey %[1]s",
			string(model.AlertNewSignIn):         "Neue Anmeldung: %[2]s",
			string(model.AlertJobsFailed):        "Eine regelmäßige Aufgabe schlägt fehl: %[2]s",
			string(model.AlertCertificateFailed): "Ein Zertifikat fehlt oder läuft bald ab: %[2]s",
			string(model.AlertQuotasUsed):        "Kontingente sind fast verbraucht",
			model.MessageTest:                    "Testnachricht",
			model.MessageWeekly:                  "Woche auf %[1]s",
			model.MessageMonthly:                 "Monat auf %[1]s",
			model.MessageSpike:                   "Viele Besucher auf %[1]s",
			model.MessageDrop:                    "Wenige Besucher auf %[1]s",
		},
		lines: map[string]func(*text.Locale, model.AlertFigures) string{
			string(model.AlertTrafficSpike): germanTraffic,
			string(model.AlertTrafficDrop):  germanTraffic,
			model.MessageSpike: func(l *text.Locale, f model.AlertFigures) string {
				return fmt.Sprintf("%s binnen 5 Minuten, mehr als %s.", l.Count(f.Value, "Besucher", "Besucher"), l.Number(f.Threshold))
			},
			model.MessageDrop: func(l *text.Locale, f model.AlertFigures) string {
				return fmt.Sprintf("%s an einem Tag, weniger als %s.", l.Count(f.Value, "Besucher", "Besucher"), l.Number(f.Threshold))
			},
			string(model.AlertNoHits): func(l *text.Locale, f model.AlertFigures) string {
				if f.Since == 0 {
					return fmt.Sprintf("Üblich sind in dieser Zeit %s.", l.Count(f.Usual, "Seitenaufruf", "Seitenaufrufe"))
				}
				return fmt.Sprintf("Der letzte kam am %s. Üblich sind in dieser Zeit %s.", l.Time(f.Since), l.Number(f.Usual))
			},
			string(model.AlertCallsRefused): func(l *text.Locale, f model.AlertFigures) string {
				return fmt.Sprintf("%s: %s von allen.", l.Count(f.Value, "abgelehnter Aufruf", "abgelehnte Aufrufe"), l.Percent(f.Percent))
			},
			string(model.AlertQuota): func(l *text.Locale, f model.AlertFigures) string {
				return fmt.Sprintf("%s des Monatskontingents von %s sind verbraucht.", l.Percent(f.Percent), l.Number(f.Threshold))
			},
			string(model.AlertDeliveriesFailed): func(l *text.Locale, f model.AlertFigures) string {
				return l.Count(f.Value, "Zustellung ist fehlgeschlagen", "Zustellungen sind fehlgeschlagen") + "."
			},
			string(model.AlertCaptchaAttack): func(l *text.Locale, f model.AlertFigures) string {
				return fmt.Sprintf("%s in zehn Minuten, üblich sind %s.", l.Count(f.Value, "Netz", "Netze"), l.Number(f.Usual))
			},
			string(model.AlertCertificateFailed): func(l *text.Locale, f model.AlertFigures) string {
				if f.Since == 0 {
					return "Es gibt kein Zertifikat."
				}
				return fmt.Sprintf("Ende des Zertifikats: %s.", l.Time(f.Since))
			},
			string(model.AlertQuotasUsed): func(l *text.Locale, f model.AlertFigures) string {
				return l.Count(f.Value, "Monatskontingent ist", "Monatskontingente sind") + " zu 80 % oder mehr verbraucht."
			},
			model.MessageTest: func(*text.Locale, model.AlertFigures) string {
				return "Dieser Kanal erhält Meldungen. Es ist nichts geschehen."
			},
		},
		over: "Vorbei: ", both: "Begonnen und beendet: ", began: "Begonnen", ended: "Beendet", open: "Tallygate öffnen",
		captcha: "dem Captcha", installation: "der Installation",
		visitors: "Besucher", visits: "Besuche", pageviews: "Seitenaufrufe", before: "zuvor", pages: "Seiten", sources: "Quellen",
		direct: "Direkt", change: germanChange,
	},
}

// Of returns the text of a message in a language. ids returns the global id of the site for the
// path of the page; it may be "".
func Of(language model.Language, event string, phase model.AlertPhase, data *model.AlertData, siteID string) Text {
	w, l := languages[language], text.Locales[language]
	if w == nil {
		w, l = languages[model.English], text.Locales[model.English]
	}

	about := cmp.Or(clean(data.Site), clean(data.Sitekey))
	if about == "" {
		about = w.captcha
	}
	t := Text{Title: clean(fmt.Sprintf(cmp.Or(w.titles[event], event)+"%[3]s", about, clean(data.Subject), "")), Open: w.open,
		Path: path(event, data, siteID)}

	if line := w.lines[event]; line != nil {
		t.Lines = append(t.Lines, line(l, data.Figures))
	}
	if data.Subject != "" && !strings.Contains(w.titles[event], "%[2]s") {
		t.Lines = append(t.Lines, clean(data.Subject))
	}
	switch {
	case data.Summary != nil:
		t.Lines = append(t.Lines, w.summary(l, data)...)
	case data.From != "":
		t.Lines = append(t.Lines, l.Day(data.From))
	}

	if t.Change = w.change.line(l, data.Figures.Change); t.Change != "" {
		t.Lines = append(t.Lines, t.Change)
	}

	switch phase {
	case model.AlertEnded:
		t.Title = w.over + t.Title
	case model.AlertBoth:
		t.Title = w.both + t.Title
	}
	if data.BeganAt != 0 {
		t.Lines = append(t.Lines, w.began+": "+l.Time(data.BeganAt))
	}
	if data.EndedAt != 0 && phase != model.AlertOnce {
		t.Lines = append(t.Lines, w.ended+": "+l.Time(data.EndedAt))
	}
	if data.Account != "" {
		t.Lines = append(t.Lines, l.AccountLabel+": "+clean(data.Account))
	}
	return t
}

// maxValue is the longest value of a message in characters.
const maxValue = 200

// clean returns a value as one line without controls.
func clean(s string) string { return model.Clean(strings.Join(strings.Fields(s), " "), maxValue) }

// summary returns the lines of a period's figures.
func (w *words) summary(l *text.Locale, data *model.AlertData) []string {
	now, before := data.Summary.Figures, data.Summary.Previous
	figure := func(name string, now, before int64) string {
		return fmt.Sprintf("%s: %s (%s %s)", name, l.Number(now), w.before, l.Number(before))
	}

	lines := []string{
		l.Day(data.From) + " – " + l.Day(data.To),
		figure(w.visitors, now.Visitors, before.Visitors),
		figure(w.visits, now.Visits, before.Visits),
		figure(w.pageviews, now.Pageviews, before.Pageviews),
	}
	for _, table := range []struct {
		name string
		rows []model.ReportRow
	}{{w.pages, data.Summary.Pages}, {w.sources, data.Summary.Sources}} {
		var values []string
		for _, row := range table.rows {
			values = append(values, fmt.Sprintf("%s (%s)", cmp.Or(clean(row.Value), w.direct), l.Number(row.Visitors)))
		}
		if values != nil {
			lines = append(lines, table.name+": "+strings.Join(values, ", "))
		}
	}
	return lines
}

// path returns the path of the page that shows what a message is about.
func path(event string, data *model.AlertData, siteID string) string {
	switch event {
	case string(model.AlertCaptchaAttack):
		return "/captcha"
	case string(model.AlertNewSignIn):
		return "/security"
	case string(model.AlertQuotasUsed):
		return "/operator"
	}
	if siteID == "" {
		return "/"
	}

	page := "/sites/" + siteID
	switch event {
	case string(model.AlertQuota):
		return page + "/usage"
	case string(model.AlertDeliveriesFailed):
		return page + "/webhooks"
	case model.MessageSpike:
		return page + "/live"
	case model.MessageWeekly, model.MessageMonthly, model.MessageDrop:
		return page + "?from=" + data.From + "&to=" + data.To
	}
	return page
}
