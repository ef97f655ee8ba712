package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"time"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/tools/loadgen/instance"
	"github.com/tallygate/tallygate/tools/loadgen/load"
	"github.com/tallygate/tallygate/tools/loadgen/report"
	"github.com/tallygate/tallygate/tools/loadgen/target"
	"github.com/tallygate/tallygate/tools/loadgen/traffic"
	"github.com/tallygate/tallygate/tools/loadgen/verify"
)

// GrowthCommand measures the service on an empty and on a filled database: no cost may grow with
// the number of stored rows.
type GrowthCommand struct {
	Program     string        `default:"bin/tallygate" placeholder:"FILE" help:"The tallygate program."`
	Engines     []string      `default:"sqlite,postgres" enum:"sqlite,postgres" help:"Databases: sqlite, and a private postgres."`
	Rows        int           `default:"10000000" placeholder:"N" help:"Page views to insert before the second measurement."`
	Connections int           `default:"128" placeholder:"N" help:"Concurrent browsers."`
	Rounds      int           `default:"5" placeholder:"N" help:"Measurements before and after, of which the median is reported."`
	Duration    time.Duration `default:"5s" placeholder:"TIME" help:"Duration of each measurement."`
	Out         string        `placeholder:"FILE" help:"Markdown file whose section is replaced by the table."`
	JSON        bool          `name:"json" help:"Print the measurements as JSON."`
}

// Validate checks the limits of the flags.
func (c *GrowthCommand) Validate() error {
	switch {
	case c.Rows < 1:
		return fmt.Errorf("--rows: %d is less than 1", c.Rows)
	case c.Rounds < 1 || c.Connections < 1 || 2*c.Rounds*c.Connections > traffic.MaxConnections:
		return fmt.Errorf("--rounds, --connections: less than 1, or more than %d connections in all",
			traffic.MaxConnections)
	case c.Duration <= 0 || c.Duration > time.Hour:
		return fmt.Errorf("--duration: %v is not more than 0 and at most 1h", c.Duration)
	}

	return nil
}

// GrowthReport compares an empty with a filled database. Rates are shares of the empty handler's
// rate in the same round.
type GrowthReport struct {
	Engine      string          `json:"engine"`
	Rows        int             `json:"rows"`
	FillSeconds float64         `json:"fillSeconds"`
	Empty       float64         `json:"empty"`
	Full        float64         `json:"full"`
	Page        int             `json:"page"`        // number of the late export page, of exportRows rows each
	FirstMs     float64         `json:"firstMs"`     // duration of the first page
	PageMs      float64         `json:"pageMs"`      // duration of the late page
	FailedShare float64         `json:"failedShare"` // share of calls with status 503, 429 or no response, in the worst round
	Measured    int64           `json:"measured"`    // calls with the empty and the filled database
	Verdict     *verify.Verdict `json:"verdict"`     // of both measurements

	Unexpected map[string]int64 `json:"unexpected,omitempty"` // responses that violate the contract
}

// exportRows is the page size of the compared exports. latePage is the number of the page that is
// compared with the first.
const (
	exportRows = 1_000
	latePage   = 1_000
)

// Run measures all engines and prints the table. It returns an error if a fault was found.
func (c *GrowthCommand) Run(ctx context.Context, term report.Terminal) error {
	noop, err := instance.StartNoop(ctx)
	if err != nil {
		return err
	}
	defer noop.Kill()

	var reports []*GrowthReport
	for _, engine := range c.Engines {
		r, err := c.engine(ctx, engine, noop, term.Log)
		if err != nil {
			return fmt.Errorf("%s: %w", engine, err)
		}

		reports = append(reports, r)
	}

	table := growthTable(reports, c)

	if c.JSON {
		err = json.NewEncoder(term.Out).Encode(reports)
	} else {
		_, err = io.WriteString(term.Out, table)
	}

	for _, r := range reports {
		err = errors.Join(err, r.check(term.Log))
	}

	// Write only results without a fault.
	if err != nil || c.Out == "" {
		return err
	}

	return report.ReplaceSection(c.Out, "bench-growth", table)
}

// check prints the faults, and returns an error if there are any.
func (g *GrowthReport) check(w io.Writer) error {
	if g.Verdict.Complete() && len(g.Unexpected) == 0 {
		return nil
	}
	fmt.Fprint(w, g.Engine, ": ")
	g.Verdict.Print(w)
	report.PrintCounts(w, "UNEXPECTED answers", g.Unexpected)
	return verify.ErrFaults
}

func (c *GrowthCommand) engine(ctx context.Context, engine string, noop *instance.Server,
	progress io.Writer) (*GrowthReport, error) {
	b, err := instance.New(c.Program, engine)
	if err != nil {
		return nil, err
	}
	defer b.Close()

	if err := b.Server.Start(ctx); err != nil {
		return nil, err
	}

	s, err := traffic.NewOwnSession(ctx, b.Server.Target(),
		&traffic.Flags{Mix: "pageviews", Sites: 20, Visitors: 20_000, Seed: 1})
	if err != nil {
		return nil, err
	}

	g := &GrowthReport{Engine: engine, Rows: c.Rows, Verdict: new(verify.Verdict)}
	if g.Empty, err = c.rate(ctx, b, s, noop, g, progress); err != nil {
		return nil, err
	}
	if err := b.Server.Stop(); err != nil {
		return nil, err
	}

	began := time.Now()

	if err := b.WithDatabase(func(d *db.DB) error {
		return fill(ctx, d, s.Traffic.Sites, c.Rows, 1,
			progress)
	}); err != nil {
		return nil, err
	}

	g.FillSeconds = time.Since(began).Seconds()

	if err := b.Server.Start(ctx); err != nil {
		return nil, err
	}

	// Use new visitors: known visitors would continue their visits, which is less work.
	s.Traffic.FirstVisitor = s.Traffic.Visitors
	if g.Full, err = c.rate(ctx, b, s, noop, g, progress); err != nil {
		return nil, err
	}

	g.Unexpected = s.Unexpected.Counts
	return g, g.timePages(ctx, s)
}

// rate measures the server as a share of the empty handler, verifies the hits, and adds the results
// to the report.
func (c *GrowthCommand) rate(ctx context.Context, b *instance.Instance, s *traffic.Session, noop *instance.Server,
	g *GrowthReport, progress io.Writer) (float64, error) {
	path := filepath.Join(b.Dir, "journal")
	j, err := s.Begin(ctx, path)
	if err != nil {
		return 0, err
	}

	var shares []float64
	for range c.Rounds {
		// Measure both in the same minutes, because the machine's speed changes.
		base, err := driveNoop(ctx, noop, c.Connections, c.Duration, 0)
		if err != nil {
			return 0, err
		}

		l := load.Load{Connections: c.Connections, Warmup: min(c.Duration/5, time.Second), Duration: c.Duration,
			MinAnswers: load.MinAnswers}
		r := s.Phase(ctx, j, l, s.Traffic.Mix)
		if err := r.Enough(); err != nil {
			return 0, fmt.Errorf("%w; the server's log:\n%s", err, b.Server.Logged())
		}

		g.Measured, g.FailedShare = g.Measured+r.Served(), max(g.FailedShare, r.FailedShare())
		shares = append(shares, r.Throughput()/base.Throughput())
		fmt.Fprintf(progress, "%.0f/s, %.3f of the empty handler's %.0f/s\n",
			r.Throughput(), r.Throughput()/base.Throughput(), base.Throughput())
	}

	if err := j.Close(); err != nil {
		return 0, err
	}

	v, err := verify.JournalAs(ctx, s.Account, path)
	if err != nil {
		return 0, err
	}

	g.Verdict.Add(v)
	return report.Median(shares), nil
}

// timePages measures pages of the busiest site's export. The late page is number latePage, or the
// last whole one.
func (g *GrowthReport) timePages(ctx context.Context, s *traffic.Session) error {
	from := time.Now().UTC().AddDate(0, 0, -filledDays-1)
	begin := target.CursorBefore(from)
	late, next := begin, begin
	for page := 1; page <= latePage; page++ {
		rows, last, err := s.Account.ExportPage(ctx, s.Traffic.Sites[0].ID, "pageviews", from, next, exportRows,
			func(*target.Row) error { return nil })
		if err != nil {
			return err
		}

		if rows < exportRows {
			// Only a whole page compares with the first.
			break
		}

		g.Page, late, next = page, next, last
	}

	const times = 20
	var first, last []float64

	for range times {
		for cursor, list := range map[string]*[]float64{begin: &first, late: &last} {
			began := time.Now()

			if _, _, err := s.Account.ExportPage(ctx, s.Traffic.Sites[0].ID, "pageviews", from, cursor, exportRows,
				func(*target.Row) error { return nil }); err != nil {
				return err
			}

			*list = append(*list, report.Milliseconds(time.Since(began)))
		}
	}

	g.FirstMs, g.PageMs = report.Median(first), report.Median(last)
	return nil
}

// growthTable returns the report as a Markdown table.
func growthTable(reports []*GrowthReport, c *GrowthCommand) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s; %d connections, medians of %d rounds of %v; page views as a share of the empty handler in the same round.\n\n", report.Machine(), c.Connections, c.Rounds, c.Duration)
	b.WriteString("| database | rows filled in | empty | full | full of empty | at least 0.90 | export page 1, ms | late page, ms | its number | failed |\n|---|---|---|---|---|---|---|---|---|---|\n")

	for _, r := range reports {
		ratio := r.Full / r.Empty
		fmt.Fprintf(&b, "| %s | %d | %.3f | %.3f | %.2f | %s | %.1f | %.1f | %d | %s |\n", r.Engine, r.Rows, r.Empty,
			r.Full, ratio, report.YesNo(ratio >= 0.9), r.FirstMs, r.PageMs, r.Page, report.Marked(r.FailedShare))
	}

	b.WriteString("\n")

	for _, r := range reports {
		fmt.Fprintf(&b, "%s was filled in %.0f s. Of the hits before and after that %d were acknowledged, %d lost, %d duplicated, %d wrong.\n",
			r.Engine, r.FillSeconds, r.Verdict.Acknowledged, r.Verdict.Lost, r.Verdict.Duplicated, r.Verdict.Wrong)
	}

	return b.String()
}
