package sites

import (
	"context"
	"fmt"
	"math"
	"strings"

	"github.com/uptrace/bun"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/model"
)

// CreateAnnotation adds a note on a day to a site of the account, which can have
// model.MaxAnnotations. It returns the note with its id.
func (s *Objects) CreateAnnotation(
	ctx context.Context, accountID model.AccountID, annotation model.Annotation,
) (*model.Annotation, error) {
	if err := model.CheckAnnotation(annotation.Day, annotation.Text); err != nil {
		return nil, err
	}

	err := createObject(ctx, s, accountID, annotation.SiteID, &annotation, annotationLimit)
	if err != nil {
		return nil, err
	}

	return &annotation, nil
}

// UpdateAnnotation changes the given ones of day and text, or nothing if one of them is refused.
func (s *Objects) UpdateAnnotation(
	ctx context.Context, accountID model.AccountID, id model.AnnotationID, day *model.Day, text *string,
) (*model.Annotation, error) {
	return changeObject(ctx, s, accountID, id, "annotations", func(tx *db.Tx, a *model.Annotation) error {
		setIfGiven(&a.Day, day)
		setIfGiven(&a.Text, text)
		if err := model.CheckAnnotation(a.Day, a.Text); err != nil {
			return err
		}
		return updateObject(ctx, tx, a, "day", "text")
	})
}

// DeleteAnnotation deletes an annotation of the account and returns it.
func (s *Objects) DeleteAnnotation(ctx context.Context, accountID model.AccountID, id model.AnnotationID) (*model.Annotation, error) {
	return deleteObject[model.Annotation](ctx, s, accountID, id, "annotations")
}

// Annotation returns an annotation of the account, or model.ErrNotFound.
func (s *Objects) Annotation(ctx context.Context, accountID model.AccountID, id model.AnnotationID) (*model.Annotation, error) {
	return objectOf[model.Annotation](ctx, s, accountID, id)
}

// AnnotationPosition is the place of an annotation in a list by day and id.
type AnnotationPosition struct {
	Day model.Day
	ID  model.AnnotationID
}

// AnnotationPage is a page of each site's annotations. It is comparable.
type AnnotationPage struct {
	After, Before AnnotationPosition // annotations around the page, in the list's order; zero: none
	Limit         int
	Backward      bool // the last annotations between the positions instead of the first ones
	Oldest        bool // oldest day first
}

// AnnotationsOfSites returns a page of annotations of each site, in the list's order, with one
// statement. The caller must have loaded the sites, which checks the right to see them.
func (s *Objects) AnnotationsOfSites(
	ctx context.Context, siteIDs []model.SiteID, page AnnotationPage,
) (map[model.SiteID][]*model.Annotation, error) {
	if len(siteIDs) == 0 {
		return nil, nil
	}

	above, below := page.Before, page.After
	if page.Oldest {
		above, below = page.After, page.Before
	}
	if above.ID == 0 {
		above.Day = math.MinInt32
	}
	if below.ID == 0 {
		below.Day = math.MaxInt32
	}

	order := "day DESC, id DESC"
	if page.Oldest != page.Backward {
		order = "day, id"
	}

	var pages []string
	var args []any
	for i, id := range siteIDs {
		pages = append(pages, fmt.Sprintf(`SELECT * FROM (SELECT id, site_id, day, text, created_at FROM annotations
WHERE site_id = ? AND (day, id) > (?, ?) AND (day, id) < (?, ?) ORDER BY %s LIMIT ?) AS of_site_%d`, order, i))
		args = append(args, id, above.Day, above.ID, below.Day, below.ID, page.Limit)
	}

	var rows []*model.Annotation
	err := s.reader().NewRaw(strings.Join(pages, " UNION ALL ")+" ORDER BY "+order, args...).Scan(ctx, &rows)
	if err != nil {
		return nil, fmt.Errorf("list annotations of %d sites: %w", len(siteIDs), err)
	}

	bySite := make(map[model.SiteID][]*model.Annotation, len(siteIDs))
	for _, row := range rows {
		bySite[row.SiteID] = append(bySite[row.SiteID], row)
	}

	for _, of := range bySite {
		db.InOrder(of, page.Backward)
	}

	return bySite, nil
}

// AnnotationCounts returns how many annotations each site has. Sites without any are left out. The
// caller must have loaded the sites, which checks the right to see them.
func (s *Objects) AnnotationCounts(ctx context.Context, siteIDs []model.SiteID) (map[model.SiteID]int, error) {
	if len(siteIDs) == 0 {
		return nil, nil
	}

	var rows []struct {
		SiteID model.SiteID
		N      int
	}
	err := s.reader().NewSelect().Table("annotations").Column("site_id").ColumnExpr("count(*) AS n").
		Where("site_id IN ?", bun.Tuple(siteIDs)).Group("site_id").Scan(ctx, &rows)
	if err != nil {
		return nil, fmt.Errorf("count annotations of %d sites: %w", len(siteIDs), err)
	}

	counts := make(map[model.SiteID]int, len(rows))
	for _, row := range rows {
		counts[row.SiteID] = row.N
	}

	return counts, nil
}
