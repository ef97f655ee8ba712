package graph

import (
	"context"

	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/reports"
	"github.com/tallygate/tallygate/graph/generated"
)

func (r *siteResolver) Live(ctx context.Context, obj *model.Site) (*generated.LiveReport, error) {
	return r.live(ctx, obj.ID)
}

func (r *sharedSiteResolver) Live(ctx context.Context, obj *generated.SharedSite) (*generated.LiveReport, error) {
	if obj.View.Link.SegmentID != 0 {
		return nil, nil
	}
	return r.live(ctx, obj.View.Site.ID)
}

func (r *Resolver) live(ctx context.Context, siteID int64) (*generated.LiveReport, error) {
	live, err := r.reports.Live(ctx, siteID, requestOf(ctx).now)
	if err != nil {
		return nil, err
	}

	report := &generated.LiveReport{
		At: live.At, Visitors: live.Visitors, Pageviews: live.Pageviews[:], Pages: liveRows(live.Pages),
		Sources: liveRows(live.Sources), Latest: make([]*generated.LiveHit, len(live.Latest)),
	}
	for i, hit := range live.Latest {
		report.Latest[i] = &generated.LiveHit{At: hit.At, Event: orNil(hit.Event), Path: hit.Path, Channel: hit.Channel}
	}
	return report, nil
}

func liveRows(counts []reports.LiveCount) []*generated.LiveRow {
	rows := make([]*generated.LiveRow, len(counts))
	for i, count := range counts {
		rows[i] = &generated.LiveRow{Value: count.Value, Visitors: count.Visitors}
	}
	return rows
}
