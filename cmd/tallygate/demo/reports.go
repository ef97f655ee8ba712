package demo

import (
	"context"
	"time"

	"github.com/tallygate/tallygate/cmd/tallygate/demo/history"
	"github.com/tallygate/tallygate/db/accounts"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/sites"
	"github.com/tallygate/tallygate/graph/client"
)

// prepareReports sets up what the shop measures on the first run, and adds its visits since the
// last one.
func (d *Demo) prepareReports(ctx context.Context, sitekey *model.Sitekey) error {
	now := time.Now()
	site, err := sites.New(d.options.DB).Lookup.SiteRulesByKey(ctx, d.site.SiteKey)
	if err != nil {
		return err
	}
	owner, err := accounts.New(d.options.DB).UserByEmail(ctx, d.owner.Email)
	if err != nil {
		return err
	}

	if err := d.saveReports(ctx, now); err != nil {
		return err
	}
	return history.Fill(ctx, d.options.DB, history.Shop{
		AccountID: owner.AccountID, SiteID: site.ID, SitekeyID: sitekey.ID,
	}, now)
}

// saveReports saves the site's settings, key event, annotations, funnel and segment, unless it has
// a funnel already.
func (d *Demo) saveReports(ctx context.Context, now time.Time) error {
	found, err := client.Funnels(ctx, d.api, d.site.Id)
	if err != nil || found.Site != nil && len(found.Site.Funnels) > 0 {
		return err
	}

	today := model.At(now).Day()
	saved, err := client.SaveReports(ctx, d.api, d.site.Id, history.EventColour, history.EventNewsletter,
		history.NewsletterDay(today).String(), history.OfferDay(today).String())

	return client.Refused(err, saved.Plan, saved.Settings, saved.ColourEvent, saved.NewsletterEvent, saved.KeyEvent,
		saved.SentNote, saved.OfferNote, saved.Segment, saved.Funnel)
}
