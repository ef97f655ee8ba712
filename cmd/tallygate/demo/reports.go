package demo

import (
	"context"
	"fmt"
	"time"

	"github.com/tallygate/tallygate/cmd/tallygate/demo/history"
	"github.com/tallygate/tallygate/db/accounts"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/sites"
)

// prepareReports sets up what the shop measures on the first run, and adds its visits since the last
// one.
func (d *Demo) prepareReports(ctx context.Context, sitekey *model.Sitekey) error {
	now := time.Now()
	site, err := sites.New(d.options.DB).SiteRulesByKey(ctx, d.siteKey)
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

// saveReports saves the site's settings, key event, annotations, funnel and segment, unless it has a
// funnel already.
func (d *Demo) saveReports(ctx context.Context, now time.Time) error {
	var found struct {
		Site struct{ Funnels []struct{ ID string } }
	}
	site := map[string]any{"id": d.siteID}
	if err := d.query(ctx, `query ($id: ID!) { site(id: $id) { funnels { id } } }`, site, &found); err != nil {
		return err
	}
	if len(found.Site.Funnels) > 0 {
		return nil
	}

	type payload struct {
		UserErrors []struct{ Code, Message string }
	}
	var payloads map[string]payload
	today := model.At(now).Day()
	err := d.query(ctx, `mutation ($id: ID!, $newsletter: Date!, $offer: Date!) {
		plan: setSitePlan(input: {siteId: $id, plan: PRO_100K}) { userErrors { code message } }
		settings: updateSite(input: {siteId: $id, measureEcommerce: true}) { userErrors { code message } }
		colour: registerEvent(input: {siteId: $id, name: "`+history.EventColour+`"}) { userErrors { code message } }
		signUp: registerEvent(input: {siteId: $id, name: "`+history.EventNewsletter+`"}) { userErrors { code message } }
		key: markKeyEvent(input: {siteId: $id, name: "`+history.EventNewsletter+`"}) { userErrors { code message } }
		sent: createAnnotation(input: {siteId: $id, day: $newsletter, text: "Newsletter: autumn teas"}) { userErrors { code message } }
		week: createAnnotation(input: {siteId: $id, day: $offer, text: "Kettle week began"}) { userErrors { code message } }
		segment: createSegment(input: {siteId: $id, name: "Paid traffic", filters: [
			{dimension: CHANNEL, values: ["paid search", "paid social"]}
		]}) { userErrors { code message } }
		funnel: createFunnel(input: {siteId: $id, name: "Purchase", steps: [
			{event: "view_item", label: "Looked at a product"}
			{event: "add_to_cart", label: "Put it into the cart"}
			{event: "begin_checkout", label: "Began the checkout"}
			{event: "purchase", label: "Bought"}
		]}) { userErrors { code message } }
	}`, map[string]any{
		"id": d.siteID, "newsletter": history.NewsletterDay(today).String(), "offer": history.OfferDay(today).String(),
	}, &payloads)
	if err != nil {
		return err
	}

	for name, p := range payloads {
		if len(p.UserErrors) > 0 {
			return fmt.Errorf("%s: %v", name, p.UserErrors)
		}
	}
	return nil
}
