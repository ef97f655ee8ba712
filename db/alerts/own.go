package alerts

import (
	"context"
	"fmt"

	"github.com/uptrace/bun"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/audit"
	"github.com/tallygate/tallygate/db/model"
)

// Own channels of users. A user has at most one for each site, with the user's own address, which
// needs no confirmation.

// SetOwn changes the own channel of a user for a site of the account as change does, and returns
// it. It creates the channel before, and resumes it if it is stopped: the secret in earlier mails
// remains valid. It deletes a channel that wants nothing, and then returns nil.
func (s *Channels) SetOwn(
	ctx context.Context, user *model.User, siteID model.SiteID, now model.Instant, change func(*model.AlertChannel) error,
) (own *model.AlertChannel, err error) {
	err = s.db.InTx(ctx, func(ctx context.Context, tx *db.Tx) error {
		site, err := lockOwner(ctx, tx, user.AccountID, siteID)
		if err != nil {
			return err
		}
		if err := tx.CheckReaches(ctx, user, siteID); err != nil {
			return err
		}

		var rows []model.AlertChannel
		q := tx.NewSelect().Model(&rows).Where("user_id = ?", user.ID).Where("site_id = ?", siteID)
		tx.Lock(q, "UPDATE")
		if err := q.Scan(ctx); err != nil {
			return err
		}

		channel := model.AlertChannel{
			AccountID: user.AccountID, SiteID: siteID, UserID: user.ID, Kind: model.ChannelEmail, Address: []byte{},
			Events: []model.AlertEvent{}, ConfirmedAt: now, CreatedAt: now,
		}
		var was model.AlertChannel
		var before audit.Values
		if len(rows) > 0 {
			channel, was = rows[0], rows[0]
			was.Follow(user)
			before = s.values(&was)
		}

		channel.StoppedAt, channel.StopReason = 0, ""
		if err := change(&channel); err != nil {
			return err
		}
		if err := schedule(&channel, &was, site, now); err != nil {
			return err
		}
		own, err = s.storeOwn(ctx, tx, &channel, user, before)
		return err
	})
	if err != nil {
		return nil, db.Wrap(err, "set the own alert channel of site %d", siteID)
	}
	return own, nil
}

// storeOwn inserts, updates or deletes an own channel. before are its values; nil for a new one.
func (s *Channels) storeOwn(
	ctx context.Context, tx *db.Tx, channel *model.AlertChannel, user *model.User, before audit.Values,
) (*model.AlertChannel, error) {
	wanted, exists := !channel.WantsNothing(), channel.ID != 0
	var err error
	switch {
	case wanted && exists:
		err = save(ctx, tx, channel)
	case wanted:
		_, err = tx.NewInsert().Model(channel).Exec(ctx)
	case exists:
		err = remove(ctx, tx, channel)
	}
	if err != nil || !wanted && !exists {
		return nil, err
	}

	// The row has no copy of the address, so it is not stored again on a change of the user.
	channel.Follow(user)
	if !wanted {
		return nil, s.audit(ctx, tx, channel, before, nil)
	}
	return channel, s.audit(ctx, tx, channel, before, s.values(channel))
}

// OwnOfSites returns a user's own channel of each site. The caller must have loaded the sites,
// which checks the right to see them.
func (s *Channels) OwnOfSites(
	ctx context.Context, user *model.User, siteIDs []model.SiteID,
) (map[model.SiteID]*model.AlertChannel, error) {
	if len(siteIDs) == 0 {
		return nil, nil
	}
	var rows []*model.AlertChannel
	err := s.db.Read.NewSelect().Model(&rows).Where("user_id = ?", user.ID).Where("site_id IN ?", bun.Tuple(siteIDs)).
		Scan(ctx)
	if err != nil {
		return nil, fmt.Errorf("read the own alert channels of %d sites: %w", len(siteIDs), err)
	}

	of := make(map[model.SiteID]*model.AlertChannel, len(rows))
	for _, row := range rows {
		row.Follow(user)
		of[row.SiteID] = row
	}
	return of, nil
}
