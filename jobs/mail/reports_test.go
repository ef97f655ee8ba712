package mail

import (
	"strings"
	"testing"

	"github.com/tallygate/tallygate/db/model"
)

// TestReportSummaryText: the mail shows each figure with its change, and values of visitors as one
// line each.
func TestReportSummaryText(t *testing.T) {
	got := reportSummaryText(&model.ReportSummaryMail{
		Site: "shop.example", Kind: model.ReportWeekly, From: "2026-11-16", To: "2026-11-22", Summary: model.ReportSummary{
			Figures:  model.ReportFigures{Visitors: 1_500, Visits: 1, Pageviews: 30},
			Previous: model.ReportFigures{Visitors: 2_000, Pageviews: 30},
			Pages:    []model.ReportRow{{Value: "/a\nb", Visitors: 1_200}, {Value: "/c", Visitors: 3}},
			Sources:  []model.ReportRow{{Visitors: 3}},
		},
	}).plainText()

	want := strings.Join([]string{
		"shop.example, from Monday, 16 November 2026 to Sunday, 22 November 2026:",
		"1,500 visitors, 500 fewer (25 %) than in the period before\n1 visit, none in the period before\n" +
			"30 page views, as many as in the period before",
		"Pages by visitors:\n1,200  /ab\n3  /c", "Sources by visitors:\n3  (none)", reportAdvice, goToService + ":\n/",
	}, "\n\n") + "\n"
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}

	if figure("visitor", 3, 2) != "3 visitors, 1 more (50 %) than in the period before" || figure("visit", 0, 0) != "0 visits" {
		t.Errorf("figures %q and %q", figure("visitor", 3, 2), figure("visit", 0, 0))
	}
}

func TestTrafficAlertText(t *testing.T) {
	drop := trafficAlertText(&model.TrafficAlertMail{
		Site: "shop.example", Kind: model.ReportDrop, Day: "2026-11-20", Visitors: 1, Threshold: 2_000,
	})
	const want = "1 visitor on shop.example on Friday, 20 November 2026: fewer than the 2,000 that you set."
	if drop.Subject != "Few visitors on shop.example" || drop.Paragraphs[0] != want {
		t.Errorf("%s: %q", drop.Subject, drop.Paragraphs)
	}
}
