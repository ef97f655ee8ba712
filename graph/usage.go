package graph

import (
	"context"
	"math"

	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/graph/generated"
)

// siteUsage states what the site has used of its quota this month.
func (r *Resolver) siteUsage(ctx context.Context, site *model.Site) (*generated.Usage, error) {
	request := requestOf(ctx)
	used, err := request.loaders().usage.of(ctx, site.ID)
	if err != nil {
		return nil, err
	}

	month := request.now.Month()
	return &generated.Usage{
		Period:    month.String(),
		Pageviews: used,
		Quota:     site.MonthlyPageviews,
		Percent:   percent(used, site.MonthlyPageviews),
		ResetsAt:  model.At(month.Next().Start()),
	}, nil
}

// percent is cut to one decimal, so that 100 is not shown before the quota is used up. Nothing of
// nothing is all of it.
func percent(used, quota int64) float64 {
	if quota <= 0 {
		return 100
	}
	return math.Floor(float64(used)/float64(quota)*1000) / 10
}
