package mail

import (
	"fmt"
	"strings"
	"time"

	"github.com/tallygate/tallygate/db/model"
)

// The texts of report mails. A mail names paths and sources of the owner's own site only.

// reportAdvice is how a user stops a mail.
const reportAdvice = "You chose this mail for the site. To stop it, sign in and use the mutation setReportMails."

func reportSummaryText(d *model.ReportSummaryMail) *text {
	period := "week"
	if d.Kind == model.ReportMonthly {
		period = "month"
	}

	paragraphs := []string{
		fmt.Sprintf("%s, from %s to %s:", d.Site, dayName(d.From), dayName(d.To)),
		strings.Join([]string{
			figure("visitor", d.Summary.Figures.Visitors, d.Summary.Previous.Visitors),
			figure("visit", d.Summary.Figures.Visits, d.Summary.Previous.Visits),
			figure("page view", d.Summary.Figures.Pageviews, d.Summary.Previous.Pageviews),
		}, "\n"),
	}
	if len(d.Summary.Pages) > 0 {
		paragraphs = append(paragraphs, "Pages by visitors:\n"+rows(d.Summary.Pages))
	}
	if len(d.Summary.Sources) > 0 {
		paragraphs = append(paragraphs, "Sources by visitors:\n"+rows(d.Summary.Sources))
	}

	return &text{
		Subject: fmt.Sprintf("The %s of %s", period, d.Site), Link: home, LinkText: goToService,
		Paragraphs: append(paragraphs, reportAdvice),
	}
}

// figure returns a number with its noun and its change.
func figure(noun string, now, before int64) string {
	line := counted(now, noun)
	switch {
	case before == 0 && now == 0:
		return line
	case before == 0:
		return line + ", none in the period before"
	case now == before:
		return line + ", as many as in the period before"
	}

	change, direction := now-before, "more"
	if change < 0 {
		change, direction = -change, "fewer"
	}
	return fmt.Sprintf("%s, %s %s (%d %%) than in the period before",
		line, thousands(change), direction, change*100/before)
}

// rows lists values with their visitors, one in a line.
func rows(list []model.ReportRow) string {
	lines := make([]string, len(list))
	for i, row := range list {
		value := model.Clean(row.Value, 200)
		if value == "" {
			value = "(none)"
		}
		lines[i] = thousands(row.Visitors) + "  " + value
	}
	return strings.Join(lines, "\n")
}

func trafficAlertText(d *model.TrafficAlertMail) *text {
	t := &text{Link: home, LinkText: goToService}

	if d.Kind == model.ReportSpike {
		t.Subject = "Many visitors on " + d.Site
		t.Paragraphs = []string{
			fmt.Sprintf("%s on %s within 5 minutes: more than the %s that you set.",
				counted(d.Visitors, "visitor"), d.Site, thousands(d.Threshold)),
			"You get at most one such mail in 12 hours.",
		}
	} else {
		t.Subject = "Few visitors on " + d.Site
		t.Paragraphs = []string{fmt.Sprintf("%s on %s on %s: fewer than the %s that you set.",
			counted(d.Visitors, "visitor"), d.Site, dayName(d.Day), thousands(d.Threshold))}
	}

	t.Paragraphs = append(t.Paragraphs, reportAdvice)
	return t
}

// dayName formats YYYY-MM-DD as "Friday, 20 November 2026".
func dayName(day string) string {
	at, err := time.Parse(time.DateOnly, day)
	if err != nil {
		return day
	}
	return at.Format("Monday, 2 January 2006")
}
