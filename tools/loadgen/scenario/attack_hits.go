package scenario

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tallygate/tallygate/tools/loadgen/instance"
	"github.com/tallygate/tallygate/tools/loadgen/load"
	"github.com/tallygate/tallygate/tools/loadgen/target"
)

// bystanders send page views of new visitors to sites at a fixed rate, over as many connections.
type bystanders struct {
	server *instance.Server
	sites  []target.Site
	rate   int // a second
	round  int
}

// drive sends hits for a duration, or until ctx ends if it is 0.
func (b *bystanders) drive(ctx context.Context, duration time.Duration) *load.Result {
	b.round++
	l := load.Load{Addr: b.server.Data, Connections: b.rate, Rate: float64(b.rate), Warmup: openTime, Duration: duration,
		MinAnswers: load.MinAnswers, Watched: []int{b.server.Pid()}}
	first := b.round * b.rate
	return l.Run(ctx, func(connection int) load.Source {
		number := (first + connection) << 16
		return load.Requests(func() []byte {
			number++
			site := &b.sites[number%len(b.sites)]
			addr := fmt.Sprintf("10.%d.%d.%d", number>>16&255, number>>8&255, number&255)
			body := fmt.Sprintf(`{"k":%q,"t":"pageview","p":"/page","i":"%016x"}`, site.Key, number)
			return collectRequest(b.server.Data, site.Origin(), addr, body)
		})
	})
}

// collectRequest returns a hit as a browser behind a proxy sends it.
func collectRequest(host, origin, addr, body string) []byte {
	return load.Post(nil, host, "/collect.php", []byte(body), "Origin: "+origin, "User-Agent: "+attackAgent,
		"X-Forwarded-For: "+addr, "Content-Type: text/plain")
}

const attackAgent = "Mozilla/5.0 (X11; Linux x86_64; rv:145.0) Gecko/20100101 Firefox/145.0"

// countsText returns numbers with their names, sorted by name.
func countsText(counts map[string]int64) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		parts = append(parts, fmt.Sprintf("%d %s", counts[name], name))
	}
	return strings.Join(parts, ", ")
}

// counted is the source of all connections of a load. It numbers the requests from 1, and counts
// the answers by name.
type counted struct {
	request func(n int) []byte // nil after the last one
	name    func(load.Answer) string

	mu      sync.Mutex
	sent    int
	answers load.Counter
}

// Next implements load.Source.
func (c *counted) Next() []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sent++
	return c.request(c.sent)
}

// Done implements load.Source.
func (c *counted) Done(answer load.Answer, err error) {
	name := load.NoAnswer
	if err == nil {
		name = c.name(answer)
	}

	c.answers.Add(name)
}

// String returns the answers with their numbers, after the load.
func (c *counted) String() string { return countsText(c.answers.Counts) }
