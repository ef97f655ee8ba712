package sites

import (
	"context"
	"fmt"
	"math"
	"strings"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/model"
)

// CreateAnnotation adds a note on a day to a site of the account, which can have
// model.MaxAnnotations. It returns the note with its id.
func (s *Store) CreateAnnotation(
	ctx context.Context, accountID int64, annotation model.Annotation,
) (*model.Annotation, error) {
	if err := model.CheckAnnotation(annotation.Day, annotation.Text); err != nil {
		return nil, err
	}

	err := createObject(ctx, s, accountID, annotation.SiteID, &annotation, annotationLimit, unchecked)
	if err != nil {
		return nil, err
	}

	return &annotation, nil
}

// UpdateAnnotation changes the given ones of day and text, or nothing if one of them is refused.
func (s *Store) UpdateAnnotation(
	ctx context.Context, accountID, id int64, day *model.Day, text *string,
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
func (s *Store) DeleteAnnotation(ctx context.Context, accountID, id int64) (*model.Annotation, error) {
	return deleteObject[model.Annotation](ctx, s, accountID, id, "annotations")
}

// Annotation returns an annotation of the account, or model.ErrNotFound.
func (s *Store) Annotation(ctx context.Context, accountID, id int64) (*model.Annotation, error) {
	return objectOf[model.Annotation](ctx, s, accountID, id)
}

// AnnotationPage is a page of each site's annotations: up to Limit of those before a position, newest
// day first. The zero position is the beginning of the list.
type AnnotationPage struct {
	Day   model.Day
	ID    int64
	Limit int
}

// AnnotationsOfSites returns a page of annotations of each site with one statement. The caller must
// have loaded the sites, which checks the right to see them.
func (s *Store) AnnotationsOfSites(
	ctx context.Context, siteIDs []int64, page AnnotationPage,
) (map[int64][]*model.Annotation, error) {
	if len(siteIDs) == 0 {
		return nil, nil
	}
	if page.ID == 0 {
		page.Day, page.ID = model.LastAnnotationDay+1, math.MaxInt64
	}

	var pages []string
	var args []any
	for i, id := range siteIDs {
		pages = append(pages, fmt.Sprintf(`SELECT * FROM (SELECT id, site_id, day, text, created_at FROM annotations
WHERE site_id = ? AND (day, id) < (?, ?) ORDER BY day DESC, id DESC LIMIT ?) AS of_site_%d`, i))
		args = append(args, id, page.Day, page.ID, page.Limit)
	}

	var rows []*model.Annotation
	err := s.db.Read.NewRaw(strings.Join(pages, " UNION ALL ")+" ORDER BY day DESC, id DESC", args...).Scan(ctx, &rows)
	if err != nil {
		return nil, fmt.Errorf("list annotations of %d sites: %w", len(siteIDs), err)
	}

	bySite := make(map[int64][]*model.Annotation, len(siteIDs))
	for _, row := range rows {
		bySite[row.SiteID] = append(bySite[row.SiteID], row)
	}

	return bySite, nil
}
