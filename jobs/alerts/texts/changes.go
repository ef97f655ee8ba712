package texts

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"golang.org/x/text/language"
	"golang.org/x/text/language/display"

	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/reports/changes"
	"github.com/tallygate/tallygate/jobs/mail/text"
)

// changeWords are the texts of a change in one language.
type changeWords struct {
	metrics map[string]string
	nouns   map[model.ReportDimension]string
	values  map[string]string // of channels and devices that are not in English

	places    display.Namer // countries, by their codes
	languages display.Namer // by the codes of browsers

	among, without   string // before the next cause, and before the noun of values that are missing
	day              string // day and month
	noHits, noHitsTo string // on a day, from and to; from a day and time to another one
}

var englishChange = &changeWords{
	metrics: map[string]string{string(changes.Visits): "Visits", string(changes.Pageviews): "Page views"},
	nouns: map[model.ReportDimension]string{
		model.DimensionSourceName: "source", model.DimensionChannel: "channel", model.DimensionUTMCampaign: "campaign",
		model.DimensionPage: "page", model.DimensionEntryPage: "entry page", model.DimensionCountry: "country",
		model.DimensionDevice: "device", model.DimensionHostname: "hostname", model.DimensionLanguage: "language",
	},
	places: display.English.Regions(), languages: display.English.Languages(),
	among: "including", without: "no",
	day: "%[1]d %[2]s", noHits: "no hits on %s from %s to %s", noHitsTo: "no hits from %s, %s, to %s, %s",
}

var germanChange = &changeWords{
	metrics: map[string]string{string(changes.Visits): "Besuche", string(changes.Pageviews): "Seitenaufrufe"},
	nouns: map[model.ReportDimension]string{
		model.DimensionSourceName: "Quelle", model.DimensionChannel: "Kanal", model.DimensionUTMCampaign: "Kampagne",
		model.DimensionPage: "Seite", model.DimensionEntryPage: "Einstiegsseite", model.DimensionCountry: "Land",
		model.DimensionDevice: "Gerät", model.DimensionHostname: "Hostname", model.DimensionLanguage: "Sprache",
	},
	values: map[string]string{
		"direct": "direkt", "organic search": "organische Suche", "paid search": "bezahlte Suche",
		"organic social": "soziale Medien", "paid social": "bezahlte soziale Medien", "organic video": "Video",
		"paid video": "bezahltes Video", "email": "E-Mail", "referral": "Verweise", "display": "Bannerwerbung",
		"affiliates": "Partner", "other paid": "andere bezahlte", "unassigned": "nicht zugeordnet",
		"desktop": "Computer", "phone": "Telefon", "tablet": "Tablet", "tv": "Fernseher",
	},
	places: display.German.Regions(), languages: display.German.Languages(),
	among: "davon", without: "ohne",
	day: "%[1]d. %[2]s", noHits: "keine Aufrufe am %s von %s bis %s Uhr", noHitsTo: "keine Aufrufe vom %s, %s Uhr, bis %s, %s Uhr",
}

// line returns a change as one line: the figure, its causes, each among the visits of the one
// before, and the hours without hits. The console has the same parts in the same order.
func (w *changeWords) line(l *text.Locale, c *model.Change) string {
	if c == nil || w.metrics[c.Metric] == "" {
		return ""
	}

	by := text.ChangeOf(c.After, c.Before)
	line := w.metrics[c.Metric] + " " + by.Sign
	if by.Percent > 0 {
		line += l.Percent(by.Percent)
	} else {
		line += l.Number(by.By) // from 0, or by less than a percent
	}

	var causes, parts []string
	for _, cause := range c.Causes {
		by := text.ChangeOf(cause.Difference, 0)
		causes = append(causes, w.names(l, cause.Names)+" "+by.Sign+l.Number(by.By))
	}
	if causes != nil {
		parts = append(parts, strings.Join(causes, ", "+w.among+" "))
	}
	if c.Gap != nil {
		parts = append(parts, w.gap(l, c.Gap))
	}
	if parts == nil {
		return ""
	}
	return line + ": " + strings.Join(parts, "; ")
}

// shownNames is how many names of one cause a line has.
const shownNames = 3

// names returns the names of a cause. Paths, sources, channels and campaigns need no noun.
func (w *changeWords) names(l *text.Locale, names []model.ChangeName) string {
	withNoun := []model.ReportDimension{
		model.DimensionEntryPage, model.DimensionCountry, model.DimensionDevice, model.DimensionLanguage,
	}

	var list []string
	for _, name := range names[:min(shownNames, len(names))] {
		value := w.value(name)
		switch {
		case value == "":
			value = w.without + " " + w.nouns[name.By]
		case name.By == model.DimensionUTMCampaign:
			value = l.Quote(value)
		case slices.Contains(withNoun, name.By):
			value = w.nouns[name.By] + " " + value
		}

		list = append(list, value)
	}
	return strings.Join(list, " / ")
}

// value returns a value in words, where it is a code.
func (w *changeWords) value(name model.ChangeName) string {
	value := clean(name.Value)
	switch name.By {
	case model.DimensionChannel, model.DimensionDevice:
		return cmp.Or(w.values[value], value)
	case model.DimensionCountry:
		if place, err := language.ParseRegion(value); err == nil {
			return cmp.Or(w.places.Name(place), value)
		}
	case model.DimensionLanguage:
		if tag, err := language.Parse(value); err == nil {
			return cmp.Or(w.languages.Name(tag), value)
		}
	}
	return value
}

// gap returns hours without hits.
func (w *changeWords) gap(l *text.Locale, gap *model.ChangeGap) string {
	// A time that another program wrote into the row is shown as year 1.
	from, _ := time.Parse(model.ChangeGapTime, gap.From)
	to, _ := time.Parse(model.ChangeGapTime, gap.To)

	day := func(at time.Time) string { return fmt.Sprintf(w.day, at.Day(), l.MonthName(at.Month())) }
	clock := func(at time.Time) string { return at.Format("15:04") }
	switch midnight := to.Add(-time.Minute); {
	case from.YearDay() == to.YearDay():
		return fmt.Sprintf(w.noHits, day(from), clock(from), clock(to))
	case from.YearDay() == midnight.YearDay() && clock(to) == "00:00":
		return fmt.Sprintf(w.noHits, day(from), clock(from), "24:00")
	}
	return fmt.Sprintf(w.noHitsTo, day(from), clock(from), day(to), clock(to))
}
