package background

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/tallygate/tallygate/cmd/tallygate/config"
)

const (
	// firstPause and maxPause bound the time between the end of a child and the start of the next one. The
	// pause doubles unless the child has run for steadyPauses pauses.
	firstPause   = 200 * time.Millisecond
	maxPause     = 10 * time.Second
	steadyPauses = 5

	// startGrace is how long the first start takes at most before Warning reports it.
	startGrace = 10 * time.Second

	// scrapeTimeout bounds the wait for the child's metrics.
	scrapeTimeout = 3 * time.Second
)

// Process is the child process: started, and started again whenever it ends. It is safe for concurrent
// use.
type Process struct {
	settings *config.Config
	stopTime time.Duration // after it, a child that does not stop is killed
	log      *slog.Logger

	mu        sync.Mutex
	orders    *json.Encoder     // to the child that runs; nil: none
	addresses map[string]string // of the child that serves; nil: none
	since     time.Time         // when it began to serve, or the last one ended
	ends      int               // how often a child has ended
	scraping  chan<- []byte     // receives the metrics; nil: nobody waits
	scrapes   int64             // requests for metrics so far
}

// New returns a process that runs with these settings, which name its roles. Nothing starts before Run.
// A child that has not ended after stopTime is killed.
func New(settings *config.Config, stopTime time.Duration, log *slog.Logger) *Process {
	return &Process{settings: settings, stopTime: stopTime, log: log, since: time.Now()}
}

// Failure is the error of a child that has ended before it served for the first time. Only a person can
// correct the reason, such as an address that is taken.
type Failure struct {
	Reason string
	Status int // exit status of the child
}

// Error implements error.
func (f *Failure) Error() string { return f.Reason }

// Run runs the child until ctx ends, and starts it again when it ends before. ready is called each time
// it serves. After ctx has ended, Run asks the child to drain and waits for it. A *Failure is returned
// at once if the first child ends by itself before it serves.
func (p *Process) Run(ctx context.Context, ready func()) error {
	served := false
	for pause := firstPause; ; {
		began := time.Now()
		err := p.runOnce(ctx, func() { served = true; ready() })
		if ctx.Err() != nil {
			return err
		}
		if failed, ok := errors.AsType[*Failure](err); ok && !served {
			return failed
		}

		if time.Since(began) >= steadyPauses*pause {
			pause = firstPause
		}
		p.log.Error("the background process ended; it is started again", "roles", p.roles(), "error", err, "pause", pause.String())
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(pause):
		}
		pause = min(2*pause, maxPause)
	}
}

// runOnce starts a child and waits until it has ended. When ctx ends, it asks the child to drain.
func (p *Process) runOnce(ctx context.Context, ready func()) error {
	cmd, orders, reports, err := p.start()
	if err != nil {
		return err
	}
	defer orders.Close()

	ended := make(chan struct{})
	go func() {
		defer close(ended)
		p.stopWith(ctx, cmd, ended)
	}()

	// The file of reports ends with the child.
	failure := p.follow(reports, ready)
	err = cmd.Wait()
	p.ended()

	// An exit status is the child's own decision; a signal is not.
	if status := cmd.ProcessState.ExitCode(); failure != "" && status > 0 {
		return &Failure{Reason: failure, Status: status}
	}
	return err
}

// start starts a child and sends it its settings.
func (p *Process) start() (cmd *exec.Cmd, orders io.WriteCloser, reports *os.File, err error) {
	program, err := executable()
	if err != nil {
		return nil, nil, nil, err
	}
	cmd = exec.Command(program, Command)
	cmd.Args[0] = "tallygate"
	cmd.Env = slices.DeleteFunc(os.Environ(), isSetting)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr

	if orders, err = cmd.StdinPipe(); err != nil {
		return nil, nil, nil, err
	}
	reports, written, err := os.Pipe()
	if err != nil {
		return nil, nil, nil, errors.Join(err, orders.Close())
	}
	number := detach(cmd, written)

	err = cmd.Start()
	err = errors.Join(err, written.Close())
	if err == nil {
		out := json.NewEncoder(orders)
		// Nobody reads it if the child has ended already, and follow returns the reason.
		_ = out.Encode(opening{Settings: p.settings, Reports: number})
		p.began(out)
		return cmd, orders, reports, nil
	}
	return nil, nil, nil, errors.Join(fmt.Errorf("start the background process: %w", err), orders.Close(), reports.Close())
}

// isSetting reports whether a variable sets something that the child gets as settings.
func isSetting(variable string) bool {
	name, _, _ := strings.Cut(variable, "=")
	return slices.Contains(config.Variables(), name) || name == "NOTIFY_SOCKET"
}

// follow reads the reports of a child to their end. It returns the failure that the child reported.
func (p *Process) follow(reports *os.File, ready func()) (failure string) {
	defer reports.Close()
	for in := json.NewDecoder(reports); ; {
		var r report
		if in.Decode(&r) != nil {
			return failure
		}

		switch {
		case r.Failure != "":
			failure = r.Failure
		case r.Addresses != nil:
			p.mu.Lock()
			p.addresses, p.since = r.Addresses, time.Now()
			p.mu.Unlock()
			ready()
		case r.Scrape != 0:
			p.deliver(r)
		}
	}
}

// stopWith asks the child to drain when ctx ends, and kills a child that takes longer than it may.
func (p *Process) stopWith(ctx context.Context, cmd *exec.Cmd, ended <-chan struct{}) {
	select {
	case <-ended:
		return
	case <-ctx.Done():
		p.Stop()
	}

	late := time.NewTimer(p.stopTime)
	defer late.Stop()
	select {
	case <-ended:
	case <-late.C:
		p.log.Error("the background process does not stop; it is killed", "roles", p.roles())
		_ = cmd.Process.Kill()
	}
}

// began notes a child that takes orders.
func (p *Process) began(orders *json.Encoder) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.orders = orders
}

// ended notes the end of the child.
func (p *Process) ended() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ends++
	p.orders, p.addresses, p.since = nil, nil, time.Now()
	if p.scraping != nil {
		p.scraping <- nil
		p.scraping = nil
	}
}

// Stop asks the child to drain. The second call ends the child's wait for load balancers.
func (p *Process) Stop() { p.send(order{Stop: true}) }

// send sends an order to the child that runs. One that ends does not need it.
func (p *Process) send(o order) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.orders != nil {
		_ = p.orders.Encode(o)
	}
}

// Addr returns the address of a listener of the child by role; "" while the child does not serve.
func (p *Process) Addr(role string) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.addresses[role]
}

// Warning returns a sentence for the operator while the child does not serve, else "".
func (p *Process) Warning() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.addresses != nil || p.ends == 0 && time.Since(p.since) < startGrace {
		return ""
	}
	return fmt.Sprintf("the background process with the roles %s does not serve since %s; the log has the reason, and hits are not concerned",
		p.roles(), p.since.UTC().Format(time.RFC3339))
}

// Ends returns how often a child has ended so far.
func (p *Process) Ends() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.ends
}

func (p *Process) roles() string {
	names := make([]string, len(p.settings.Roles))
	for i, role := range p.settings.Roles {
		names[i] = string(role)
	}
	return strings.Join(names, ", ")
}

// errNoScrape means that the child's metrics are not known.
var errNoScrape = errors.New("the background process does not report its metrics")

// Gather implements prometheus.Gatherer with the metrics of the child: none while it does not serve. One
// scrape runs at a time.
func (p *Process) Gather() ([]*dto.MetricFamily, error) {
	text, err := p.scrape()
	if err != nil || text == nil {
		return nil, err
	}

	parser := expfmt.NewTextParser(model.UTF8Validation)
	byName, err := parser.TextToMetricFamilies(bytes.NewReader(text))
	families := make([]*dto.MetricFamily, 0, len(byName))
	for _, family := range byName {
		families = append(families, family)
	}
	return families, err
}

// scrape returns the metrics of the child; nil while it does not serve.
func (p *Process) scrape() ([]byte, error) {
	answer := make(chan []byte, 1)

	p.mu.Lock()
	if p.addresses == nil {
		p.mu.Unlock()
		return nil, nil
	}
	if p.scraping != nil {
		// A child that hangs would otherwise fill the pipe with requests.
		p.mu.Unlock()
		return nil, errNoScrape
	}
	p.scrapes++
	p.scraping = answer
	err := p.orders.Encode(order{Scrape: p.scrapes})
	p.mu.Unlock()

	if err != nil {
		p.deliver(report{Scrape: p.scrapes})
	}
	select {
	case text := <-answer:
		return text, nil
	case <-time.After(scrapeTimeout):
		return nil, errNoScrape
	}
}

// deliver hands metrics to the scrape that waits for them.
func (p *Process) deliver(r report) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.scraping != nil && r.Scrape == p.scrapes {
		p.scraping <- r.Metrics
		p.scraping = nil
	}
}
