package rulecache

import (
	"errors"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
)

// Measure registers the metrics of the cache, which have its name in the label cache.
func (c *Cache[Value]) Measure(r prometheus.Registerer, name string) error {
	count := func(result string, n *atomic.Int64) prometheus.Collector {
		return prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "tallygate_rule_cache_requests_total",
			Help: "Lookups of the rules of sites and sitekeys: hit (in memory), miss (from the database), " +
				"and stale, a miss that was answered from memory because the database did not answer.",
			ConstLabels: prometheus.Labels{"cache": name, "result": result},
		}, func() float64 { return float64(n.Load()) })
	}

	entries := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "tallygate_rule_cache_entries", ConstLabels: prometheus.Labels{"cache": name},
		Help: "Sites or sitekeys in memory; at most 50,000.",
	}, func() float64 { return float64(c.entries.Len()) })

	synced := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "tallygate_change_notifications_up", ConstLabels: prometheus.Labels{"cache": name},
		Help: "1 while notifications of changes arrive; 0 while they do not and changes take effect late.",
	}, func() float64 {
		if c.unsynced.Load() {
			return 0
		}
		return 1
	})

	return errors.Join(r.Register(count("hit", &c.hits)), r.Register(count("miss", &c.misses)),
		r.Register(count("stale", &c.stale)), r.Register(entries), r.Register(synced))
}
