package traffic

import (
	"fmt"
	"time"
)

// Flags select the traffic.
type Flags struct {
	Duration time.Duration `long:"duration" default:"10s" value-name:"TIME" description:"Duration of the measurement."`
	Warmup   time.Duration `long:"warmup" default:"1s" value-name:"TIME" description:"Duration of the warm-up, which is not measured."`
	Mix      string        `long:"mix" default:"realistic" choice:"realistic" choice:"pageviews" value-name:"NAME" unquote:"false" description:"Traffic: realistic or pageviews."`
	Sites    int           `long:"sites" default:"20" value-name:"N" description:"Number of sites, 1 to 1000. A few get most of the hits."`
	Visitors int           `long:"visitors" default:"20000" value-name:"N" description:"Number of visitors of each site."`
	Seed     uint64        `long:"seed" default:"1" value-name:"N" description:"Two runs with one seed send the same hits."`
	Webhook  string        // of conversions; empty: target.NoReceiver
}

// MaxSites is the largest number of sites of a run.
const MaxSites = 1000

// Check returns an error that names the first flag outside its limits.
func (f *Flags) Check() error {
	switch {
	case f.Duration <= 0 || f.Duration > 24*time.Hour:
		return fmt.Errorf("--duration: %v is not more than 0 and at most 24h", f.Duration)
	case f.Warmup < 0 || f.Warmup > time.Hour:
		return fmt.Errorf("--warmup: %v is not from 0 to 1h", f.Warmup)
	case f.Sites < 1 || f.Sites > MaxSites:
		return fmt.Errorf("--sites: %d is not from 1 to %d", f.Sites, MaxSites)
	case f.Visitors < 1 || f.Visitors > 1<<24:
		return fmt.Errorf("--visitors: %d is not from 1 to %d", f.Visitors, 1<<24)
	}

	return nil
}
