package background

import (
	"bytes"
	"context"
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
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
	"github.com/tallygate/tallygate/db"
)

const (
	// firstPause and maxPause bound the time between the end of a child and the start of the next
	// one. The pause doubles unless the child has run for steadyPauses pauses.
	firstPause   = 200 * time.Millisecond
	maxPause     = 10 * time.Second
	steadyPauses = 5

	// startGrace is how long the first start takes at most before Warning reports it.
	startGrace = 10 * time.Second

	// scrapeTimeout bounds the wait for the child's metrics.
	scrapeTimeout = 7 * time.Second

	// maxScrapes bounds the callers that wait for the metrics of a child that hangs.
	maxScrapes = 8
)

// Process is the child process: started, and started again whenever it ends. It is safe for
// concurrent use.
type Process struct {
	settings *config.Config
	stopTime time.Duration // after it, a child that does not stop is killed
	changed  chan struct{} // the child has stored changes of sites or sitekeys
	log      *slog.Logger

	mu        sync.Mutex
	orders    *gob.Encoder      // to the child that runs; nil: none
	addresses map[string]string // of the child that serves; nil: none
	since     time.Time         // when it began to serve, or the last one ended
	ends      int               // how often a child has ended
	scrapes   []chan<- []byte   // of the callers that wait for metrics
}

// New returns a process that runs with these settings, which name its roles. Nothing starts before
// Run. A child that has not ended after stopTime is killed.
func New(settings *config.Config, stopTime time.Duration, log *slog.Logger) *Process {
	return &Process{settings: settings, stopTime: stopTime, changed: make(chan struct{}, 1), log: log, since: time.Now()}
}

// Failure is the error of a child that has reported why it ends. If it has not served before, only
// a person can correct the reason, such as an address that is taken.
type Failure struct{ Reason string }

// Error implements error.
func (f *Failure) Error() string { return f.Reason }

// Run runs the child until ctx ends, and starts it again when it ends before. ready is called each
// time it serves. After ctx has ended, Run asks the child to drain and waits for it. A *Failure is
// returned at once if the first child ends by itself before it serves.
func (p *Process) Run(ctx context.Context, ready func()) error {
	served := false
	for pause := firstPause; ; {
		began := time.Now()
		err := p.runOnce(ctx, func() { served = true; ready() })
		if ctx.Err() != nil {
			return err
		}
		// After the child has served, hits continue without it, also if it is refused from then on.
		if _, ok := errors.AsType[*Failure](err); ok && !served {
			return err
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
	defer close(ended)
	go p.stopWith(ctx, cmd, ended)

	// The file of reports ends with the child.
	failure, served := p.follow(reports, ready)
	err = cmd.Wait()
	p.ended()

	switch {
	case ctx.Err() != nil && !served:
		return nil // the signal to stop may have ended the child before it could drain
	case failure != nil:
		return failure
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
	cmd.Env = slices.DeleteFunc(os.Environ(), isSetting) // some are secrets
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
		out := gob.NewEncoder(orders)
		// An error means that the child has ended already.
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

// follow reads the reports of a child to their end. It returns the failure that the child reported,
// and whether the child has served.
func (p *Process) follow(reports *os.File, ready func()) (failure error, served bool) {
	defer reports.Close()
	for in := gob.NewDecoder(reports); ; {
		var r report
		if in.Decode(&r) != nil {
			return failure, served
		}

		switch {
		case r.Failure != "":
			failure = &Failure{Reason: r.Failure}
			if r.Refused {
				failure = db.Refusef("%w", failure)
			}
		case r.Addresses != nil:
			p.mu.Lock()
			p.addresses, p.since = r.Addresses, time.Now()
			p.mu.Unlock()
			served = true
			ready()
		case r.Metrics != nil:
			p.deliver(r.Metrics)
		case r.Changed:
			select {
			case p.changed <- struct{}{}:
			default:
				// The changes are read soon.
			}
		}
	}
}

// stopWith asks the child to drain when ctx ends, and kills it if it takes longer than stopTime.
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
func (p *Process) began(orders *gob.Encoder) {
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
	p.answer(nil)
}

// Stop asks the child to drain. The second call ends the child's wait for load balancers.
func (p *Process) Stop() { p.send(order{Stop: true}) }

// send sends an order to the child that runs, if there is one.
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
	return fmt.Sprintf("the background process with the roles %s has not served since %s; the log has the reason, and hits are not affected",
		p.roles(), p.since.UTC().Format(time.RFC3339))
}

// Changed returns a channel that receives after the child has stored changes of sites or sitekeys.
func (p *Process) Changed() <-chan struct{} { return p.changed }

// Serves reports whether a child serves.
func (p *Process) Serves() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.addresses != nil
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

// Gather implements prometheus.Gatherer with the metrics of the child: none while it does not
// serve.
func (p *Process) Gather() ([]*dto.MetricFamily, error) {
	text, err := p.scrape()
	if err != nil || text == nil {
		return nil, err
	}

	parser := expfmt.NewTextParser(model.UTF8Validation)
	byName, err := parser.TextToMetricFamilies(bytes.NewReader(text))
	return slices.Collect(maps.Values(byName)), err
}

// scrape returns the metrics of the child; nil while it does not serve. Callers at the same time
// share one answer.
func (p *Process) scrape() ([]byte, error) {
	answer := make(chan []byte, 1)

	p.mu.Lock()
	switch {
	case p.addresses == nil:
		p.mu.Unlock()
		return nil, nil
	case len(p.scrapes) == maxScrapes:
		p.mu.Unlock()
		return nil, errNoScrape
	}
	p.scrapes = append(p.scrapes, answer)
	if len(p.scrapes) == 1 {
		// An error means that the child ends, which answers, too.
		_ = p.orders.Encode(order{Scrape: true})
	}
	p.mu.Unlock()

	select {
	case text := <-answer:
		return text, nil
	case <-time.After(scrapeTimeout):
		return nil, errNoScrape
	}
}

// deliver hands metrics to the callers that wait for them.
func (p *Process) deliver(metrics []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.answer(metrics)
}

// answer is deliver for a caller that holds the mutex.
func (p *Process) answer(metrics []byte) {
	for _, waiting := range p.scrapes {
		waiting <- metrics
	}
	p.scrapes = nil
}
