package main

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
)

// growthCommand measures what the service costs on an empty database, fills it, and measures again:
// nothing may grow with the number of stored rows.
type growthCommand struct {
	Program     string        `default:"bin/tallygate" placeholder:"FILE" help:"The tallygate program."`
	Engines     []string      `default:"sqlite,postgres" enum:"sqlite,postgres" help:"Databases: sqlite, and a private postgres."`
	Rows        int           `default:"10000000" placeholder:"N" help:"Page views to fill in."`
	Connections int           `default:"128" placeholder:"N" help:"Browsers that send at once."`
	Rounds      int           `default:"5" placeholder:"N" help:"Measurements before and after. The median counts."`
	Duration    time.Duration `default:"5s" placeholder:"TIME" help:"How long each takes."`
	Out         string        `placeholder:"FILE" help:"Markdown file with a section for the table, which is replaced."`
	JSON        bool          `name:"json" help:"Print the measurements as JSON."`
}

// Validate checks what one flag alone cannot tell.
func (c *growthCommand) Validate() error {
	switch {
	case c.Rows < 1:
		return fmt.Errorf("--rows: %d is less than 1", c.Rows)
	case c.Rounds < 1 || c.Connections < 1 || 2*c.Rounds*c.Connections > maxConnections:
		return fmt.Errorf("--rounds, --connections: less than 1, or more than %d connections in all", maxConnections)
	case c.Duration <= 0 || c.Duration > time.Hour:
		return fmt.Errorf("--duration: %v is not more than 0 and at most 1h", c.Duration)
	}

	return nil
}

// growthReport compares an empty with a full database. Rates are shares of the empty handler's in
// the same round.
type growthReport struct {
	Engine      string   `json:"engine"`
	Rows        int      `json:"rows"`
	FillSeconds float64  `json:"fillSeconds"`
	Empty       float64  `json:"empty"`
	Full        float64  `json:"full"`
	Page        int      `json:"page"`        // the late page of the export, of exportRows rows each
	FirstMs     float64  `json:"firstMs"`     // what its first page takes
	PageMs      float64  `json:"pageMs"`      // what the late one takes
	FailedShare float64  `json:"failedShare"` // of the calls, the worst round: 503, 429 or no answer
	Measured    int64    `json:"measured"`    // calls, with the empty and the full database
	Verdict     *verdict `json:"verdict"`     // of both

	Unexpected map[string]int64 `json:"unexpected,omitempty"` // answers that nothing explains
}

// exportRows is the size of an export's page in the comparison, and latePage the page that is
// compared with the first.
const (
	exportRows = 1_000
	latePage   = 1_000
)

// Run runs the command.
func (c *growthCommand) Run(ctx context.Context, term terminal) error {
	noop, err := startNoop(ctx)
	if err != nil {
		return err
	}
	defer noop.kill()

	var reports []*growthReport
	for _, engine := range c.Engines {
		r, err := c.engine(ctx, engine, noop, term.log)
		if err != nil {
			return fmt.Errorf("%s: %w", engine, err)
		}

		reports = append(reports, r)
	}

	table := growthTable(reports, c)

	if c.JSON {
		err = json.NewEncoder(term.out).Encode(reports)
	} else {
		_, err = io.WriteString(term.out, table)
	}

	for _, r := range reports {
		err = errors.Join(err, r.check(term.log))
	}

	// the page keeps what was measured without a fault
	if err != nil || c.Out == "" {
		return err
	}

	return replaceSection(c.Out, "bench-growth", table)
}

// check prints the faults that were found, and fails if there are any.
func (g *growthReport) check(w io.Writer) error {
	if g.Verdict.complete() && len(g.Unexpected) == 0 {
		return nil
	}
	fmt.Fprint(w, g.Engine, ": ")
	g.Verdict.print(w)
	printCounts(w, "UNEXPECTED answers", g.Unexpected)
	return errFaults
}

func (c *growthCommand) engine(ctx context.Context, engine string, noop *server, progress io.Writer) (*growthReport, error) {
	b, err := newBench(c.Program, engine)
	if err != nil {
		return nil, err
	}
	defer b.close()

	if err := b.server.start(ctx); err != nil {
		return nil, err
	}

	s, err := newOwnScene(ctx, b, &trafficFlags{Mix: "pageviews", Sites: 20, Visitors: 20_000, Seed: 1})
	if err != nil {
		return nil, err
	}

	g := &growthReport{Engine: engine, Rows: c.Rows, Verdict: new(verdict)}
	if g.Empty, err = c.rate(ctx, b, s, noop, g, progress); err != nil {
		return nil, err
	}
	if err := b.server.stop(); err != nil {
		return nil, err
	}

	began := time.Now()

	if err := b.withDatabase(func(d *db.DB) error { return fill(ctx, d, s.traffic.sites, c.Rows, 1, progress) }); err != nil {
		return nil, err
	}

	g.FillSeconds = time.Since(began).Seconds()

	if err := b.server.start(ctx); err != nil {
		return nil, err
	}

	// those of before would go on with their visits, which is less work
	s.traffic.newcomer = s.traffic.visitors
	if g.Full, err = c.rate(ctx, b, s, noop, g, progress); err != nil {
		return nil, err
	}

	g.Unexpected = s.surprises.count
	return g, g.timePages(ctx, s)
}

// rate measures the server as a share of the empty handler, verifies what was sent, and adds what
// it found to the report.
func (c *growthCommand) rate(ctx context.Context, b *bench, s *scene, noop *server, g *growthReport, progress io.Writer) (float64, error) {
	path := filepath.Join(b.dir, "journal")
	j, err := s.begin(ctx, path)
	if err != nil {
		return 0, err
	}

	var shares []float64
	for range c.Rounds {
		base, err := driveNoop(ctx, noop, c.Connections, c.Duration)
		if err != nil {
			return 0, err
		}

		l := load{connections: c.Connections, warmup: min(c.Duration/5, time.Second), duration: c.Duration, least: leastAnswers}
		r := s.phase(ctx, j, l, s.traffic.mix)
		if err := r.enough(); err != nil {
			return 0, fmt.Errorf("%w; the server's log:\n%s", err, b.server.logged())
		}

		g.Measured, g.FailedShare = g.Measured+r.served(), max(g.FailedShare, r.failedShare())
		shares = append(shares, r.throughput()/base.throughput())
		fmt.Fprintf(progress, "%.0f/s, %.3f of the empty handler's %.0f/s\n", r.throughput(), r.throughput()/base.throughput(), base.throughput())
	}

	if err := j.close(); err != nil {
		return 0, err
	}

	v, err := verifyAs(ctx, s.account, path)
	if err != nil {
		return 0, err
	}

	g.Verdict.add(v)
	return median(shares), nil
}

// timePages times pages of the busiest site's export by cursor. The late page is the thousandth, or
// the last whole one.
func (g *growthReport) timePages(ctx context.Context, s *scene) error {
	from := time.Now().UTC().AddDate(0, 0, -filledDays-1)
	begin := cursorBefore(from)
	late, next := begin, begin
	for page := 1; page <= latePage; page++ {
		rows, last, err := s.account.exportPage(ctx, s.traffic.sites[0].ID, "pageviews", from, next, exportRows, func(*row) error { return nil })
		if err != nil {
			return err
		}

		if rows < exportRows {
			// a part of a page would be compared with a whole one
			break
		}

		g.Page, late, next = page, next, last
	}

	const times = 20
	var first, last []float64

	for range times {
		for cursor, list := range map[string]*[]float64{begin: &first, late: &last} {
			began := time.Now()

			if _, _, err := s.account.exportPage(ctx, s.traffic.sites[0].ID, "pageviews", from, cursor, exportRows, func(*row) error { return nil }); err != nil {
				return err
			}

			*list = append(*list, milliseconds(time.Since(began)))
		}
	}

	g.FirstMs, g.PageMs = median(first), median(last)
	return nil
}

// growthTable is the report of growth.
func growthTable(reports []*growthReport, c *growthCommand) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s; %d connections, medians of %d rounds of %v; page views as a share of the empty handler in the same round.\n\n", machine(), c.Connections, c.Rounds, c.Duration)
	b.WriteString("| database | rows filled in | empty | full | full of empty | at least 0.90 | export page 1, ms | late page, ms | its number | failed |\n|---|---|---|---|---|---|---|---|---|---|\n")

	for _, r := range reports {
		ratio := r.Full / r.Empty
		fmt.Fprintf(&b, "| %s | %d | %.3f | %.3f | %.2f | %s | %.1f | %.1f | %d | %s |\n", r.Engine, r.Rows, r.Empty, r.Full, ratio, yesNo(ratio >= 0.9), r.FirstMs, r.PageMs, r.Page, marked(r.FailedShare))
	}

	b.WriteString("\n")

	for _, r := range reports {
		fmt.Fprintf(&b, "%s was filled in %.0f s. Of the hits before and after that %d were acknowledged, %d lost, %d duplicated, %d wrong.\n",
			r.Engine, r.FillSeconds, r.Verdict.Acknowledged, r.Verdict.Lost, r.Verdict.Duplicated, r.Verdict.Wrong)
	}

	return b.String()
}
