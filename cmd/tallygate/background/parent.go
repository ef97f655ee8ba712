package background

import (
	"bytes"
	"encoding/gob"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"sync"
	"syscall"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/expfmt"

	"github.com/tallygate/tallygate/cmd/tallygate/config"
)

// Parent is the process that started this one.
type Parent struct {
	Settings *config.Config // of this process

	orders *gob.Decoder
	hurry  chan struct{} // closed by the second order to stop

	mu       sync.Mutex
	file     *os.File
	reports  *gob.Encoder        // to file
	registry prometheus.Gatherer // of this process; nil before Ready
}

// Join reads the settings of this process from its standard input. From then on only the parent's
// orders stop this process: a terminal and service managers signal both processes, and the parent
// passes each signal on.
func Join(in io.Reader) (*Parent, error) {
	// Ignore ends earlier uses. On Windows, a signal that is not received ends the process.
	signal.Ignore(syscall.SIGINT, syscall.SIGTERM)
	signal.Notify(make(chan os.Signal, 1), syscall.SIGINT, syscall.SIGTERM)

	p := &Parent{orders: gob.NewDecoder(in), hurry: make(chan struct{})}
	var first opening
	if err := p.orders.Decode(&first); err != nil {
		return nil, fmt.Errorf("this command is run by \"tallygate serve\" only: %w", err)
	}

	p.Settings = first.Settings
	p.file = os.NewFile(first.Reports, "reports")
	p.reports = gob.NewEncoder(p.file)
	return p, nil
}

// LowerPriority lowers the priority of this process, and logs what the system refuses. Hits are
// then served first, and a shortage of memory ends this process before the parent.
func (p *Parent) LowerPriority(log *slog.Logger) {
	if err := lowerPriority(); err != nil {
		log.Warn("the background process could not lower its priority; reports and imports may slow hits", "error", err)
	}
}

// Obey carries out the parent's orders until the parent ends, and then ends this process at once.
// The first order to stop calls stop.
func (p *Parent) Obey(stop func()) {
	for stops := 0; ; {
		var next order
		if err := p.orders.Decode(&next); err != nil {
			// Another parent may start soon and needs the addresses. A killed process loses
			// nothing.
			os.Exit(1)
		}

		if next.Scrape {
			go p.answer()
		}
		if !next.Stop {
			continue
		}
		if stops++; stops == 1 {
			stop()
		} else if stops == 2 {
			close(p.hurry)
		}
	}
}

// Hurry returns a channel that is closed when the parent does not want to wait for load balancers.
// A nil Parent has none.
func (p *Parent) Hurry() <-chan struct{} {
	if p == nil {
		return nil
	}
	return p.hurry
}

// Ready reports that this process serves, with the addresses of its listeners by role. registry
// holds its metrics.
func (p *Parent) Ready(addresses map[string]string, registry prometheus.Gatherer) {
	p.mu.Lock()
	p.registry = registry
	p.mu.Unlock()
	p.send(report{Addresses: addresses})
}

// Fail reports why this process ends, and whether a db.Refusal ends it.
func (p *Parent) Fail(reason string, refused bool) {
	p.send(report{Failure: reason, Refused: refused})
}

// Changed reports that changes of sites or sitekeys are in the database.
func (p *Parent) Changed() { p.send(report{Changed: true}) }

// answer reports the metrics. The parent asks only after Ready.
func (p *Parent) answer() {
	p.mu.Lock()
	registry := p.registry
	p.mu.Unlock()

	// A collector that fails leaves the families of the others.
	families, _ := registry.Gather()

	var text bytes.Buffer
	encoder := expfmt.NewEncoder(&text, expfmt.NewFormat(expfmt.TypeTextPlain))
	for _, family := range families {
		if encoder.Encode(family) != nil {
			break
		}
	}
	p.send(report{Metrics: text.Bytes()})
}

// send writes a report, unless the parent has ended.
func (p *Parent) send(r report) {
	p.mu.Lock()
	defer p.mu.Unlock()
	_ = p.reports.Encode(r)
}
