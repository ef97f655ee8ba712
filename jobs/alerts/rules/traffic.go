package rules

import (
	"math"
	"time"

	"github.com/tallygate/tallygate/db/model"
)

// Traffic is how many page views a site had in a span, and in the same span of earlier weeks. Past
// has only weeks in which the site was measured, scaled by its growth since (see Days).
type Traffic struct {
	Length time.Duration // of the span
	Value  int64
	Past   []int64
}

// The thresholds of spikes and drops. A spike or drop also differs from the usual figure by more
// than chance.
const (
	spikeBegins = 3.5 // times the usual figure
	spikeEnds   = 1.5
	spikeUpper  = 2.0 // times the second largest of the earlier weeks

	dropBegins = 0.3
	dropEnds   = 0.6
	dropLower  = 0.5 // times the second smallest of the earlier weeks

	leastTraffic = 100 // page views in a span, without which nothing begins
	deviations   = 8.0 // by chance
)

// Spike finds traffic far above the usual figure.
func Spike(t Traffic) Finding {
	p := pastOf(t.Past)
	if !p.isSufficing {
		return Finding{}
	}

	value := float64(t.Value)
	found := Finding{Reading: Between, Figures: t.figures(p.usual, spikeBegins)}
	switch {
	case t.Value >= leastTraffic && value >= spikeBegins*p.usual && value >= spikeUpper*float64(p.upper) &&
		value-p.usual >= deviations*noise(p.usual):
		found.Reading = Unusual
	case value <= spikeEnds*p.usual || t.Value < leastTraffic/2:
		found.Reading = Usual
	}
	return found
}

// Drop finds traffic far below the usual figure.
func Drop(t Traffic) Finding {
	p := pastOf(t.Past)
	if !p.isSufficing || p.usual < leastTraffic/2 {
		return Finding{}
	}

	value := float64(t.Value)
	found := Finding{Reading: Between, Figures: t.figures(p.usual, dropBegins)}
	switch {
	case p.usual >= leastTraffic && value <= dropBegins*p.usual && value < dropLower*float64(p.lower) &&
		p.usual-value >= deviations*noise(p.usual):
		found.Reading = Unusual
	case value >= dropEnds*p.usual:
		found.Reading = Usual
	}
	return found
}

// Nearest returns the index of the earlier week with the count that is nearest to the usual figure,
// the latest of several, or -1 for too few weeks.
func (t Traffic) Nearest() int {
	p, nearest := pastOf(t.Past), -1
	if !p.isSufficing {
		return nearest
	}
	distance := func(i int) float64 { return math.Abs(float64(t.Past[i]) - p.usual) }
	for i := range t.Past {
		if nearest < 0 || distance(i) < distance(nearest) {
			nearest = i
		}
	}
	return nearest
}

// figures returns page views an hour, whatever the length of the span.
func (t Traffic) figures(usual, threshold float64) model.AlertFigures {
	perHour := func(n float64) int64 { return int64(math.Round(n / t.Length.Hours())) }
	f := model.AlertFigures{
		Value: perHour(float64(t.Value)), Usual: perHour(usual), Threshold: perHour(threshold * usual),
	}
	if usual > 0 {
		f.Percent = int64(math.Round(float64(t.Value) * 100 / usual))
	}
	return f
}

// The thresholds of silence.
const (
	// LeastSilence is how long a site has no page view before its earlier weeks are read.
	LeastSilence = 30 * time.Minute

	// LongestSilence bounds the span that is compared with earlier weeks.
	LongestSilence = 3 * time.Hour

	endOfSilence = 10 * time.Minute // since the last page view, while the site is measured again
	leastHits    = 60               // page views of the same span in all earlier weeks but one
)

// Silence is for how long a site has had no page view, at most LongestSilence, and its page views
// in the same span of earlier weeks. Past is not read for less than LeastSilence.
type Silence struct {
	Last model.Instant // page view; 0: before LongestSilence
	For  time.Duration
	Past []int64
}

// NoHits finds a site without page views at a time at which it usually has some.
func NoHits(s Silence) Finding {
	if s.For < endOfSilence {
		return Finding{Reading: Usual}
	}
	if s.For < LeastSilence {
		return Finding{Reading: Unsure}
	}

	p := pastOf(s.Past)
	found := Finding{Reading: Unsure, Figures: model.AlertFigures{Usual: int64(math.Round(p.usual)), Since: s.Last}}
	if p.isSufficing && p.lower >= leastHits {
		found.Reading = Unusual
	}
	return found
}
