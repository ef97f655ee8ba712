package console_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tallygate/tallygate/tools/testkit"
)

// figures are the first totals of a report.
type figures struct{ Visitors, Visits, Pageviews int64 }

// recountedView is a view of the demo shop: days before today, and a filter as the page's address,
// the API and recount write it. An empty dimension is a view without a filter.
type recountedView struct {
	from, to                   int // days before today
	dimension, operator, value string
}

var recountedViews = []recountedView{
	{from: 28, to: 1}, {from: 20, to: 6}, {from: 14, to: 8}, {from: 7, to: 1}, {from: 4, to: 3}, {from: 2, to: 2}, {from: 1, to: 1},
	{28, 1, "CHANNEL", "IS", "direct"}, {28, 1, "CHANNEL", "IS", "organic search"}, {28, 1, "CHANNEL", "IS", "paid search"},
	{28, 1, "CHANNEL", "IS", "email"}, {28, 1, "CHANNEL", "IS", "referral"}, {20, 3, "CHANNEL", "IS_NOT", "direct"},
	{28, 1, "PAGE", "IS", "/"}, {28, 1, "PAGE", "IS", "/cart"}, {28, 1, "PAGE", "IS", "/shop/kettle"}, {9, 2, "PAGE", "IS", "/shop/teas"},
	{28, 1, "PAGE", "CONTAINS", "shop"}, {28, 1, "PAGE", "MATCHES", "/shop/**"}, {28, 1, "PAGE", "CONTAINS_NOT", "cart"},
	{28, 1, "ENTRY_PAGE", "IS", "/"}, {28, 1, "EXIT_PAGE", "IS", "/"}, {15, 1, "ENTRY_PAGE", "IS_NOT", "/"},
	{28, 1, "LANGUAGE", "IS", "de"}, {28, 1, "LANGUAGE", "IS", "en"}, {20, 1, "LANGUAGE", "IS_NOT", "en"},
	{28, 1, "EVENT", "IS", "purchase"}, {28, 1, "EVENT", "IS_NOT", "purchase"}, {28, 1, "SOURCE_NAME", "IS_NOT", "Google"},
	{28, 1, "SOURCE", "CONTAINS", "google"}, {15, 4, "SOURCE", "CONTAINS_NOT", "google"},
}

// TestViewsEqualARecountChromium opens views of the demo shop. The figures on the screen equal the
// API's, and a recount of the downloaded rows. Each third of the views has an installation of its
// own, because all of them cost more points than a user has in a minute.
func TestViewsEqualARecountChromium(t *testing.T) {
	t.Parallel()
	recount := filepath.Join(t.TempDir(), "recount")
	if output, err := exec.Command("go", "build", "-buildvcs=false", "-o", recount, "../../../tools/recount").CombinedOutput(); err != nil {
		t.Fatalf("build recount: %v\n%s", err, output)
	}
	for views := range slices.Chunk(recountedViews, (len(recountedViews)+2)/3) {
		t.Run(fmt.Sprint(views[0]), func(t *testing.T) { viewsEqualARecount(t, views, recount) })
	}
}

func viewsEqualARecount(t *testing.T, views []recountedView, recount string) {
	s := startDemo(t)
	id := s.demoSite()
	files := append(s.downloadRows(id, "pageviews"), s.downloadRows(id, "events")...)

	p, today := s.openSignedIn("/"), time.Now().UTC()
	day := func(ago int) string { return today.AddDate(0, 0, -ago).Format(time.DateOnly) }
	for _, view := range views {
		args := append([]string{"--from", day(view.from), "--to", day(view.to), "--key-events", "newsletter_signup"}, files...)
		query, filters := url.Values{"from": {day(view.from)}, "to": {day(view.to)}}, []any{}
		if view.dimension != "" {
			filter := []string{view.dimension, view.operator, view.value}
			args = append(args, "--filter", strings.Join(filter, " "))
			query.Set("f", strings.ToLower(view.dimension+":"+view.operator+":")+view.value)
			filters = append(filters, map[string]any{"dimension": view.dimension, "operator": view.operator, "values": []string{view.value}})
		}

		output, err := exec.Command(recount, args...).Output()
		testkit.NoError(t, err)
		var counted struct{ Totals figures }
		testkit.NoError(t, json.Unmarshal(output, &counted))
		want := counted.Totals
		if want == (figures{}) {
			t.Errorf("%+v has no figures", view)
		}

		var data struct {
			Site struct{ Report struct{ Totals figures } }
		}
		s.Do(`query ($id: ID!, $period: ReportPeriod!, $filters: [ReportFilterInput!]!) { site(id: $id) {
			report(period: $period, filters: $filters) { totals { visitors visits pageviews } } } }`,
			map[string]any{"id": id, "filters": filters, "period": map[string]any{"from": day(view.from), "to": day(view.to)}}, &data)
		if got := data.Site.Report.Totals; got != want {
			t.Errorf("%+v: the API has %+v, a recount %+v", view, got, want)
		}

		p.Goto(s.Origin + "/sites/" + id + "?" + query.Encode())
		p.WaitFor(fmt.Sprintf("[%s, %s, %s].join() === '%d,%d,%d'", total(0), total(1), total(2), want.Visitors, want.Visits, want.Pageviews))
	}
	p.clean(s)
}

// downloadRows downloads the rows of the last 30 days, and returns the arguments that name the file.
func (s *service) downloadRows(siteID, kind string) []string {
	s.TB.Helper()
	const most = 50_000
	day := func(ago int) string { return time.Now().UTC().AddDate(0, 0, -ago).Format(time.DateOnly) }
	response, err := s.HTTP.Get(fmt.Sprintf("%s/products/analytics/api/export.php?type=%s&site_id=%s&format=csv&limit=%d&from=%s&to=%s",
		s.Origin, kind, siteID, most, day(30), day(0)))
	testkit.NoError(s.TB, err)
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if rows := strings.Count(string(body), "\n"); err != nil || response.StatusCode != http.StatusOK || rows >= most {
		s.TB.Fatalf("export of %s: %s, %d rows, %v", kind, response.Status, rows, err)
	}

	file := filepath.Join(s.TB.TempDir(), kind+".csv")
	testkit.NoError(s.TB, os.WriteFile(file, body, 0o600))
	return []string{"--" + kind, file}
}
