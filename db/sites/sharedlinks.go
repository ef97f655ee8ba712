package sites

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"github.com/uptrace/bun"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/keys"
	"github.com/tallygate/tallygate/db/model"
)

// sharedLinkTouch is the precision of a link's last use, so that most requests write nothing.
const sharedLinkTouch = time.Minute

// CreateSharedLink stores a link to the reports of a site of the account, which can have
// model.MaxSharedLinks, and returns it with its id. The segment of the link, if any, must be one of
// the site: any other is the NotFound not_found of the field segmentId. The token is stored
// encrypted.
func (s *Objects) CreateSharedLink(
	ctx context.Context, accountID model.AccountID, link model.SharedLink,
) (*model.SharedLink, error) {
	name, err := model.ParseName("name", link.Name)
	if err != nil {
		return nil, err
	}

	link.Name = name
	err = s.inTx(ctx, func(ctx context.Context, tx *db.Tx) error {
		if err := lockOwnSite(ctx, tx, accountID, link.SiteID); err != nil {
			return err
		}
		if err := checkLinkSegment(ctx, tx, &link); err != nil {
			return err
		}

		sealed, err := s.keys.Seal(ctx, tx, keys.LinkToken(link.SiteID), link.Token)
		if err != nil {
			return err
		}
		link.SealedToken = sealed

		return addObject(ctx, tx, accountID, link.SiteID, &link, linkLimit)
	})
	if err != nil {
		return nil, objectError(err, "add a shared link of site %d", link.SiteID)
	}

	return &link, nil
}

// checkLinkSegment checks that the segment of a link, if any, is one of the site.
func checkLinkSegment(ctx context.Context, tx *db.Tx, link *model.SharedLink) error {
	if link.SegmentID == 0 {
		return nil
	}

	found, err := tx.NewSelect().Table("segments").Where("id = ?", link.SegmentID).
		Where("site_id = ?", link.SiteID).Exists(ctx)
	if err == nil && !found {
		err = &model.Error{Kind: model.NotFound, Code: model.ErrNotFound.Code, Field: "segmentId",
			Message: model.ErrNotFound.Message}
	}
	return err
}

// RevokeSharedLink deletes a link of the account and returns it. Its readers can read nothing from
// then on.
func (s *Objects) RevokeSharedLink(ctx context.Context, accountID model.AccountID, id model.SharedLinkID) (*model.SharedLink, error) {
	return deleteObject[model.SharedLink](ctx, s, accountID, id, "shared_links")
}

// SharedLink returns a link of the account, or model.ErrNotFound.
func (s *Objects) SharedLink(ctx context.Context, accountID model.AccountID, id model.SharedLinkID) (*model.SharedLink, error) {
	return objectOf[model.SharedLink](ctx, s, accountID, id)
}

// LinkToken returns the token of a link for a member who may create links; "" for a link with a
// token that was stored with a lost application key.
func (s *Objects) LinkToken(link *model.SharedLink) string {
	token, err := s.keys.Open(keys.LinkToken(link.SiteID), link.SealedToken)
	if err != nil || !bytes.Equal(model.HashToken(token), link.TokenHash) {
		return ""
	}
	return token
}

// LinkOrigins returns the origins whose pages may frame the report of a link. It returns
// model.ErrNotFound for a link that does not exist or has expired. Callers need no session, so it
// reads one row.
func (s *Objects) LinkOrigins(ctx context.Context, id model.SharedLinkID, now model.Instant) ([]string, error) {
	var link model.SharedLink
	err := s.reader().NewSelect().Model(&link).Column("origins", "expires_at").Where("id = ?", id).
		Where("EXISTS (SELECT 1 FROM sites WHERE sites.id = shared_link.site_id AND sites.deleted_at = 0)").Scan(ctx)
	if err != nil {
		return nil, db.OrNotFound(err)
	}
	if link.Expired(now) {
		return nil, model.ErrNotFound
	}
	return link.Origins, nil
}

// SharedLinksOfSites returns the links of each site, oldest first, also expired ones. The caller
// must have loaded the sites, which checks the right to see them.
func (s *Objects) SharedLinksOfSites(ctx context.Context, siteIDs []model.SiteID) (map[model.SiteID][]*model.SharedLink, error) {
	return objectsOf(ctx, s, siteIDs, func(link *model.SharedLink) model.SiteID { return link.SiteID })
}

// SegmentsByID returns segments by their numbers, for shared links that the caller has loaded.
func (s *Objects) SegmentsByID(ctx context.Context, ids []model.SegmentID) (map[model.SegmentID]*model.Segment, error) {
	if len(ids) == 0 {
		return nil, nil
	}

	var rows []*model.Segment
	if err := s.reader().NewSelect().Model(&rows).Where("id IN ?", bun.Tuple(ids)).Scan(ctx); err != nil {
		return nil, fmt.Errorf("read %d segments: %w", len(ids), err)
	}

	byID := make(map[model.SegmentID]*model.Segment, len(rows))
	for _, row := range rows {
		byID[row.ID] = row
	}

	return byID, nil
}

// SharedLinkByToken returns the link whose secret has this hash, or model.ErrNotFound if there is
// none or it has expired.
func (s *Objects) SharedLinkByToken(ctx context.Context, hash []byte, now model.Instant) (*model.SharedLink, error) {
	var link model.SharedLink
	if err := s.reader().NewSelect().Model(&link).Where("token_hash = ?", hash).
		Where("EXISTS (SELECT 1 FROM sites WHERE sites.id = shared_link.site_id AND sites.deleted_at = 0)").Scan(ctx); err != nil {
		return nil, db.OrNotFound(err)
	}
	if link.Expired(now) {
		return nil, model.ErrNotFound
	}
	return &link, nil
}

// SharedView returns a link that a reader has opened, with its site, and records its use. It
// returns model.ErrNotFound for a link that was revoked or has expired since.
func (s *Objects) SharedView(ctx context.Context, linkID model.SharedLinkID, now model.Instant) (*model.SharedView, error) {
	var link model.SharedLink
	if err := s.reader().NewSelect().Model(&link).Where("id = ?", linkID).Scan(ctx); err != nil {
		return nil, db.OrNotFound(err)
	}
	if link.Expired(now) {
		return nil, model.ErrNotFound
	}

	var site model.Site
	if err := s.reader().NewSelect().Model(&site).Where("id = ?", link.SiteID).Where("deleted_at = 0").
		Scan(ctx); err != nil {
		return nil, db.OrNotFound(err)
	}

	if seen := now.Add(-sharedLinkTouch); link.LastUsedAt <= seen {
		// The condition lets only one of several concurrent requests write.
		_, err := s.writer().NewUpdate().Model((*model.SharedLink)(nil)).Set("last_used_at = ?", now).
			Where("id = ?", link.ID).Where("last_used_at IS NULL OR last_used_at <= ?", seen).Exec(ctx)
		if err != nil {
			return nil, fmt.Errorf("note use of shared link %d: %w", link.ID, err)
		}
	}

	return &model.SharedView{Link: &link, Site: &site}, nil
}
