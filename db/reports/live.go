package reports

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/reports/segment"
)

const (
	// liveFor is the least time for which a live day is kept.
	liveFor = 10 * time.Second

	// liveFactor keeps a live day for so many times what its build took, so that the builds of one
	// site occupy at most a twentieth of a processor.
	liveFactor = 20

	// maxLiveFor bounds how old a live day can be.
	maxLiveFor = 2 * time.Minute

	// maxLiveBytes bounds the memory of all live days, about 5 million page views.
	maxLiveBytes = 128 << 20
)

// liveDays keeps the segments of days that were built from their rows for a report.
type liveDays struct {
	mu       sync.Mutex
	days     *simplelru.LRU[liveKey, *liveDay]
	building map[liveKey]chan struct{} // closed when the build has ended
	bytes    int64
}

type liveKey struct {
	site int64
	day  model.Day
}

// liveDay is a day as it was stored at a time.
type liveDay struct {
	*segment.Segment
	at    model.Instant // everything committed until then is in it
	until model.Instant // it must not be used later
	bytes int64
}

func newLiveDays() *liveDays {
	l := &liveDays{building: make(map[liveKey]chan struct{})}
	days, err := simplelru.NewLRU(1<<20, func(_ liveKey, d *liveDay) { l.bytes -= d.bytes })
	if err != nil {
		// Only a size below 1 fails.
		panic(err)
	}
	l.days = days
	return l
}

// liveDay returns a day built from its rows, at most some seconds old. Concurrent callers share one
// build.
func (s *Store) liveDay(ctx context.Context, siteID int64, day model.Day, now model.Instant) (*liveDay, error) {
	key := liveKey{siteID, day}
	for {
		d, wait := s.live.get(key, now)
		if d != nil {
			return d, nil
		}
		if wait == nil {
			return s.buildLive(ctx, key, now)
		}

		select {
		case <-wait:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// get returns a day that is kept, or else a channel that is closed when the build in progress has
// ended. Without both, the caller must build the day and call put.
func (l *liveDays) get(key liveKey, now model.Instant) (*liveDay, chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()

	if d, ok := l.days.Get(key); ok && now >= d.at && now < d.until {
		return d, nil
	}
	if wait := l.building[key]; wait != nil {
		return nil, wait
	}
	l.building[key] = make(chan struct{})
	return nil, nil
}

// put ends a build. d is nil after a failure.
func (l *liveDays) put(key liveKey, d *liveDay) {
	l.mu.Lock()
	defer l.mu.Unlock()

	close(l.building[key])
	delete(l.building, key)
	l.days.Remove(key)
	if d == nil || d.bytes > maxLiveBytes {
		return
	}

	l.days.Add(key, d)
	for l.bytes += d.bytes; l.bytes > maxLiveBytes; {
		l.days.RemoveOldest()
	}
}

func (s *Store) buildLive(ctx context.Context, key liveKey, now model.Instant) (d *liveDay, err error) {
	defer func() { s.live.put(key, d) }()

	began := time.Now()
	rows, err := s.readDay(ctx, key.site, key.day)
	if err != nil {
		return nil, fmt.Errorf("read the rows of site %d on %v: %w", key.site, key.day, err)
	}
	g, err := segment.Build(rows.Rows)
	if err != nil {
		return nil, fmt.Errorf("build site %d on %v: %w", key.site, key.day, err)
	}

	keep := min(max(liveFor, liveFactor*time.Since(began)), maxLiveFor)
	return &liveDay{Segment: g, at: now, until: now.Add(keep), bytes: sizeInMemory(g)}, nil
}

// sizeInMemory estimates the memory of a segment, in bytes.
func sizeInMemory(g *segment.Segment) int64 {
	const perVisit, perView, perEvent, perProp, perText = 60, 13, 24, 8, 48
	total := g.Total()
	n := perVisit*int64(total.Visits) + perView*int64(total.Views) + perEvent*int64(total.Events) +
		perProp*int64(g.Columns[segment.PropName].Len())
	for _, texts := range g.Texts {
		for _, text := range texts {
			n += int64(len(text)) + perText
		}
	}
	return n
}
