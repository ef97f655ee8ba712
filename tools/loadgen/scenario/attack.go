package scenario

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/tallygate/tallygate/tools/loadgen/load"
	"github.com/tallygate/tallygate/tools/loadgen/target"
)

// The attacks measure what other sites and accounts notice of an attack.

// bystanderRate is the number of hits a second of a site that is not attacked.
const bystanderRate = 50

// bystanders send page views of new visitors to a site at a fixed rate.
type bystanders struct {
	host  string
	site  target.Site
	round int
}

// drive sends hits for a duration, or until ctx ends if it is 0.
func (b *bystanders) drive(ctx context.Context, duration time.Duration) *load.Result {
	b.round++
	l := load.Load{Addr: b.host, Connections: bystanderRate, Rate: bystanderRate, Duration: duration}
	first := b.round * bystanderRate
	return l.Run(ctx, func(connection int) load.Source {
		number := (first + connection) << 16
		return load.Requests(func() []byte {
			number++
			addr := fmt.Sprintf("10.%d.%d.%d", number>>16&255, number>>8&255, number&255)
			body := fmt.Sprintf(`{"k":%q,"t":"pageview","p":"/page","i":"%016x"}`, b.site.Key, number)
			return collectRequest(b.host, b.site.Origin(), addr, body)
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
