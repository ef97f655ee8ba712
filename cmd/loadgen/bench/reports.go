package bench

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/tallygate/tallygate/cmd/loadgen/bulk"
	"github.com/tallygate/tallygate/cmd/loadgen/instance"
	"github.com/tallygate/tallygate/cmd/loadgen/load"
	"github.com/tallygate/tallygate/cmd/loadgen/report"
	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/accounts"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/reports"
	"github.com/tallygate/tallygate/db/reports/scan"
	"github.com/tallygate/tallygate/db/retention"
	"github.com/tallygate/tallygate/db/sites"
)

// ReportsCommand fills one site with a year of page views, builds its reports, and measures how
// long the dashboard's figures take.
type ReportsCommand struct {
	Program string   `default:"bin/tallygate" placeholder:"FILE" help:"The tallygate program."`
	Engines []string `default:"sqlite,postgres" enum:"sqlite,postgres" help:"Databases: sqlite, and a private postgres."`
	Rows    int      `default:"10000000" placeholder:"N" help:"Page views of the year."`
	Rounds  int      `default:"40" placeholder:"N" help:"Reports of each period."`
	Out     string   `placeholder:"FILE" help:"Markdown file whose section is replaced by the table."`
	JSON    bool     `name:"json" help:"Print the measurements as JSON."`
}

// Validate checks the limits of the flags.
func (c *ReportsCommand) Validate() error {
	if c.Rows < 1 || c.Rounds < 1 {
		return fmt.Errorf("--rows, --rounds: less than 1")
	}
	return nil
}

// reportPeriods are the measured periods, in days before today.
var reportPeriods = []int{1, 7, 30, 91, 365}

// ReportsReport is the measurement of one engine.
type ReportsReport struct {
	Engine       string         `json:"engine"`
	Rows         int            `json:"rows"`
	FillSeconds  float64        `json:"fillSeconds"`
	BuildSeconds float64        `json:"buildSeconds"` // of the whole year, with the merge of its months
	SegmentBytes int64          `json:"segmentBytes"`
	Periods      []ReportPeriod `json:"periods"`
}

// ReportPeriod is the measurement of one period, in milliseconds.
type ReportPeriod struct {
	Days   int     `json:"days"`
	Median float64 `json:"median"`
	P95    float64 `json:"p95"`
	// Filtered is the 95th percentile with a filter by page.
	Filtered float64 `json:"filtered"`
}

// Run measures all engines and prints the table.
func (c *ReportsCommand) Run(ctx context.Context, term report.Terminal) error {
	var all []*ReportsReport
	for _, engine := range c.Engines {
		r, err := c.engine(ctx, engine, term.Log)
		if err != nil {
			return fmt.Errorf("%s: %w", engine, err)
		}
		all = append(all, r)
	}

	table := reportsTable(all)
	if c.JSON {
		if err := json.NewEncoder(term.Out).Encode(all); err != nil {
			return err
		}
	} else if _, err := io.WriteString(term.Out, table); err != nil {
		return err
	}

	if c.Out == "" {
		return nil
	}
	return report.ReplaceSection(c.Out, "bench-reports", table)
}

func (c *ReportsCommand) engine(ctx context.Context, engine string, progress io.Writer) (*ReportsReport, error) {
	i, err := instance.New(c.Program, engine)
	if err != nil {
		return nil, err
	}
	defer i.Close()

	r := &ReportsReport{Engine: engine, Rows: c.Rows}
	err = i.WithDatabase(func(d *db.DB) error {
		if err := d.Migrate(ctx, time.Now); err != nil {
			return err
		}
		site, err := reportSite(ctx, d)
		if err != nil {
			return err
		}

		now := model.At(time.Now())
		y := newYear(site.ID, c.Rows, now)
		began := time.Now()
		if err := y.fill(ctx, d, progress); err != nil {
			return err
		}
		r.FillSeconds = time.Since(began).Seconds()
		return r.measure(ctx, d, site, now, c.Rounds, progress)
	})
	return r, err
}

// reportSite creates the account and the site.
func reportSite(ctx context.Context, d *db.DB) (*model.Site, error) {
	now := model.At(time.Now())
	user, err := accounts.New(d).SignUp(ctx, model.SignupsOpen, model.Account{Name: "reports", CreatedAt: now},
		model.User{Email: "reports@example.com", PasswordHash: "-", CreatedAt: now})
	if err != nil {
		return nil, err
	}
	return sites.New(d).CreateSite(ctx, model.Site{AccountID: user.AccountID, SiteKey: model.NewSiteKey(), Domain: "example.com",
		Name: "example.com", Plan: model.PlanFree, MonthlyPageviews: 10_000, TimeZone: model.DefaultTimeZone, CreatedAt: now})
}

// measure builds the reports and asks for them.
func (r *ReportsReport) measure(
	ctx context.Context, d *db.DB, site *model.Site, now model.Instant, rounds int, progress io.Writer,
) error {
	store := reports.New(d)
	began := time.Now()
	if _, err := store.Plan(ctx, now); err != nil {
		return err
	}
	if _, err := store.BuildDue(ctx); err != nil {
		return err
	}
	r.BuildSeconds = time.Since(began).Seconds()
	fmt.Fprintf(progress, "built the reports in %.0f s\n", r.BuildSeconds)

	var err error
	if r.SegmentBytes, err = store.Size(ctx, site.ID); err != nil {
		return err
	}

	today := scan.DateOf(now.Time())
	for _, days := range reportPeriods {
		p := ReportPeriod{Days: days}
		all, err := askReports(ctx, store, site.ID, now, rounds, dashboard(today.AddDays(1-days), today, nil))
		if err != nil {
			return err
		}
		filter := []scan.Filter{{Breakdown: scan.Breakdown{By: scan.Page}, Match: func(path string) bool { return path == pathOf(10) }}}
		filtered, err := askReports(ctx, store, site.ID, now, rounds, dashboard(today.AddDays(1-days), today, filter))
		if err != nil {
			return err
		}

		p.Median, p.P95 = report.Milliseconds(all.Quantile(0.5)), report.Milliseconds(all.Quantile(0.95))
		p.Filtered = report.Milliseconds(filtered.Quantile(0.95))
		r.Periods = append(r.Periods, p)
		fmt.Fprintf(progress, "%d days: median %.0f ms, p95 %.0f ms, with a filter %.0f ms\n", days, p.Median, p.P95, p.Filtered)
	}
	return nil
}

// dashboard returns what the dashboard asks for: totals, a series by days and nine breakdowns.
func dashboard(from, to scan.Date, filters []scan.Filter) *scan.Query {
	q := &scan.Query{Zone: time.UTC, From: from, To: to, Filters: filters, KeyEvents: map[string]bool{model.EventPurchase: true}}
	for _, by := range []scan.Dimension{scan.Channel, scan.Source, scan.UTMCampaign, scan.Page, scan.EntryPage, scan.ExitPage,
		scan.Language, scan.Width, scan.Event} {
		q.Breakdowns = append(q.Breakdowns, scan.Breakdown{By: by})
	}
	for day := from; day.Compare(to.AddDays(1)) <= 0; day = day.AddDays(1) {
		q.Points = append(q.Points, day.Start(time.UTC))
	}
	return q
}

// askReports measures the same report several times. All segments are read from the database each
// time; today's rows stay in memory for seconds, as in the service.
func askReports(
	ctx context.Context, store *reports.Store, siteID int64, now model.Instant, rounds int, q *scan.Query,
) (*load.Histogram, error) {
	var h load.Histogram
	for range rounds {
		began := time.Now()
		if _, err := store.Report(ctx, reports.Request{SiteID: siteID, Now: now, Periods: []*scan.Query{q}}); err != nil {
			return nil, err
		}
		h.Add(time.Since(began))
	}
	return &h, nil
}

// reportsTable returns the measurements as a Markdown table.
func reportsTable(all []*ReportsReport) string {
	var b strings.Builder
	b.WriteString("| database | page views | segments | build of the year |")
	for _, days := range reportPeriods {
		fmt.Fprintf(&b, " p95 of %d days (with a filter) |", days)
	}
	b.WriteString("\n|---|---|---|---|" + strings.Repeat("---|", len(reportPeriods)) + "\n")
	for _, r := range all {
		fmt.Fprintf(&b, "| %s | %d | %.0f MB | %.0f s |", r.Engine, r.Rows, report.Megabytes(r.SegmentBytes), r.BuildSeconds)
		for _, p := range r.Periods {
			fmt.Fprintf(&b, " %.0f ms (%.0f ms) |", p.P95, p.Filtered)
		}
		b.WriteString("\n")
	}
	return b.String() + "\n" + report.Machine() + "\n"
}

// year generates the page views of one site for the year before now: returning visitors of a day,
// visits of one to several page views, and a few popular and many rare paths, referrers and
// campaigns.
type year struct {
	siteID                  int64
	perDay                  int
	first, last, day        model.Day
	random                  *rand.Rand
	paths, hosts, campaigns *rand.Zipf
}

const (
	yearDays      = 365
	yearPaths     = 20_000
	yearHosts     = 3_000
	yearCampaigns = 500
	viewsPerVisit = 2.74 // on average
)

func newYear(siteID int64, rows int, now model.Instant) *year {
	random := rand.New(rand.NewPCG(uint64(rows), 17))
	last := now.Day()
	return &year{
		siteID: siteID, perDay: rows/yearDays + 1, first: last - yearDays + 1, last: last, random: random,
		paths: rand.NewZipf(random, 1.2, 4, yearPaths-1), hosts: rand.NewZipf(random, 1.3, 2, yearHosts-1),
		campaigns: rand.NewZipf(random, 1.2, 2, yearCampaigns-1),
	}
}

func pathOf(n uint64) string { return fmt.Sprintf("/section-%d/article-%d", n%40, n) }

// fill loads the year day by day, with partitions for its months.
func (y *year) fill(ctx context.Context, d *db.DB, progress io.Writer) error {
	for day := y.first; day <= y.last+1; day += 28 {
		if err := retention.New(d).EnsurePartitions(ctx, day.Start()); err != nil {
			return err
		}
	}

	began := time.Now()
	return bulk.Fill(ctx, d, func() error {
		for y.day = y.first; y.day <= y.last; y.day++ {
			if err := bulk.Load(ctx, d, y.next()); err != nil {
				return err
			}
			if (y.day-y.first)%30 == 29 {
				fmt.Fprintf(progress, "filled %d of %d days in %.0f s\n", y.day-y.first+1, yearDays, time.Since(began).Seconds())
			}
		}
		return nil
	})
}

// next returns the visits and page views of the day, in the order of their keys.
func (y *year) next() bulk.Rows {
	var rows bulk.Rows
	visits := int(float64(y.perDay)/viewsPerVisit) + 1
	step := 23 * time.Hour / time.Duration(visits)

	var (
		visitor model.VisitorID
		number  int16
	)
	for n := range visits {
		// One visit in ten is of the visitor before.
		if n == 0 || y.random.IntN(10) > 0 {
			binary.LittleEndian.PutUint64(visitor[:], y.random.Uint64())
			number = 0
		}
		number++
		rows.Visits = append(rows.Visits, y.visit(visitor, number, y.day.Start().Add(time.Duration(n)*step)))
		v := &rows.Visits[n]

		for range v.Pageviews {
			view, engagement := y.view(v, len(rows.Pageviews))
			rows.Pageviews = append(rows.Pageviews, view)
			rows.Engagement = append(rows.Engagement, engagement)
		}
	}
	return rows
}

func (y *year) visit(visitor model.VisitorID, number int16, at model.Instant) model.Visit {
	views := int32(1)
	for views < 20 && y.random.Float64() < 1-1/viewsPerVisit {
		views++
	}
	v := model.Visit{SiteID: y.siteID, Visitor: visitor, StartedAt: at, N: number,
		LastPageviewAt: at, Pageviews: views, Channel: "direct"}

	switch y.random.IntN(10) {
	case 0, 1, 2, 3:
		v.Channel, v.Referrer = "organic search", fmt.Sprintf("search-%d.example/", y.hosts.Uint64()%40)
	case 4, 5:
		v.Channel, v.Referrer = "referral", fmt.Sprintf("site-%d.example/page", y.hosts.Uint64())
	case 6:
		v.Channel, v.Source, v.Medium = "email", "newsletter", "email"
		v.Name = fmt.Sprintf("campaign-%d", y.campaigns.Uint64())
	}
	return v
}

// view returns the next page view of a visit. Those of a visit share its time, so that the rows stay
// in the order of their key.
func (y *year) view(v *model.Visit, n int) (model.Pageview, model.Engagement) {
	widths := [...]int16{0, 576, 768, 992, 1200, 1440, 1920}
	languages := [...]string{"en", "de", "fr", "es", "it", "pl", "nl", "pt"}
	view := model.Pageview{
		SiteID: y.siteID, At: v.StartedAt, ID: int64(y.day)<<32 | int64(n), Visitor: v.Visitor, N: v.N,
		Path: pathOf(y.paths.Uint64()), Language: languages[min(y.random.IntN(12), 7)], WidthRange: widths[y.random.IntN(7)],
	}
	return view, model.Engagement{
		EngagementKey: model.EngagementKey{SiteID: y.siteID, Day: y.day, PageviewID: view.ID},
		MS:            int32(y.random.IntN(60_000)), Scroll: int16(y.random.IntN(101)),
	}
}
