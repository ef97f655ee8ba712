package sites

import (
	"context"
	"errors"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/outbox"
)

// SetConversionWebhook sets the address that is called for key events, and the secret that signs
// its calls. An empty address removes the webhook. A nil secret keeps the current one; an empty one
// removes it. The caller must have checked the address with model.CheckWebhookURL; only its form is
// checked here. The account's owners are mailed when the address changes.
func (s *Store) SetConversionWebhook(
	ctx context.Context, accountID, siteID int64, address string, secret *string, by model.ChangedBy,
) error {
	if err := errors.Join(checkURL(address), model.CheckWebhookSecret(secret)); err != nil {
		return err
	}
	return s.setConversionWebhook(ctx, accountID, siteID, &address, secret, by)
}

// SetWebhookSecret is SetConversionWebhook for the secret alone: the address stays.
func (s *Store) SetWebhookSecret(ctx context.Context, accountID, siteID int64, secret *string) error {
	if err := model.CheckWebhookSecret(secret); err != nil {
		return err
	}
	return s.setConversionWebhook(ctx, accountID, siteID, nil, secret, model.ChangedBy{})
}

// setConversionWebhook sets the given ones of address and secret.
func (s *Store) setConversionWebhook(
	ctx context.Context, accountID, siteID int64, address, secret *string, by model.ChangedBy,
) error {
	return s.changeSite(ctx, accountID, siteID, func(tx *db.Tx, site *model.Site) error {
		was := site.ConversionWebhookURL
		setIfGiven(&site.ConversionWebhookURL, address)

		if secret != nil {
			sealed, err := s.keys.SealSecret(ctx, tx, siteID, *secret)
			if err != nil {
				return err
			}

			site.ConversionWebhookSecret = sealed
		}

		if err := updateColumns(ctx, tx, site, "conversion_webhook_url", "conversion_webhook_secret"); err != nil {
			return err
		}

		return s.mailWebhookChange(ctx, tx, site, model.DeliveryConversion, was, site.ConversionWebhookURL, by)
	})
}

// SetDailyExportWebhook sets the address that each day's events are sent to after the day has
// ended, starting with the day of by.At. An empty address ends the exports. Calls are signed with
// the conversion webhook's secret. The address is checked and the owners are mailed as with
// SetConversionWebhook.
func (s *Store) SetDailyExportWebhook(
	ctx context.Context, accountID, siteID int64, address string, by model.ChangedBy,
) error {
	if err := checkURL(address); err != nil {
		return err
	}

	return s.changeSite(ctx, accountID, siteID, func(tx *db.Tx, site *model.Site) error {
		was := site.DailyExportURL
		if was == "" {
			site.DailyExportDay = by.At.Day()
		}

		site.DailyExportURL = address
		if err := updateColumns(ctx, tx, site, "daily_export_url", "daily_export_day"); err != nil {
			return err
		}

		return s.mailWebhookChange(ctx, tx, site, model.DeliveryDailyExport, was, address, by)
	})
}

// mailWebhookChange writes the mails about a changed address to the account's owners, in the
// transaction of the change. Only the first model.MaxWebhookMails changes of a site per day are
// mailed. The last of these mails says so.
func (s *Store) mailWebhookChange(
	ctx context.Context, tx *db.Tx, site *model.Site, kind, was, is string, by model.ChangedBy,
) error {
	if was == is || by.Name == "" {
		return nil
	}

	var changes int
	err := tx.NewRaw(`INSERT INTO webhook_notices (site_id, day, changes) VALUES (?, ?, 1)
ON CONFLICT (site_id, day) DO UPDATE SET changes = webhook_notices.changes + 1 RETURNING changes`,
		site.ID, by.At.Day()).Scan(ctx, &changes)
	if err != nil || changes > model.MaxWebhookMails {
		return err
	}

	return outbox.MailUsers(ctx, tx, site.AccountID, model.MailWebhookChanged, model.WebhookChangedMail{
		Site: site.Domain, Kind: kind, By: by.Name, At: by.At, Old: model.WebhookHost(was), New: model.WebhookHost(is),
		Last: changes == model.MaxWebhookMails,
	}, by.At, model.RoleOwner)
}

// checkURL checks the form of an address; an empty one means no webhook.
func checkURL(address string) error {
	if address != "" && !model.IsWebhookURL(address) {
		return model.InvalidField("url", "invalid_url",
			"Enter an address such as https://example.com/hook, without user name or password.")
	}
	return nil
}
