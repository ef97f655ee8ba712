package alerts

import (
	"context"
	"fmt"
	"slices"

	"github.com/uptrace/bun"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/audit"
	"github.com/tallygate/tallygate/db/keys"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/nodeid"
	"github.com/tallygate/tallygate/db/outbox"
)

// Channels reads and changes the channels of accounts, of sites and of members, and their messages
// as members read them. Package outbox writes and leases the messages. It is safe for concurrent
// use.
type Channels struct {
	db   *db.DB
	keys *keys.Store
}

// NewChannels returns the channels of a database.
func NewChannels(d *db.DB) *Channels { return &Channels{db: d, keys: keys.New(d)} }

// Secrets are the values of a channel that are stored encrypted. A nil field is not changed.
type Secrets struct {
	Address *string // checked by the caller
	Signing *string // "": the calls are not signed
}

// Confirmation is the mail that asks the recipient of a new e-mail channel to confirm it.
type Confirmation struct {
	Token string // see model.AlertTokenPrefix
	URL   string // of the page that confirms it
	By    string // e-mail address of the caller
}

// Create stores a channel of an account or, if SiteID is set, of its site. A channel with an e-mail
// address gets nothing but the confirmation, which must then be set. It fails with the Conflict
// too_many_alert_channels beyond the limits.
func (s *Channels) Create(
	ctx context.Context, channel model.AlertChannel, secrets Secrets, confirm *Confirmation, now model.Instant,
) (*model.AlertChannel, error) {
	channel.CreatedAt, channel.ConfirmedAt = now, now
	err := s.db.InTx(ctx, func(ctx context.Context, tx *db.Tx) error {
		channel.ID = 0
		site, err := lockOwner(ctx, tx, channel.AccountID, channel.SiteID)
		if err != nil {
			return err
		}
		if err := hasRoom(ctx, tx, &channel); err != nil {
			return err
		}
		if err := schedule(&channel, &model.AlertChannel{}, site, now); err != nil {
			return err
		}

		if confirm != nil {
			channel.ConfirmHash, channel.ConfirmedAt = model.HashToken(confirm.Token), 0
			channel.ConfirmExpiresAt = now.Add(model.AlertConfirmLifetime)
		}
		channel.Address = []byte{}
		if _, err := tx.NewInsert().Model(&channel).Exec(ctx); err != nil {
			return err
		}

		// The values are bound to the number of the row.
		if err := s.seal(ctx, tx, &channel, secrets); err != nil {
			return err
		}
		if err := save(ctx, tx, &channel); err != nil {
			return err
		}
		if confirm != nil {
			if err := queueConfirm(ctx, tx, &channel, site, secrets, confirm, now); err != nil {
				return err
			}
		}
		return s.audit(ctx, tx, &channel, nil, s.values(&channel))
	})
	if err != nil {
		return nil, db.Wrap(err, "add an alert channel to account %d", channel.AccountID)
	}
	return &channel, nil
}

// lockOwner locks the account, so that the limits are exact, and reads the site, if any.
func lockOwner(ctx context.Context, tx *db.Tx, accountID model.AccountID, siteID model.SiteID) (*model.Site, error) {
	if err := tx.LockAccount(ctx, accountID); err != nil || siteID == 0 {
		return nil, err
	}

	var site model.Site
	err := tx.NewSelect().Model(&site).Where("id = ?", siteID).Where("account_id = ?", accountID).
		Where("deleted_at = 0").Scan(ctx)
	return &site, db.OrNotFound(err)
}

// hasRoom fails if the account or the site has all channels that it can have.
func hasRoom(ctx context.Context, tx *db.Tx, channel *model.AlertChannel) error {
	of, most := tx.NewSelect().Table("alert_channels").Where("account_id = ?", channel.AccountID), model.MaxAlertChannels
	if channel.SiteID == 0 {
		of.Where("site_id IS NULL")
	} else {
		of.Where("site_id = ?", channel.SiteID).Where("user_id IS NULL")
		most = model.MaxSiteAlertChannels
	}

	n, err := of.Count(ctx)
	if err == nil && n >= int64(most) {
		err = &model.Error{Kind: model.Conflict, Code: "too_many_alert_channels",
			Message: fmt.Sprintf("An account has at most %d channels, and each site %d.",
				model.MaxAlertChannels, model.MaxSiteAlertChannels)}
	}
	return err
}

// seal encrypts the secrets that are set.
func (s *Channels) seal(ctx context.Context, tx *db.Tx, channel *model.AlertChannel, secrets Secrets) (err error) {
	if secrets.Address != nil {
		channel.Address, err = s.keys.Seal(ctx, tx, keys.ChannelAddress(channel.ID), *secrets.Address)
		if err != nil {
			return err
		}
		if channel.Hint = ""; channel.Kind != model.ChannelEmail {
			channel.Hint = model.AlertAddressHint(*secrets.Address)
		}
	}
	if secrets.Signing != nil {
		channel.Secret, err = s.keys.Seal(ctx, tx, keys.ChannelSecret(channel.ID), *secrets.Signing)
	}
	return err
}

// save stores everything of a channel that members change.
func save(ctx context.Context, tx *db.Tx, channel *model.AlertChannel) error {
	_, err := tx.NewUpdate().Model(channel).WherePK().Column("name", "language", "address", "hint", "secret", "events",
		"operator_id", "weekly", "monthly", "spike_above", "drop_below", "weekly_due_at", "monthly_due_at", "spike_due_at",
		"drop_due_at", "quiet_from", "quiet_to", "quiet_zone", "stopped_at", "stop_reason").Exec(ctx)
	return err
}

// queueConfirm queues the mail that asks the recipient to confirm.
func queueConfirm(
	ctx context.Context, tx *db.Tx, channel *model.AlertChannel, site *model.Site, secrets Secrets, confirm *Confirmation,
	now model.Instant,
) error {
	data := outbox.AlertConfirmMail{LinkMail: outbox.LinkMail{URL: confirm.URL}, By: confirm.By}
	if site != nil {
		data.MailSite = model.MailSite{Site: site.Domain, SiteID: site.ID}
	}
	return outbox.QueueAlertConfirm(ctx, tx, channel, *secrets.Address, data, now)
}

// Update changes a channel of the account as change does. A new address resumes a channel that is
// stopped, and ends its pending messages: they were written for the old receiver. The address of an
// e-mail channel cannot be changed.
func (s *Channels) Update(
	ctx context.Context, accountID model.AccountID, id int64, secrets Secrets, now model.Instant,
	change func(*model.AlertChannel) error,
) (*model.AlertChannel, error) {
	return s.with(ctx, accountID, id, func(ctx context.Context, tx *db.Tx, channel *model.AlertChannel) error {
		site, err := lockOwner(ctx, tx, accountID, channel.SiteID)
		if err != nil {
			return err
		}

		before, was := s.values(channel), *channel
		if err := change(channel); err != nil {
			return err
		}
		if secrets.Address != nil {
			channel.StoppedAt, channel.StopReason = 0, ""
			if err := outbox.FailPendingMessages(ctx, tx, id); err != nil {
				return err
			}
		}
		if err := schedule(channel, &was, site, now); err != nil {
			return err
		}
		if err := s.seal(ctx, tx, channel, secrets); err != nil {
			return err
		}
		if err := save(ctx, tx, channel); err != nil {
			return err
		}
		return s.audit(ctx, tx, channel, before, s.values(channel))
	})
}

// Delete deletes a channel of the account with its messages, and returns it as it was.
func (s *Channels) Delete(ctx context.Context, accountID model.AccountID, id int64) (*model.AlertChannel, error) {
	return s.with(ctx, accountID, id, func(ctx context.Context, tx *db.Tx, channel *model.AlertChannel) error {
		values := s.values(channel)
		if err := remove(ctx, tx, channel); err != nil {
			return err
		}
		return s.audit(ctx, tx, channel, values, nil)
	})
}

// remove deletes a channel with its messages, and their mails that are not sent yet.
func remove(ctx context.Context, tx *db.Tx, channel *model.AlertChannel) error {
	if channel.ConfirmedAt == 0 {
		if err := outbox.DeleteUnsentConfirm(ctx, tx, channel); err != nil {
			return err
		}
	}
	if _, err := outbox.DeleteQueuedMails(ctx, tx, channel.ID); err != nil {
		return err
	}
	_, err := tx.NewDelete().Model(channel).WherePK().Exec(ctx)
	return err
}

// with runs change with a locked channel of the account, and returns the channel after it. It does
// not find own channels of members, which only SetOwn and Stop change.
func (s *Channels) with(
	ctx context.Context, accountID model.AccountID, id int64, change func(context.Context, *db.Tx, *model.AlertChannel) error,
) (*model.AlertChannel, error) {
	var channel model.AlertChannel
	err := s.db.InTx(ctx, func(ctx context.Context, tx *db.Tx) error {
		channel = model.AlertChannel{}
		if err := tx.LockAccount(ctx, accountID); err != nil {
			return err
		}

		q := tx.NewSelect().Model(&channel).Where("id = ?", id).Where("account_id = ?", accountID).
			Where("user_id IS NULL").Where(ofLiveSite)
		tx.Lock(q, "UPDATE")
		if err := q.Scan(ctx); err != nil {
			return db.OrNotFound(err)
		}
		return change(ctx, tx, &channel)
	})
	if err != nil {
		return nil, db.Wrap(err, "change alert channel %d", id)
	}
	return &channel, nil
}

// ofLiveSite is a condition on a channel: its site, if it has one, is not deleted.
const ofLiveSite = "(site_id IS NULL OR EXISTS (SELECT 1 FROM sites WHERE sites.id = site_id AND sites.deleted_at = 0))"

// Channel returns a channel of the account, or model.ErrNotFound. The caller must check that an own
// channel is the caller's.
func (s *Channels) Channel(ctx context.Context, accountID model.AccountID, id int64) (*model.AlertChannel, error) {
	var channel model.AlertChannel
	err := s.db.Read.NewSelect().Model(&channel).Where("id = ?", id).Where("account_id = ?", accountID).
		Where(ofLiveSite).Scan(ctx)
	if err != nil {
		return nil, db.OrNotFound(err)
	}
	return &channel, nil
}

// OfAccounts returns the channels of each account itself, oldest first. The caller must have
// checked the right to see them, as of OfSites.
func (s *Channels) OfAccounts(
	ctx context.Context, ids []model.AccountID,
) (map[model.AccountID][]*model.AlertChannel, error) {
	return list(ctx, s.db, ids, "account_id IN ? AND site_id IS NULL",
		func(c *model.AlertChannel) model.AccountID { return c.AccountID })
}

// OfSites returns the channels of each site, oldest first.
func (s *Channels) OfSites(
	ctx context.Context, ids []model.SiteID,
) (map[model.SiteID][]*model.AlertChannel, error) {
	return list(ctx, s.db, ids, "site_id IN ? AND user_id IS NULL",
		func(c *model.AlertChannel) model.SiteID { return c.SiteID })
}

// list returns the channels of sites or accounts, by a condition on their owners' ids.
func list[OwnerID ~int64](
	ctx context.Context, d *db.DB, ids []OwnerID, condition string, ownerOf func(*model.AlertChannel) OwnerID,
) (map[OwnerID][]*model.AlertChannel, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	var rows []*model.AlertChannel
	if err := d.Read.NewSelect().Model(&rows).Where(condition, bun.Tuple(ids)).Order("id").Scan(ctx); err != nil {
		return nil, fmt.Errorf("list alert channels: %w", err)
	}

	of := make(map[OwnerID][]*model.AlertChannel, len(ids))
	for _, row := range rows {
		of[ownerOf(row)] = append(of[ownerOf(row)], row)
	}
	return of, nil
}

// Email returns the address of an e-mail channel; "" for other kinds, and if the address was stored
// with a lost application key. An own channel must follow its user, see model.AlertChannel.Follow.
func (s *Channels) Email(channel *model.AlertChannel) string {
	if channel.UserID != 0 {
		return channel.Name
	}
	if channel.Kind != model.ChannelEmail {
		return ""
	}
	address, err := s.keys.Open(keys.ChannelAddress(channel.ID), channel.Address)
	if err != nil {
		return ""
	}
	return address
}

// errInvalidToken is the error of a link that was used, has expired, or was never sent.
var errInvalidToken = model.InvalidField("token", "invalid_token", "The link is not valid or has expired.")

// Confirm confirms the address of an e-mail channel with the secret of its mail, which works once.
func (s *Channels) Confirm(ctx context.Context, token string, now model.Instant) error {
	err := s.db.InTx(ctx, func(ctx context.Context, tx *db.Tx) error {
		var channel model.AlertChannel
		q := tx.NewSelect().Model(&channel).Where("confirm_hash = ?", model.HashToken(token)).Where(ofLiveSite)
		tx.Lock(q, "UPDATE")
		if err := q.Scan(ctx); err != nil {
			if db.OrNotFound(err) == model.ErrNotFound {
				return errInvalidToken
			}
			return err
		}
		if channel.ConfirmExpiresAt <= now {
			return errInvalidToken
		}

		before := s.values(&channel)
		channel.ConfirmHash, channel.ConfirmExpiresAt, channel.ConfirmedAt = nil, 0, now
		_, err := tx.NewUpdate().Model(&channel).WherePK().
			Column("confirm_hash", "confirm_expires_at", "confirmed_at").Exec(ctx)
		if err != nil {
			return err
		}
		return s.audit(ctx, tx, &channel, before, s.values(&channel))
	})
	return db.Wrap(err, "confirm an alert channel")
}

// Stop ends the mails of a channel for its recipient. The caller must have checked the secret of
// the mail, see nodeid.IDs.ParseChannelStop. It does nothing if the channel was deleted or is
// stopped already.
func (s *Channels) Stop(ctx context.Context, id int64, confirmedAt, now model.Instant) error {
	err := s.db.InTx(ctx, func(ctx context.Context, tx *db.Tx) error {
		var rows []model.AlertChannel
		q := tx.NewSelect().Model(&rows).Where("id = ?", id).Where("confirmed_at = ?", confirmedAt).
			Where("kind = ?", model.ChannelEmail).Where("stopped_at = 0")
		tx.Lock(q, "UPDATE")
		if err := q.Scan(ctx); err != nil || len(rows) == 0 {
			return err
		}

		channel := &rows[0]
		if channel.UserID != 0 {
			var user model.User
			if err := tx.NewSelect().Model(&user).Where("id = ?", channel.UserID).Scan(ctx); err != nil {
				return err
			}
			channel.Follow(&user)
		}

		before := s.values(channel)
		channel.StoppedAt, channel.StopReason = now, model.ChannelRecipient
		_, err := tx.NewUpdate().Model(channel).WherePK().Column("stopped_at", "stop_reason").Exec(ctx)
		if err != nil {
			return err
		}
		if err := outbox.FailPendingMessages(ctx, tx, id); err != nil {
			return err
		}
		return s.audit(ctx, tx, channel, before, s.values(channel))
	})
	return db.Wrap(err, "stop alert channel %d", id)
}

// values returns what the audit log shows of a channel. A URL is a secret.
func (s *Channels) values(channel *model.AlertChannel) audit.Values {
	target := channel.Hint
	if channel.Kind == model.ChannelEmail {
		target = s.Email(channel)
	}

	values := audit.Values{
		"name": channel.Name, "kind": channel.Kind, "target": target, "events": slices.Clone(channel.Events),
		"weekly": channel.Weekly, "monthly": channel.Monthly, "signed": channel.Secret != nil, "state": channel.State(),
	}
	for name, threshold := range map[string]*int{"spikeAbove": channel.SpikeAbove, "dropBelow": channel.DropBelow} {
		if threshold != nil {
			values[name] = *threshold
		}
	}
	if q := channel.Quiet; q.From != q.To {
		values["quietHours"] = fmt.Sprintf("%02d:%02d–%02d:%02d %s", q.From/60, q.From%60, q.To/60, q.To%60, q.Zone)
	}
	return values
}

// audit records a change of a channel. A change of secrets only shows as a change to the same
// values.
func (s *Channels) audit(ctx context.Context, tx *db.Tx, channel *model.AlertChannel, before, after audit.Values) error {
	return audit.Write(ctx, tx, audit.Change{
		AccountID: channel.AccountID,
		Object:    audit.Object{Kind: nodeid.AlertChannel, ID: channel.ID, Name: channel.Name},
		Before:    before, After: after,
	})
}
