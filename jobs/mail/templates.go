package mail

import (
	"embed"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"text/template"
	"time"

	"github.com/tallygate/tallygate/db/model"
)

// templateFiles has a folder for each language with a file for each kind. common.txt has what all
// kinds share.
//
//go:embed templates
var templateFiles embed.FS

// templates returns the templates by language and kind. They are parsed when the first mail is sent.
var templates = sync.OnceValue(func() map[model.Language]map[string]*template.Template {
	all := make(map[model.Language]map[string]*template.Template)
	for language, words := range locales {
		folder := "templates/" + string(language) + "/"
		common := template.Must(template.New("").Funcs(words.functions()).ParseFS(templateFiles, folder+"common.txt"))

		all[language] = make(map[string]*template.Template)
		for kind := range model.MailKinds {
			source := template.Must(common.Clone())
			all[language][kind] = template.Must(source.ParseFS(templateFiles, folder+kind+".txt"))
		}
	}
	return all
})

// locale is how a language writes numbers and dates.
type locale struct {
	thousands, quote, unquote string
	percent                   string // after a number
	day                       string // verbs of the weekday, the day, the month and the year
	date                      string // verbs of the day, the month and the year
	weekdays                  [7]string
	months                    [12]string
}

var locales = map[model.Language]*locale{
	model.English: {
		thousands: ",", quote: "“", unquote: "”", percent: "%", day: "%s, %d %s %d", date: "%d %s %d",
		weekdays: [7]string{"Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"},
		months: [12]string{
			"January", "February", "March", "April", "May", "June",
			"July", "August", "September", "October", "November", "December",
		},
	},
	model.German: {
		thousands: ".", quote: "„", unquote: "“", percent: "\u00a0%", day: "%s, %d. %s %d", date: "%d. %s %d",
		weekdays: [7]string{"Sonntag", "Montag", "Dienstag", "Mittwoch", "Donnerstag", "Freitag", "Samstag"},
		months: [12]string{
			"Januar", "Februar", "März", "April", "Mai", "Juni",
			"Juli", "August", "September", "Oktober", "November", "Dezember",
		},
	},
}

// functions returns the functions that templates of the language call.
func (l *locale) functions() template.FuncMap {
	return template.FuncMap{
		"number": l.number, "count": l.count, "percent": l.percentOf, "quote": l.quoted,
		"day": l.dayName, "month": l.monthName, "time": l.timeOf, "change": changeOf, "join": strings.Join,
		"tab": func() string { return "\t" },
	}
}

// number formats a number that is not negative with a mark between groups of three digits. Numbers of
// four digits have it too.
func (l *locale) number(n any) (string, error) {
	var text string
	switch n := n.(type) {
	case int64:
		text = strconv.FormatInt(n, 10)
	case int32:
		text = strconv.FormatInt(int64(n), 10)
	case int:
		text = strconv.Itoa(n)
	default:
		return "", fmt.Errorf("%T is not a number", n)
	}

	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + l.thousands + text[i:]
	}
	return text, nil
}

// count returns a number with its noun in the singular or plural.
func (l *locale) count(n any, one, other string) (string, error) {
	text, err := l.number(n)
	if text == "1" {
		return text + " " + one, err
	}
	return text + " " + other, err
}

// percentOf formats a number that is not negative as a percentage.
func (l *locale) percentOf(n any) (string, error) {
	text, err := l.number(n)
	return text + l.percent, err
}

func (l *locale) quoted(s string) string { return l.quote + s + l.unquote }

// dayName formats YYYY-MM-DD with the day of the week.
func (l *locale) dayName(day string) string {
	at, err := time.Parse(time.DateOnly, day)
	if err != nil {
		return day
	}
	return fmt.Sprintf(l.day, l.weekdays[at.Weekday()], at.Day(), l.months[at.Month()-1], at.Year())
}

// monthName formats YYYY-MM.
func (l *locale) monthName(month string) string {
	at, err := time.Parse("2006-01", month)
	if err != nil {
		return month
	}
	return l.months[at.Month()-1] + " " + strconv.Itoa(at.Year())
}

// timeOf formats a time in UTC.
func (l *locale) timeOf(at model.Instant) string {
	t := at.Time()
	date := fmt.Sprintf(l.date, t.Day(), l.months[t.Month()-1], t.Year())
	return date + ", " + t.Format("15:04:05") + " UTC"
}

// change is the difference of a figure to the previous period.
type change struct {
	New, Same bool   // the figure was 0 before; it is as before
	Sign      string // + or −
	By        int64
	Percent   int64
}

func changeOf(now, before int64) change {
	c := change{New: before == 0 && now != 0, Same: now == before, Sign: "+", By: now - before}
	if c.By < 0 {
		c.Sign, c.By = "−", -c.By
	}
	if before != 0 {
		c.Percent = c.By * 100 / before
	}
	return c
}
