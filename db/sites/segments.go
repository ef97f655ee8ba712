package sites

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/model"
)

// Saved filters and saved funnels of a site. Their content is checked like that of a report's
// arguments, so a stored one can always be used.

// CreateSegment saves filters under a name that is unique in the site, which can have
// model.MaxSegments. It returns the segment with its id.
func (s *Objects) CreateSegment(ctx context.Context, accountID model.AccountID, segment model.Segment) (*model.Segment, error) {
	if err := checkSegment(&segment); err != nil {
		return nil, err
	}

	err := createObject(ctx, s, accountID, segment.SiteID, &segment, segmentLimit)
	if err != nil {
		return nil, err
	}

	return &segment, nil
}

// UpdateSegment changes the given ones of name and filters, or nothing if one of them is refused. A
// shared link with this segment shows the new filters.
func (s *Objects) UpdateSegment(
	ctx context.Context, accountID model.AccountID, id model.SegmentID, name *string, filters *[]model.ReportFilter,
) (*model.Segment, error) {
	return changeObject(ctx, s, accountID, id, "segments", func(tx *db.Tx, segment *model.Segment) error {
		setIfGiven(&segment.Name, name)
		setIfGiven(&segment.Filters, filters)
		if err := checkSegment(segment); err != nil {
			return err
		}
		return updateObject(ctx, tx, segment, "name", "filters")
	})
}

// checkSegment normalises the name and checks the filters. It reports every wrong field.
func checkSegment(segment *model.Segment) error {
	name, nameErr := model.ParseName("name", segment.Name)
	segment.Name = name

	filtersErr := model.CheckReportFilters("filters", segment.Filters)
	if filtersErr == nil && len(segment.Filters) == 0 {
		filtersErr = model.InvalidField("filters", "invalid_filter", "A segment has at least one filter.")
	}

	text, err := json.Marshal(segment.Filters)
	if filtersErr == nil && (err != nil || len(text) > model.MaxSegmentBytes) {
		filtersErr = model.InvalidField("filters", "invalid_filter",
			fmt.Sprintf("The filters of a segment have at most %d bytes as JSON.", model.MaxSegmentBytes))
	}

	return errors.Join(nameErr, filtersErr)
}

// DeleteSegment deletes a segment of the account and returns it. It fails with the Conflict
// segment_in_use while a shared link has it: without the segment the link would show more.
func (s *Objects) DeleteSegment(ctx context.Context, accountID model.AccountID, id model.SegmentID) (*model.Segment, error) {
	return withObject(ctx, s, accountID, id, "segments", func(
		ctx context.Context, tx *db.Tx, segment *model.Segment,
	) error {
		used, err := tx.NewSelect().Table("shared_links").Where("site_id = ?", segment.SiteID).
			Where("segment_id = ?", id).Exists(ctx)
		if err != nil {
			return err
		}
		if used {
			return &model.Error{Kind: model.Conflict, Code: "segment_in_use", Field: "segmentId",
				Message: "A shared link has this segment. Revoke the link first."}
		}

		return removeObject(ctx, tx, accountID, segment)
	})
}

// Segment returns a segment of the account, or model.ErrNotFound.
func (s *Objects) Segment(ctx context.Context, accountID model.AccountID, id model.SegmentID) (*model.Segment, error) {
	return objectOf[model.Segment](ctx, s, accountID, id)
}

// SegmentsOfSites returns the segments of each site, oldest first. The caller must have loaded the
// sites, which checks the right to see them.
func (s *Objects) SegmentsOfSites(ctx context.Context, siteIDs []model.SiteID) (map[model.SiteID][]*model.Segment, error) {
	return objectsOf(ctx, s, siteIDs, func(segment *model.Segment) model.SiteID { return segment.SiteID })
}

// CreateFunnel saves steps under a name that is unique in the site, which can have
// model.MaxFunnels. It returns the funnel with its id.
func (s *Objects) CreateFunnel(ctx context.Context, accountID model.AccountID, funnel model.Funnel) (*model.Funnel, error) {
	if err := checkFunnel(&funnel, true); err != nil {
		return nil, err
	}

	err := createObject(ctx, s, accountID, funnel.SiteID, &funnel, funnelLimit)
	if err != nil {
		return nil, err
	}

	return &funnel, nil
}

// UpdateFunnel changes the given ones of name and steps, or nothing if one of them is refused.
func (s *Objects) UpdateFunnel(
	ctx context.Context, accountID model.AccountID, id model.FunnelID, name *string, steps *[]model.FunnelStep,
) (*model.Funnel, error) {
	return changeObject(ctx, s, accountID, id, "funnels", func(tx *db.Tx, funnel *model.Funnel) error {
		setIfGiven(&funnel.Name, name)
		setIfGiven(&funnel.Steps, steps)
		if err := checkFunnel(funnel, steps != nil); err != nil {
			return err
		}
		return updateObject(ctx, tx, funnel, "name", "steps")
	})
}

// checkPages refuses pages that no path can match. Stored funnels may have such steps, so reports
// accept them.
func checkPages(steps []model.FunnelStep) error {
	var wrong []error
	for i, step := range steps {
		if step.Page != "" && !strings.HasPrefix(step.Page, "/") && !strings.HasPrefix(step.Page, "*") {
			wrong = append(wrong, model.InvalidItem("steps", i, "invalid_step", `A page begins with "/". The name of an event is no page.`))
		}
	}
	return errors.Join(wrong...)
}

// maxFunnelBytes bounds the steps of a funnel, as JSON. A request can read the funnels of many
// sites.
const maxFunnelBytes = 16_384

// checkFunnel normalises the name and checks the steps. It checks the pages of new steps only. It
// reports every wrong field.
func checkFunnel(funnel *model.Funnel, newSteps bool) error {
	name, err := model.ParseName("name", funnel.Name)
	funnel.Name = name

	stepsErr := model.CheckFunnelSteps("steps", funnel.Steps)
	if stepsErr == nil && newSteps {
		stepsErr = checkPages(funnel.Steps)
	}
	text, textErr := json.Marshal(funnel.Steps)
	if stepsErr == nil && (textErr != nil || len(text) > maxFunnelBytes) {
		stepsErr = model.InvalidField("steps", "invalid_step",
			fmt.Sprintf("The steps of a funnel have at most %d bytes as JSON.", maxFunnelBytes))
	}
	return errors.Join(err, stepsErr)
}

// DeleteFunnel deletes a funnel of the account and returns it.
func (s *Objects) DeleteFunnel(ctx context.Context, accountID model.AccountID, id model.FunnelID) (*model.Funnel, error) {
	return deleteObject[model.Funnel](ctx, s, accountID, id, "funnels")
}

// Funnel returns a funnel of the account, or model.ErrNotFound.
func (s *Objects) Funnel(ctx context.Context, accountID model.AccountID, id model.FunnelID) (*model.Funnel, error) {
	return objectOf[model.Funnel](ctx, s, accountID, id)
}

// FunnelsOfSites returns the funnels of each site, oldest first. The caller must have loaded the
// sites, which checks the right to see them.
func (s *Objects) FunnelsOfSites(ctx context.Context, siteIDs []model.SiteID) (map[model.SiteID][]*model.Funnel, error) {
	return objectsOf(ctx, s, siteIDs, func(funnel *model.Funnel) model.SiteID { return funnel.SiteID })
}
