package sites

import (
	"context"
	"errors"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/audit"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/outbox"
)

// SetConversionWebhook sets the address that is called for key events, and the secret that signs
// its calls. An empty address removes the webhook. A nil secret keeps the current one; an empty one
// removes it. A replaced one signs in addition for model.WebhookOverlap. The caller must have
// checked the address with model.CheckWebhookURL; only its form is checked here. The account's
// owners are mailed when the address changes.
func (s *Sites) SetConversionWebhook(
	ctx context.Context, accountID model.AccountID, siteID model.SiteID, address string, secret *string, by model.ChangedBy,
) error {
	if err := errors.Join(checkURL(address), model.CheckWebhookSecret(secret)); err != nil {
		return err
	}
	return s.setConversionWebhook(ctx, accountID, siteID, &address, secret, by)
}

// SetWebhookSecret is SetConversionWebhook for the secret alone: the address stays.
func (s *Sites) SetWebhookSecret(
	ctx context.Context, accountID model.AccountID, siteID model.SiteID, secret *string, by model.ChangedBy,
) error {
	if err := model.CheckWebhookSecret(secret); err != nil {
		return err
	}
	return s.setConversionWebhook(ctx, accountID, siteID, nil, secret, by)
}

// setConversionWebhook sets the given ones of address and secret.
func (s *Sites) setConversionWebhook(
	ctx context.Context, accountID model.AccountID, siteID model.SiteID, address, secret *string, by model.ChangedBy,
) error {
	return s.changeSite(ctx, accountID, siteID, func(tx *db.Tx, site *model.Site) error {
		was, before := site.ConversionWebhookURL, webhookValues(site)
		setIfGiven(&site.ConversionWebhookURL, address)

		if secret != nil {
			if err := s.replaceWebhookSecret(ctx, tx, site, *secret, by.At); err != nil {
				return err
			}
		}

		after := webhookValues(site)
		if secret != nil {
			after["secretChanged"] = true
		}

		err := updateColumns(ctx, tx, site, "conversion_webhook_url", "conversion_webhook_secret", "old_webhook_secret",
			"old_webhook_secret_until")
		if err != nil {
			return err
		}
		if err := auditSite(ctx, tx, site, before, after); err != nil {
			return err
		}
		if err := resumeWaiting(ctx, tx, site, model.DeliveryConversion, by.At); err != nil {
			return err
		}

		return s.mailWebhookChange(ctx, tx, site, model.DeliveryConversion, was, site.ConversionWebhookURL, by)
	})
}

// webhookValues returns the conversion webhook for the audit log: the path and query of its URL can
// contain secrets of the receiver.
func webhookValues(site *model.Site) audit.Values {
	return audit.Values{
		"host": orNil(model.WebhookHost(site.ConversionWebhookURL)), "signed": len(site.ConversionWebhookSecret) > 0,
	}
}

// SetDailyExportWebhook sets the address that each day's events are sent to after the day has
// ended, starting with the day of by.At. An empty address ends the exports. Calls are signed with
// the conversion webhook's secret. The address is checked and the owners are mailed as with
// SetConversionWebhook.
func (s *Sites) SetDailyExportWebhook(
	ctx context.Context, accountID model.AccountID, siteID model.SiteID, address string, by model.ChangedBy,
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
		if err := resumeWaiting(ctx, tx, site, model.DeliveryDailyExport, by.At); err != nil {
			return err
		}

		host := func(address string) audit.Values { return audit.Values{"host": orNil(model.WebhookHost(address))} }
		if err := auditSite(ctx, tx, site, host(was), host(address)); err != nil {
			return err
		}

		return s.mailWebhookChange(ctx, tx, site, model.DeliveryDailyExport, was, address, by)
	})
}

// resumeWaiting makes deliveries due that wait for the address of a webhook, if the site has it
// now.
func resumeWaiting(ctx context.Context, tx *db.Tx, site *model.Site, webhook string, now model.Instant) error {
	if site.WebhookURL(webhook) == "" {
		return nil
	}
	return outbox.ResumeWaiting(ctx, tx, model.Lane{SiteID: site.ID, Kind: webhook}, now)
}

// mailWebhookChange writes the mails about a changed address to the account's owners, in the
// transaction of the change. Only the first outbox.MaxWebhookMails changes of a site per day are
// mailed. The last of these mails says so.
func (s *Sites) mailWebhookChange(
	ctx context.Context, tx *db.Tx, site *model.Site, kind, was, is string, by model.ChangedBy,
) error {
	if was == is || by.Name == "" && !by.Operator {
		return nil
	}

	var changes int
	err := tx.NewRaw(`INSERT INTO webhook_notices (site_id, day, changes) VALUES (?, ?, 1)
ON CONFLICT (site_id, day) DO UPDATE SET changes = webhook_notices.changes + 1 RETURNING changes`,
		site.ID, by.At.Day()).Scan(ctx, &changes)
	if err != nil || changes > outbox.MaxWebhookMails {
		return err
	}

	return outbox.MailUsers(ctx, tx, site.AccountID, model.MailWebhookChanged, outbox.WebhookChangedMail{
		MailSite: model.MailSite{Site: site.Domain, SiteID: site.ID},
		Kind:     kind, By: by.Name, Token: by.Token, Operator: by.Operator, At: by.At, Old: model.WebhookHost(was), New: model.WebhookHost(is),
		Last: changes == outbox.MaxWebhookMails,
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
