package graph

import (
	"context"
	"math"
	"sync"

	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/graph/generated"
)

// loadUsage returns what each site has recorded in the month: db.MonthlyUsage.
type loadUsage func(ctx context.Context, month model.Month, siteIDs []int64) (map[int64]int64, error)

// usageLoader reads the usage of all sites of one request with one statement for each list of them: a list announces its
// sites, and the first of them that is asked for its usage loads it for all.
type usageLoader struct {
	load loadUsage

	mu     sync.Mutex
	month  model.Month
	wanted []int64
	used   map[int64]int64 // of the sites loaded so far
}

func newUsageLoader(month model.Month, load loadUsage) *usageLoader {
	return &usageLoader{load: load, month: month, used: make(map[int64]int64)}
}

// expect announces sites whose usage may be asked for.
func (l *usageLoader) expect(sites []*model.Site) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, site := range sites {
		l.wanted = append(l.wanted, site.ID)
	}
}

// of states what the site has used of its quota this month. Others of the same request wait for the statement, which
// brings their answer too.
func (l *usageLoader) of(ctx context.Context, site *model.Site) (*generated.Usage, error) {
	used, err := l.count(ctx, site.ID)
	if err != nil {
		return nil, err
	}
	return &generated.Usage{
		Period:    l.month.String(),
		Pageviews: used,
		Quota:     site.MonthlyPageviews,
		Percent:   percent(used, site.MonthlyPageviews),
		ResetsAt:  model.At(l.month.Next().Start()),
	}, nil
}

func (l *usageLoader) count(ctx context.Context, siteID int64) (int64, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if used, ok := l.used[siteID]; ok {
		return used, nil
	}
	ids := append(l.wanted, siteID)
	used, err := l.load(ctx, l.month, ids)
	if err != nil {
		return 0, err
	}
	for _, id := range ids {
		l.used[id] = used[id]
	}
	l.wanted = nil
	return l.used[siteID], nil
}

// percent is cut to one decimal, so that 100 is not shown before the quota is used up. Nothing of nothing is all of it.
func percent(used, quota int64) float64 {
	if quota <= 0 {
		return 100
	}
	return math.Floor(float64(used)/float64(quota)*1000) / 10
}
