package text

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/tallygate/tallygate/db/model"
)

// Locale is how a language writes numbers and dates, and the words of the layout.
type Locale struct {
	AccountLabel, SiteLabel string // before their names
	StopLabel               string // text of the link that stops mails of the kind
	Sender                  string // before the address of the installation

	thousands, quote, unquote string
	percent                   string // after a number
	day                       string // verbs of the weekday, the day, the month and the year
	date                      string // verbs of the day, the month and the year
	weekdays                  [7]string
	months                    [12]string
}

// Locales has the locale of every language.
var Locales = map[model.Language]*Locale{
	model.English: {
		AccountLabel: "Account", SiteLabel: "Site", StopLabel: "Stop these mails", Sender: "This mail was sent by Tallygate at",
		thousands: ",", quote: "“", unquote: "”", percent: "%", day: "%s, %d %s %d", date: "%d %s %d",
		weekdays: [7]string{"Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"},
		months: [12]string{
			"January", "February", "March", "April", "May", "June",
			"July", "August", "September", "October", "November", "December",
		},
	},
	model.German: {
		AccountLabel: "Konto", SiteLabel: "Website", StopLabel: "Diese E-Mails abbestellen",
		Sender:    "Diese E-Mail wurde gesendet von Tallygate auf",
		thousands: ".", quote: "„", unquote: "“", percent: "\u00a0%", day: "%s, %d. %s %d", date: "%d. %s %d",
		weekdays: [7]string{"Sonntag", "Montag", "Dienstag", "Mittwoch", "Donnerstag", "Freitag", "Samstag"},
		months: [12]string{
			"Januar", "Februar", "März", "April", "Mai", "Juni",
			"Juli", "August", "September", "Oktober", "November", "Dezember",
		},
	},
}

// Number formats a number that is not negative with a mark between groups of three digits. Numbers
// of four digits have it too.
func (l *Locale) Number(n int64) string {
	text := strconv.FormatInt(n, 10)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + l.thousands + text[i:]
	}
	return text
}

// Count returns a number with its noun in the singular or plural.
func (l *Locale) Count(n int64, one, other string) string {
	if n == 1 {
		return l.Number(n) + " " + one
	}
	return l.Number(n) + " " + other
}

// Percent formats a number that is not negative as a percentage.
func (l *Locale) Percent(n int64) string { return l.Number(n) + l.percent }

// Quote puts a text into quotation marks.
func (l *Locale) Quote(s string) string { return l.quote + s + l.unquote }

// Rows returns rows of a table: a value, or none if it is empty, and its visitors.
func (l *Locale) Rows(rows []model.ReportRow, none string) string {
	var lines []string
	for _, row := range rows {
		value := row.Value
		if value == "" {
			value = none
		}
		lines = append(lines, value+Tab+l.Number(row.Visitors))
	}
	return strings.Join(lines, "\n")
}

// Day formats YYYY-MM-DD with the day of the week.
func (l *Locale) Day(day string) string {
	at, err := time.Parse(time.DateOnly, day)
	if err != nil {
		return day
	}
	return fmt.Sprintf(l.day, l.weekdays[at.Weekday()], at.Day(), l.months[at.Month()-1], at.Year())
}

// MonthName returns the name of a month.
func (l *Locale) MonthName(month time.Month) string { return l.months[month-1] }

// Month formats YYYY-MM.
func (l *Locale) Month(month string) string {
	at, err := time.Parse("2006-01", month)
	if err != nil {
		return month
	}
	return l.months[at.Month()-1] + " " + strconv.Itoa(at.Year())
}

// Time formats a time in UTC.
func (l *Locale) Time(at model.Instant) string {
	t := at.Time()
	date := fmt.Sprintf(l.date, t.Day(), l.months[t.Month()-1], t.Year())
	return date + ", " + t.Format("15:04:05") + " UTC"
}

// Change is the difference of a figure to the previous period.
type Change struct {
	New, Same bool   // the figure was 0 before; it is as before
	Sign      string // + or −
	By        int64
	Percent   int64
}

// ChangeOf returns the change from the figure before to the figure now.
func ChangeOf(now, before int64) Change {
	c := Change{New: before == 0 && now != 0, Same: now == before, Sign: "+", By: now - before}
	if c.By < 0 {
		c.Sign, c.By = "−", -c.By
	}
	if before != 0 {
		c.Percent = c.By * 100 / before
	}
	return c
}
