package resolver

import (
	"context"

	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/reports/period"
	"github.com/tallygate/tallygate/db/reports/scan"
	"github.com/tallygate/tallygate/graph/auth"
	"github.com/tallygate/tallygate/graph/generated"
)

// The period and the comparison with which the report of a site opens.

func (r *siteResolver) ReportView(ctx context.Context, obj *model.Site) (*generated.ReportView, error) {
	return r.reportView(ctx, obj)
}

func (r *sharedSiteResolver) ReportView(ctx context.Context, obj *generated.SharedSite) (*generated.ReportView, error) {
	return r.reportView(ctx, obj.View.Site)
}

// SetReportView changes the caller's own choice.
func (r *mutationResolver) SetReportView(
	ctx context.Context, input generated.SetReportViewInput,
) (*generated.SetReportViewPayload, error) {
	chosen := model.ReportView{Preset: string(input.Preset), MatchDayOfWeek: input.MatchDayOfWeek}
	if input.Compare != nil {
		chosen.Compare = string(*input.Compare)
	}

	member, siteID := granted[model.SiteID](ctx)
	if err := r.sites.SetReportView(ctx, member, siteID, chosen); err != nil {
		return nil, err
	}
	return &generated.SetReportViewPayload{ReportView: shownView(&chosen)}, nil
}

// reportView returns the caller's choice for a site, or what a report opens with before the first
// choice. Readers of a shared link have no choice.
func (r *Resolver) reportView(ctx context.Context, site *model.Site) (*generated.ReportView, error) {
	caller, err := auth.CallerOf(ctx)
	if err != nil {
		return nil, err
	}
	if caller.User != nil {
		chosen, err := requestOf(ctx).loaders().ReportViews(caller.User.ID).Of(ctx, site.ID)
		if err != nil {
			return nil, err
		}
		if chosen != nil {
			return shownView(chosen), nil
		}
	}

	zone, err := site.Zone()
	if err != nil {
		return nil, err
	}
	today := scan.DateOf(requestOf(ctx).now.Time().In(zone))
	begun, err := r.reports.HasHitsBefore(ctx, site.ID, model.At(today.Start(zone)))
	if err != nil {
		return nil, err
	}

	view := &generated.ReportView{Preset: period.Last28Days, MatchDayOfWeek: true}
	if !begun {
		view.Preset, err = r.firstView(ctx, site, today.Number())
	}
	return view, err
}

// firstView returns the period of a site without own hits before today: the shortest one with the
// last imported day, or today, which has the first hits or nothing.
func (r *Resolver) firstView(ctx context.Context, site *model.Site, today model.Day) (period.Preset, error) {
	loaders := requestOf(ctx).loaders()
	imports, err := loaders.Imports().Of(ctx, site.ID)
	if err != nil || len(imports) == 0 {
		return period.Today, err
	}

	last := imports[0].LastDay
	for _, m := range imports {
		last = max(last, m.LastDay)
	}
	if today-last <= 28 {
		return period.Last28Days, nil
	}

	hit, err := loaders.LastHits().Of(ctx, site.ID)
	switch {
	case err != nil || hit != 0:
		return period.Today, err
	case today-last <= 91:
		return period.Last91Days, nil
	case today-last <= 364:
		return period.Last12Months, nil
	}
	return period.AllTime, nil
}

// shownView converts a stored choice.
func shownView(chosen *model.ReportView) *generated.ReportView {
	view := &generated.ReportView{Preset: period.Preset(chosen.Preset), MatchDayOfWeek: chosen.MatchDayOfWeek}
	if kind := generated.ReportComparisonKind(chosen.Compare); kind.IsValid() && view.Preset != period.AllTime {
		view.Compare = &kind
	}
	return view
}

// opened completes the arguments of a report: the site's view gives the period and the comparison
// that are left out.
func (r *Resolver) opened(
	ctx context.Context, site *model.Site, asked *generated.ReportPeriod, compare *generated.ReportComparison,
) (generated.ReportPeriod, *generated.ReportComparison, error) {
	if asked != nil {
		return *asked, compare, nil
	}

	view, err := r.reportView(ctx, site)
	if err != nil {
		return generated.ReportPeriod{}, nil, err
	}
	if compare == nil && view.Compare != nil {
		compare = &generated.ReportComparison{Kind: view.Compare, MatchDayOfWeek: view.MatchDayOfWeek}
	}
	return generated.ReportPeriod{Preset: &view.Preset}, compare, nil
}
