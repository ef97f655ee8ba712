package graph

import (
	"context"
	"errors"
	"html"

	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/sites"
	"github.com/tallygate/tallygate/graph/generated"
)

// This file is the captcha: sitekeys, and what an account uses of its plan.

// sitekey returns a sitekey of the account by its global id, or nil.
func (r *Resolver) sitekey(ctx context.Context, accountID int64, id string) (*model.Sitekey, error) {
	number, ok := r.ids.Parse(model.NodeSitekey, id)
	if !ok {
		return nil, nil
	}
	return orNull(r.sites.SitekeyByID(ctx, accountID, number))
}

// sitekeyConnection loads one page of an account's sitekeys.
func (r *Resolver) sitekeyConnection(ctx context.Context, accountID int64, first int, after *string) (*generated.SitekeyConnection, error) {
	list := r.listOf(model.AfterSitekey)
	afterID, err := list.parsePage(first, after)
	if err != nil {
		return nil, err
	}

	keys, err := r.sites.Sitekeys(ctx, accountID, afterID, int64(first)+1)
	if err != nil {
		return nil, err
	}

	keys, page := cutPage(list, keys, first, after, func(k *model.Sitekey) int64 { return k.ID })
	edges := make([]*generated.SitekeyEdge, len(keys))
	for i, key := range keys {
		edges[i] = &generated.SitekeyEdge{Cursor: list.cursor(key.ID), Node: key}
	}

	return &generated.SitekeyConnection{Edges: edges, PageInfo: page, AccountID: accountID}, nil
}

// createSitekey checks the input and stores the sitekey. Every wrong field is reported.
func (r *Resolver) createSitekey(ctx context.Context, input generated.CreateSitekeyInput) (*model.Sitekey, string, error) {
	viewer, err := r.require(ctx, model.MayConfigure)
	if err != nil {
		return nil, "", err
	}

	_, nameErr := model.ParseName("name", input.Name)
	domains, domainsErr := r.parseDomains(input.Domains)
	if err := errors.Join(nameErr, domainsErr); err != nil {
		return nil, "", err
	}

	return r.sites.CreateSitekey(ctx, viewer.AccountID, input.Name, domains, requestOf(ctx).now)
}

func (r *Resolver) updateSitekey(ctx context.Context, input generated.UpdateSitekeyInput) (*model.Sitekey, error) {
	var key *model.Sitekey
	err := r.changeSitekey(ctx, model.MayConfigure, input.SitekeyID, func(accountID, id int64) (err error) {
		update := sites.SitekeyUpdate{Name: input.Name}
		var nameErr, domainsErr error

		if input.Name != nil {
			_, nameErr = model.ParseName("name", *input.Name)
		}

		if input.Domains != nil {
			var domains []string
			domains, domainsErr = r.parseDomains(input.Domains)
			update.Domains = &domains
		}

		if err := errors.Join(nameErr, domainsErr); err != nil {
			return err
		}

		key, err = r.sites.UpdateSitekey(ctx, accountID, id, update)
		return err
	})

	return key, err
}

// rotateSitekeySecret makes a new secret. Nothing but its hash and its end stay here.
func (r *Resolver) rotateSitekeySecret(ctx context.Context, nodeID string) (key *model.Sitekey, secret string, err error) {
	err = r.changeSitekey(ctx, model.MayConfigure, nodeID, func(accountID, id int64) (err error) {
		if secret, err = r.sites.RotateSitekeySecret(ctx, accountID, id); err != nil {
			return err
		}
		key, err = r.sites.SitekeyByID(ctx, accountID, id)
		return err
	})

	return key, secret, err
}

func (r *Resolver) deleteSitekey(ctx context.Context, nodeID string) (key *model.Sitekey, err error) {
	err = r.changeSitekey(ctx, model.MayManage, nodeID, func(accountID, id int64) (err error) {
		if key, err = r.sites.SitekeyByID(ctx, accountID, id); err != nil {
			return err
		}
		return r.sites.DeleteSitekey(ctx, accountID, id)
	})
	if err != nil {
		return nil, err
	}

	return key, nil
}

// changeSitekey asks for permission, reads the id and runs a change of a sitekey of the caller's
// account.
func (r *Resolver) changeSitekey(ctx context.Context, p model.Permission, nodeID string, change func(accountID, id int64) error) error {
	viewer, err := r.require(ctx, p)
	if err != nil {
		return err
	}

	id, ok := r.ids.Parse(model.NodeSitekey, nodeID)
	if !ok {
		return notFound("sitekeyId")
	}

	return orNotFound("sitekeyId", change(viewer.AccountID, id))
}

// secretPayload is the answer of what makes a secret.
func secretPayload(key *model.Sitekey, secret string, err error) (*generated.SitekeySecretPayload, error) {
	wrong, rest := userErrors(err)
	if err != nil {
		return &generated.SitekeySecretPayload{UserErrors: wrong}, rest
	}
	return &generated.SitekeySecretPayload{Sitekey: key, Secret: &secret, UserErrors: wrong}, nil
}

// parseDomains normalises the domains of a sitekey.
func (r *Resolver) parseDomains(texts []string) ([]string, error) {
	domains := make([]string, len(texts))
	var wrong []error
	for i, text := range texts {
		domain, err := model.ParseSitekeyDomain(text, r.allowLocal)
		if shown, ok := errors.AsType[*model.Error](err); ok && len(wrong) < model.MaxListErrors {
			wrong = append(wrong, model.InvalidItem("domains", i, shown.Code, shown.Message))
		}

		domains[i] = domain
	}

	return domains, errors.Join(wrong...)
}

// widgetTag is what an owner pastes into a form (docs/captcha.md).
func (r *Resolver) widgetTag(sitekey string) string {
	return `<div class="service-captcha" data-sitekey="` + sitekey + `"></div>` + "\n" +
		`<script defer src="` + html.EscapeString(r.captchaURL) + `/captcha.js"></script>`
}

// captchaCSPLines are what the policy of pages with the widget must allow (docs/captcha.md).
func (r *Resolver) captchaCSPLines() []string {
	return []string{"script-src " + r.captchaURL, "connect-src " + r.captchaURL, "worker-src blob:"}
}

// captchaCSPOptions are what the policy of pages with the widget may allow in addition
// (docs/captcha.md).
func (r *Resolver) captchaCSPOptions() []string {
	return []string{"script-src 'wasm-unsafe-eval'", "style-src " + r.captchaURL}
}

// captchaUsage states what an account has used of its captcha quota this month.
func (r *Resolver) captchaUsage(ctx context.Context, accountID int64) (*generated.CaptchaUsage, error) {
	now := requestOf(ctx).now
	used, err := r.accounts.CaptchaUsage(ctx, accountID, now.Month())
	if err != nil {
		return nil, err
	}

	usage := &generated.CaptchaUsage{
		Period: now.Month().String(), Verifications: used.Used, Standing: used.Standing(now), ResetsAt: model.At(now.Month().Next().Start()),
	}

	if used.Quota != model.Unlimited {
		reserve, percent := used.Reserve(), percent(used.Used, used.Quota)
		usage.Quota, usage.Reserve, usage.Percent = &used.Quota, &reserve, &percent
	}

	if ends, began := used.ReserveEnds(); began {
		usage.ReserveEndsAt = &ends
	}

	return usage, nil
}

// setCaptchaPlan is the operator's: the account may be any.
func (r *Resolver) setCaptchaPlan(ctx context.Context, input generated.SetCaptchaPlanInput) (*generated.CaptchaUsage, error) {
	if _, err := r.require(ctx, model.MayOperate); err != nil {
		return nil, err
	}

	accountID, ok := r.ids.Parse(model.NodeAccount, input.AccountID)
	if !ok {
		return nil, notFound("accountId")
	}
	if err := r.accounts.SetCaptchaPlan(ctx, accountID, input.Plan); err != nil {
		return nil, orNotFound("accountId", err)
	}

	usage, err := r.captchaUsage(ctx, accountID)
	return usage, orNotFound("accountId", err)
}
