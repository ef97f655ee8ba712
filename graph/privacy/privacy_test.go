package privacy

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tallygate/tallygate/db/exports"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/tools/testkit"
)

var update = flag.Bool("update", false, "write the golden files")

// bare returns the facts of a site with everything off.
func bare() Facts { return Facts{Domain: "shop.example", Server: "stats.example", SmallGroup: 1} }

// fresh returns the facts of a new site.
func fresh() Facts {
	f := bare()
	f.AutomaticEvents, f.SmallGroup, f.KeyEvents = true, 3, []string{model.EventPurchase}
	return f
}

// full returns the facts of a site with everything on.
func full() Facts {
	return Facts{
		Domain: "shop.example", ExtraDomains: []string{"blog.example", "müller.example"}, Server: "stats.example",
		AutomaticEvents: true, SiteSearch: true, Ecommerce: true, RegisteredEvents: []string{"newsletter", "sign_up"},
		UserID: true, ServerEvents: true, Details: model.VisitDetails,
		ExcludedAddresses: true, ExcludedCountries: []string{"AQ", "BV"}, ExcludedPaths: true, Shields: model.Shields,
		RetentionMonths: 14, ReportMonths: 36,
		ConversionHost: "hooks.example", KeyEvents: []string{"purchase", "sign_up"}, ExportHost: "warehouse.example",
		SmallGroup: 5,
	}
}

// examples are the sites of the golden files.
var examples = map[string]func() Facts{
	"bare":  bare,
	"fresh": fresh,
	"details": func() Facts {
		f := fresh()
		f.Details, f.SmallGroup = model.VisitDetails, 10
		f.RetentionMonths = 1
		return f
	},
	"shop": func() Facts {
		f := fresh()
		f.Ecommerce, f.ConversionHost, f.Details = true, "ads.example", []model.VisitDetail{model.DetailCountry}
		f.RetentionMonths, f.ReportMonths = 25, 1
		return f
	},
	"full": full,
}

// TestGolden compares the texts of several sites in each language with files. The text of a site
// with everything on is whole, and the others are held as their differences from it.
func TestGolden(t *testing.T) {
	for name, facts := range examples {
		for _, language := range model.Languages {
			f, everything := facts(), full()
			got, file := Text(language, &f), filepath.Join("testdata", name+"."+string(language)+".txt")
			if name != "full" {
				got = differences(units(Text(language, &everything)), units(got))
				file = strings.TrimSuffix(file, ".txt") + ".diff"
			}

			if *update {
				testkit.NoError(t, os.WriteFile(file, []byte(got), 0o644))
				continue
			}

			want, err := os.ReadFile(file)
			if err != nil || string(want) != got {
				t.Errorf("%s, %v: got\n%s", file, err, got)
			}
		}
	}
}

// sentenceEnd is a place within a paragraph where a sentence or a mark for the owner ends.
var sentenceEnd = regexp.MustCompile(`(\.|\]) +`)

// units returns the headings, items and sentences of a text. The first one after an empty line
// begins with ¶.
func units(text string) []string {
	text = strings.ReplaceAll(sentenceEnd.ReplaceAllString(text, "$1\n"), "\n\n", "\n¶ ")
	return strings.Split(strings.TrimSuffix(text, "\n"), "\n")
}

// beginning returns the first words of a unit, which find it in the whole text.
func beginning(unit string) string {
	words := strings.Split(unit, " ")
	if len(words) <= 8 {
		return unit
	}
	return strings.Join(words[:8], " ") + " …"
}

// differences returns the units that a has (-) and b lacks, by their beginnings, and the units that
// b has (+) and a lacks. Each run of them follows the unit before it, so that its place is known.
func differences(a, b []string) string {
	// common[i][j] is the length of the longest common subsequence of a[i:] and b[j:].
	common := make([][]int, len(a)+1)
	for i := range common {
		common[i] = make([]int, len(b)+1)
	}
	for i := len(a) - 1; i >= 0; i-- {
		for j := len(b) - 1; j >= 0; j-- {
			if common[i][j] = max(common[i+1][j], common[i][j+1]); a[i] == b[j] {
				common[i][j] = common[i+1][j+1] + 1
			}
		}
	}

	var out strings.Builder
	before, same := "", false
	write := func(sign, unit string) {
		if same {
			fmt.Fprintf(&out, "\n %s\n", beginning(before))
		}
		same = false
		fmt.Fprintf(&out, "%s%s\n", sign, unit)
	}
	for i, j := 0, 0; i < len(a) || j < len(b); {
		switch {
		case i < len(a) && j < len(b) && a[i] == b[j]:
			before, same = a[i], true
			i, j = i+1, j+1
		case j == len(b) || i < len(a) && common[i+1][j] >= common[i][j+1]:
			write("-", beginning(a[i]))
			i++
		default:
			write("+", b[j])
			j++
		}
	}
	return out.String()
}

// change is a change of one fact, and what a text must and must not contain after it, in any
// language.
type change struct {
	change func(*Facts)
	needs  func(*Facts) // what the change has an effect on; nil: nothing
	shows  string
}

// changes has a change of every field of Facts.
var changes = map[string]change{
	"Domain":       {change: func(f *Facts) { f.Domain = "other.example" }, shows: "other.example"},
	"ExtraDomains": {change: func(f *Facts) { f.ExtraDomains = []string{"more.example"} }, shows: "more.example"},
	"Server":       {change: func(f *Facts) { f.Server = "count.example" }, shows: "count.example"},

	"AutomaticEvents":  {change: func(f *Facts) { f.AutomaticEvents = true }, shows: "90 %"},
	"SiteSearch":       {change: func(f *Facts) { f.SiteSearch = true }, needs: func(f *Facts) { f.AutomaticEvents = true }, shows: " 100 "},
	"Ecommerce":        {change: func(f *Facts) { f.Ecommerce = true }},
	"RegisteredEvents": {change: func(f *Facts) { f.RegisteredEvents = []string{"sign_up", "lead"} }, shows: "`sign_up`, `lead`"},
	"UserID":           {change: func(f *Facts) { f.UserID = true }, shows: "(SHA-256)"},
	"ServerEvents":     {change: func(f *Facts) { f.ServerEvents = true }},
	"Details":          {change: func(f *Facts) { f.Details = []model.VisitDetail{model.DetailBrowser, model.DetailDevice} }, shows: "Firefox"},

	"ExcludedAddresses": {change: func(f *Facts) { f.ExcludedAddresses = true }},
	"ExcludedCountries": {change: func(f *Facts) { f.ExcludedCountries = []string{"AQ", "BV"} }, shows: "(AQ, BV)"},
	"ExcludedPaths":     {change: func(f *Facts) { f.ExcludedPaths = true }},
	"Shields":           {change: func(f *Facts) { f.Shields = model.Shields }},

	"RetentionMonths": {change: func(f *Facts) { f.RetentionMonths = 14 }, shows: "14"},
	"ReportMonths":    {change: func(f *Facts) { f.ReportMonths = 36 }, shows: "36"},

	"ConversionHost": {change: func(f *Facts) { f.ConversionHost = "hooks.example" }, shows: "hooks.example"},
	"KeyEvents": {
		change: func(f *Facts) { f.KeyEvents = []string{"purchase", "scroll"} },
		needs:  func(f *Facts) { f.ConversionHost, f.AutomaticEvents = "hooks.example", true },
		shows:  ": `scroll`.",
	},
	"ExportHost": {change: func(f *Facts) { f.ExportHost = "warehouse.example" }, shows: "warehouse.example"},
	"SmallGroup": {change: func(f *Facts) { f.SmallGroup = 17 }, shows: "17"},
}

// allChanges has changes, and one of each value of a list that has fixed values.
func allChanges() map[string]change {
	all := make(map[string]change)
	for name, one := range changes {
		all[name] = one
	}
	for _, detail := range model.VisitDetails {
		all[string(detail)] = change{change: func(f *Facts) { f.Details = append(f.Details, detail) }}
	}
	for _, shield := range model.Shields {
		all[string(shield)] = change{change: func(f *Facts) { f.Shields = append(f.Shields, shield) }}
	}
	for _, months := range []int{1, 2} {
		all[fmt.Sprintf("RetentionMonths %d", months)] = change{change: func(f *Facts) { f.RetentionMonths = months }}
		all[fmt.Sprintf("ReportMonths %d", months)] = change{change: func(f *Facts) { f.ReportMonths = months }}
	}
	return all
}

// sides returns the facts of a site with everything off, before and after a change.
func (c change) sides() (before, after Facts) {
	before, after = bare(), bare()
	for _, f := range []*Facts{&before, &after} {
		if c.needs != nil {
			c.needs(f)
		}
	}
	c.change(&after)
	return before, after
}

// TestEveryFactChangesTheText changes every field, detail and shield by itself. Each change gives a
// text of its own in each language.
func TestEveryFactChangesTheText(t *testing.T) {
	fields := reflect.TypeFor[Facts]()
	for i := range fields.NumField() {
		if _, ok := changes[fields.Field(i).Name]; !ok {
			t.Errorf("there is no change of %s: add it", fields.Field(i).Name)
		}
	}

	for _, language := range model.Languages {
		seen := map[string]string{}
		for name, one := range allChanges() {
			before, after := one.sides()
			old, changed := Text(language, &before), Text(language, &after)
			if old == changed {
				t.Errorf("%s in %s changes nothing", name, language)
			}
			if strings.Contains(old, one.shows) == strings.Contains(changed, one.shows) && one.shows != "" {
				t.Errorf("%s in %s: %q is in both texts or in neither:\n%s", name, language, one.shows, changed)
			}
			if other, ok := seen[changed]; ok {
				t.Errorf("%s and %s have the same text in %s", name, other, language)
			}
			seen[changed] = name
		}
	}
}

// signs are words that a text about a detail or a setting has, and that no other sentence has.
var signs = []struct {
	name   string
	off    func(*Facts)
	en, de string
}{
	{name: "COUNTRY", off: without(model.DetailCountry), en: `countr(y|ies)`, de: `L(a|ä)nd(er)?\b`},
	{name: "BROWSER", off: without(model.DetailBrowser), en: `Firefox|name of the browser|, browser`, de: `Firefox|Namen? des Browsers|, Browser`},
	{
		name: "SYSTEM", off: without(model.DetailSystem), en: `Android|name of the operating system|, operating`,
		de: `Android|Namen? des Betriebssystems|, Betriebs`,
	},
	{name: "DEVICE", off: without(model.DetailDevice), en: `tablet|class of`, de: `Tablet|Klasse`},
	{name: "agent", off: func(f *Facts) { f.Details = []model.VisitDetail{model.DetailCountry} }, en: `Sec-CH`, de: `Sec-CH`},
	{name: "HOSTNAME", off: without(model.DetailHostname), en: `host name`, de: `Hostname`},
	{name: "search", off: func(f *Facts) { f.SiteSearch = false }, en: `search terms?|searches`, de: `Suchbegriff|Suchen `},
	{
		name: "automatic events", off: func(f *Facts) { f.AutomaticEvents = false },
		en: `clicks|90 %|search terms?|searches`, de: `Klicks|90 %|Suchbegriff|Suchen `,
	},
	{
		name: "e-commerce", off: func(f *Facts) { f.Ecommerce = false },
		en: `[Oo]rder numbers are|cart|purchase|refund|product`, de: `Bestellnummern|Warenkorb|Kauf|Käufe|Produkt`,
	},
	{name: "user id", off: func(f *Facts) { f.UserID = false }, en: `[Uu]ser ids?\b|user name`, de: `Nutzer-ID|Nutzername`},
	{name: "server events", off: func(f *Facts) { f.ServerEvents = false }, en: `[Oo]ur own server`, de: `unser eigener Server`},
	{name: "conversions", off: func(f *Facts) { f.ConversionHost = "" }, en: `hooks\.example`, de: `hooks\.example`},
	{name: "export", off: func(f *Facts) { f.ExportHost = "" }, en: `warehouse\.example`, de: `warehouse\.example`},
	{name: "small groups", off: func(f *Facts) { f.SmallGroup = 1 }, en: `fewer than`, de: `weniger als \d+ Besucher`},
	{name: "data centres", off: func(f *Facts) { f.Shields = []model.Shield{model.ShieldReferrerSpam} }, en: `data centres`, de: `Rechenzentren`},
	{name: "spam", off: func(f *Facts) { f.Shields = []model.Shield{model.ShieldDataCentres} }, en: `advertising page`, de: `Werbeseite`},
}

func without(detail model.VisitDetail) func(*Facts) {
	return func(f *Facts) {
		f.Details = slices.DeleteFunc(slices.Clone(f.Details), func(d model.VisitDetail) bool { return d == detail })
	}
}

// marks are what the owner must complete or check.
var marks = regexp.MustCompile(`\[[^\]]*\]`)

// TestWhatIsOffIsNotNamed turns off one setting of a site with everything on. No word about it is
// left, except in marks for the owner.
func TestWhatIsOffIsNotNamed(t *testing.T) {
	for _, sign := range signs {
		for language, pattern := range map[model.Language]string{model.English: sign.en, model.German: sign.de} {
			words := regexp.MustCompile(pattern)
			on := full()
			on.ExcludedCountries = nil
			off := on
			sign.off(&off)

			if text := marks.ReplaceAllString(Text(language, &on), ""); !words.MatchString(text) {
				t.Errorf("%s in %s: %q is not in the text with everything on", sign.name, language, pattern)
			}
			if found := words.FindString(marks.ReplaceAllString(Text(language, &off), "")); found != "" {
				t.Errorf("%s in %s is off, and the text has %q", sign.name, language, found)
			}
		}
	}
}

// TestLanguagesHaveTheSameSections compares the lines of both languages by their kind, of every
// example and every change.
func TestLanguagesHaveTheSameSections(t *testing.T) {
	facts := map[string]Facts{}
	for name, example := range examples {
		facts[name] = example()
	}
	for name, one := range allChanges() {
		_, facts["after "+name] = one.sides()
	}

	for name, f := range facts {
		en, de := kinds(Text(model.English, &f)), kinds(Text(model.German, &f))
		if en != de || strings.Count(en, "###") != 8 {
			t.Errorf("%s:\n%s\n%s", name, en, de)
		}
		testkit.Equal(t, Text("fr", &f), Text(model.English, &f), "%s: an unknown language is not English", name)
	}
}

// kinds returns the kind of each line: a heading, an item, a paragraph with its number of marks, or
// none.
func kinds(text string) string {
	var lines []string
	for line := range strings.Lines(text) {
		kind, _, _ := strings.Cut(line, " ")
		switch {
		case strings.HasPrefix(kind, "#"), kind == "-":
		case line == "\n":
			kind = ""
		default:
			kind = "p"
		}
		lines = append(lines, fmt.Sprintf("%s%d", kind, strings.Count(line, "[")))
	}
	return strings.Join(lines, " ")
}

var verb = regexp.MustCompile(`%[sd]`)

// TestPhrases checks that no phrase is missing in a language, that both have the same verbs, and
// that each phrase is in the text of some site.
func TestPhrases(t *testing.T) {
	all := map[model.Language]string{}
	for _, language := range model.Languages {
		for _, example := range examples {
			f := example()
			all[language] += Text(language, &f)
		}
		for _, one := range allChanges() {
			before, after := one.sides()
			all[language] += Text(language, &before) + Text(language, &after)
		}
		if strings.Contains(all[language], "%!") {
			t.Errorf("a phrase in %s has a verb too many, or too few", language)
		}
	}

	kind := reflect.TypeFor[phrases]()
	for i := range kind.NumField() {
		name := kind.Field(i).Name
		en, de := reflect.ValueOf(english).Field(i).String(), reflect.ValueOf(german).Field(i).String()
		if en == "" || de == "" || !slices.Equal(verb.FindAllString(en, -1), verb.FindAllString(de, -1)) {
			t.Errorf("%s: %q, %q", name, en, de)
		}

		for language, phrase := range map[model.Language]string{model.English: en, model.German: de} {
			for _, part := range verb.Split(phrase, -1) {
				if !strings.Contains(all[language], part) {
					t.Errorf("%s in %s is in no text", name, language)
				}
			}
		}
	}
}

// columns are the columns of the export with the phrase that names each of them. Further columns
// say how rows belong together.
var columns = map[string]string{
	"row_id": "", "visit_id": "",
	"time": english.Time, "pageview_id": "random number of the page view", "path": english.Path, "language": english.Language,
	"screen_width": english.Width, "engaged_ms": "how long the page was in view", "scroll_percent": "how far it was scrolled",
	"manual": "whether the page itself reported it",
	"event":  english.OfEvent, "value": "amount", "currency": "currency", "transaction_id": "order number",
	"properties": "with other values that our website adds",
	"visitor_id": english.Pseudonym, "visit_started_at": "the times of its beginning", "visit_last_pageview_at": "of its last page view",
	"visit_pageviews": "the number of its page views", "channel": english.Channel, "referrer": english.Referrer,
	"utm_source": "`utm_source`", "utm_medium": "`utm_medium`", "utm_campaign": "`utm_campaign`", "utm_content": "`utm_content`",
	"utm_term": "`utm_term`", "gclid": "`gclid`", "gbraid": "`gbraid`", "wbraid": "`wbraid`", "fbclid": "`fbclid`", "msclkid": "`msclkid`",
	"user_id": english.VisitUserID, "country": english.Country, "browser": english.Browser, "system": english.System,
	"device": english.Device, "hostname": english.Hostname,
}

// TestEveryColumnIsNamed fails when a visit, page view or event has a column that the text does not
// name.
func TestEveryColumnIsNamed(t *testing.T) {
	f := full()
	text := Text(model.English, &f)
	for _, field := range append((&exports.Pageview{}).Fields(), (&exports.Event{}).Fields()...) {
		phrase, ok := columns[field.Name]
		if !ok || !strings.Contains(text, phrase) {
			t.Errorf("the text does not name the column %s: %q", field.Name, phrase)
		}
	}
}

// TestNumbers compares the numbers of the text with the program's.
func TestNumbers(t *testing.T) {
	ranges := map[string]bool{}
	for pixels := range 4_000 {
		if name := model.WidthRangeName(model.WidthRange(pixels)); name != "" {
			ranges[name] = true
		}
	}
	if len(ranges) != 7 || !ranges["768-991"] || !strings.Contains(english.Width, "seven ranges, such as 768 to 991 pixels") {
		t.Errorf("%v: %s", ranges, english.Width)
	}

	if model.RestorePeriod != 7*24*time.Hour || !strings.Contains(english.SiteDeletion, "7 days") {
		t.Errorf("%s: %s", model.RestorePeriod, english.SiteDeletion)
	}
	if size := 8 * len(model.VisitorID{}); !strings.Contains(english.Hash, fmt.Sprintf("%d bits", size)) {
		t.Errorf("%d: %s", size, english.Hash)
	}
}
