package resolver

import (
	"context"

	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/graph/generated"
)

// Saved filters and saved funnels of a site.

func (r *siteResolver) Segments(ctx context.Context, obj *model.Site) ([]*model.Segment, error) {
	segments, err := requestOf(ctx).loaders().Segments().Of(ctx, obj.ID)
	return orEmpty(segments), err
}

func (r *siteResolver) Funnels(ctx context.Context, obj *model.Site) ([]*model.Funnel, error) {
	funnels, err := requestOf(ctx).loaders().Funnels().Of(ctx, obj.ID)
	return orEmpty(funnels), err
}

func (r *segmentResolver) Filters(ctx context.Context, obj *model.Segment) ([]*generated.ReportFilter, error) {
	filters := make([]*generated.ReportFilter, len(obj.Filters))
	for i, f := range obj.Filters {
		filters[i] = &generated.ReportFilter{
			Dimension: f.Dimension, Property: notZero(f.Property), Event: notZero(f.Event),
			Operator: f.Operator, Values: f.Values,
		}
	}
	return filters, nil
}

func (r *funnelResolver) Steps(ctx context.Context, obj *model.Funnel) ([]*generated.FunnelStep, error) {
	steps := make([]*generated.FunnelStep, len(obj.Steps))
	for i, s := range obj.Steps {
		steps[i] = &generated.FunnelStep{Page: notZero(s.Page), Event: notZero(s.Event), Label: s.Name()}
	}
	return steps, nil
}

func (r *mutationResolver) CreateSegment(
	ctx context.Context, input generated.CreateSegmentInput,
) (*generated.SegmentPayload, error) {
	member, siteID := granted[model.SiteID](ctx)
	segment, err := r.objects.CreateSegment(ctx, member.AccountID, model.Segment{
		SiteID: siteID, Name: input.Name, Filters: reportFilters(input.Filters),
	})
	return &generated.SegmentPayload{Segment: segment}, err
}

func (r *mutationResolver) UpdateSegment(
	ctx context.Context, input generated.UpdateSegmentInput,
) (*generated.SegmentPayload, error) {
	var filters *[]model.ReportFilter
	if input.Filters != nil {
		list := reportFilters(input.Filters)
		filters = &list
	}

	member, id := granted[model.SegmentID](ctx)
	segment, err := r.objects.UpdateSegment(ctx, member.AccountID, id, input.Name, filters)
	return &generated.SegmentPayload{Segment: segment}, err
}

func (r *mutationResolver) DeleteSegment(
	ctx context.Context, _ generated.DeleteSegmentInput,
) (*generated.SegmentPayload, error) {
	member, id := granted[model.SegmentID](ctx)
	segment, err := r.objects.DeleteSegment(ctx, member.AccountID, id)
	return &generated.SegmentPayload{Segment: segment}, err
}

func (r *mutationResolver) CreateFunnel(
	ctx context.Context, input generated.CreateFunnelInput,
) (*generated.FunnelPayload, error) {
	member, siteID := granted[model.SiteID](ctx)
	funnel, err := r.objects.CreateFunnel(ctx, member.AccountID, model.Funnel{
		SiteID: siteID, Name: input.Name, Steps: funnelSteps(input.Steps),
	})
	return &generated.FunnelPayload{Funnel: funnel}, err
}

func (r *mutationResolver) UpdateFunnel(
	ctx context.Context, input generated.UpdateFunnelInput,
) (*generated.FunnelPayload, error) {
	var steps *[]model.FunnelStep
	if input.Steps != nil {
		list := funnelSteps(input.Steps)
		steps = &list
	}

	member, id := granted[model.FunnelID](ctx)
	funnel, err := r.objects.UpdateFunnel(ctx, member.AccountID, id, input.Name, steps)
	return &generated.FunnelPayload{Funnel: funnel}, err
}

func (r *mutationResolver) DeleteFunnel(
	ctx context.Context, _ generated.DeleteFunnelInput,
) (*generated.FunnelPayload, error) {
	member, id := granted[model.FunnelID](ctx)
	funnel, err := r.objects.DeleteFunnel(ctx, member.AccountID, id)
	return &generated.FunnelPayload{Funnel: funnel}, err
}

// reportFilters converts the filters of an input. model.CheckReportFilters checks the result.
func reportFilters(inputs []*generated.ReportFilterInput) []model.ReportFilter {
	filters := make([]model.ReportFilter, len(inputs))
	for i, f := range inputs {
		filters[i] = model.ReportFilter{
			Dimension: f.Dimension, Property: orBlank(f.Property), Event: orBlank(f.Event),
			Operator: f.Operator, Values: f.Values,
		}
	}
	return filters
}

// funnelSteps converts the steps of an input. model.CheckFunnelSteps checks the result.
func funnelSteps(inputs []*generated.FunnelStepInput) []model.FunnelStep {
	steps := make([]model.FunnelStep, len(inputs))
	for i, s := range inputs {
		steps[i] = model.FunnelStep{Page: orBlank(s.Page), Event: orBlank(s.Event), Label: orBlank(s.Label)}
	}
	return steps
}
