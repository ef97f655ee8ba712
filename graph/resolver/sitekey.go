package resolver

import (
	"context"
	"errors"
	"html"

	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/sites"
	"github.com/tallygate/tallygate/graph/generated"
)

// Captcha sitekeys, and the captcha quota of an account.

func (r *queryResolver) Sitekey(ctx context.Context, id string) (*model.Sitekey, error) {
	viewer, err := r.require(ctx, model.MayRead)
	if err != nil {
		return nil, err
	}
	return r.sitekey(ctx, viewer.AccountID, id)
}

func (r *queryResolver) Sitekeys(ctx context.Context, first int, after *string) (*generated.SitekeyConnection, error) {
	viewer, err := r.require(ctx, model.MayRead)
	if err != nil {
		return nil, err
	}

	cursors := r.cursors(model.AfterSitekey)
	afterID, err := cursors.parsePage(first, after)
	if err != nil {
		return nil, err
	}

	keys, err := r.sites.Sitekeys(ctx, viewer.AccountID, afterID, int64(first)+1)
	if err != nil {
		return nil, err
	}

	keys, page := cutPage(cursors, keys, first, after, func(k *model.Sitekey) int64 { return k.ID })
	edges := make([]*generated.SitekeyEdge, len(keys))
	for i, key := range keys {
		edges[i] = &generated.SitekeyEdge{Cursor: cursors.encode(key.ID), Node: key}
	}

	requestOf(ctx).loaders().ExpectSitekeys(keys)
	return &generated.SitekeyConnection{Edges: edges, PageInfo: page, AccountID: viewer.AccountID}, nil
}

func (r *sitekeyConnectionResolver) TotalCount(ctx context.Context, obj *generated.SitekeyConnection) (int, error) {
	n, err := r.sites.SitekeyCount(ctx, obj.AccountID)
	return int(n), err
}

// sitekey returns a sitekey of the account by its global id, or nil.
func (r *Resolver) sitekey(ctx context.Context, accountID int64, id string) (*model.Sitekey, error) {
	number, ok := r.ids.Parse(model.NodeSitekey, id)
	if !ok {
		return nil, nil
	}
	return orNull(r.sites.SitekeyByID(ctx, accountID, number))
}

func (r *sitekeyResolver) ID(ctx context.Context, obj *model.Sitekey) (string, error) {
	return r.ids.Of(model.NodeSitekey, obj.ID), nil
}

// WidgetTag returns the tags for a form (docs/captcha.md).
func (r *sitekeyResolver) WidgetTag(ctx context.Context, obj *model.Sitekey) (string, error) {
	return `<div class="service-captcha" data-sitekey="` + obj.Sitekey + `"></div>` + "\n" +
		`<script defer src="` + html.EscapeString(r.captchaURL) + `/captcha.js"></script>`, nil
}

// CspLines returns what the policy of pages with the widget must allow (docs/captcha.md).
func (r *sitekeyResolver) CspLines(ctx context.Context, obj *model.Sitekey) ([]string, error) {
	return []string{"script-src " + r.captchaURL, "connect-src " + r.captchaURL, "worker-src blob:"}, nil
}

// OptionalCspLines returns what the policy of pages with the widget may allow in addition
// (docs/captcha.md).
func (r *sitekeyResolver) OptionalCspLines(ctx context.Context, obj *model.Sitekey) ([]string, error) {
	return []string{"script-src 'wasm-unsafe-eval'", "style-src " + r.captchaURL}, nil
}

// CreateSitekey checks the input and stores the sitekey. All mistakes are reported.
func (r *mutationResolver) CreateSitekey(
	ctx context.Context, input generated.CreateSitekeyInput,
) (*generated.SitekeySecretPayload, error) {
	viewer, err := r.require(ctx, model.MayConfigure)
	if err != nil {
		return nil, err
	}

	_, nameErr := model.ParseName("name", input.Name)
	domains, domainsErr := r.parseDomains(input.Domains)
	if err := errors.Join(nameErr, domainsErr); err != nil {
		return nil, err
	}

	key, secret, err := r.sites.CreateSitekey(ctx, viewer.AccountID, input.Name, domains, requestOf(ctx).now)
	return &generated.SitekeySecretPayload{Sitekey: key, Secret: &secret}, err
}

func (r *mutationResolver) UpdateSitekey(
	ctx context.Context, input generated.UpdateSitekeyInput,
) (*generated.SitekeyPayload, error) {
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

	return &generated.SitekeyPayload{Sitekey: key}, err
}

// RotateSitekeySecret stores the hash of a new secret and its last characters only.
func (r *mutationResolver) RotateSitekeySecret(
	ctx context.Context, input generated.RotateSitekeySecretInput,
) (*generated.SitekeySecretPayload, error) {
	var key *model.Sitekey
	var secret string
	err := r.changeSitekey(ctx, model.MayConfigure, input.SitekeyID, func(accountID, id int64) (err error) {
		key, secret, err = r.sites.RotateSitekeySecret(ctx, accountID, id)
		return err
	})

	return &generated.SitekeySecretPayload{Sitekey: key, Secret: &secret}, err
}

func (r *mutationResolver) DeleteSitekey(
	ctx context.Context, input generated.DeleteSitekeyInput,
) (*generated.SitekeyPayload, error) {
	var key *model.Sitekey
	err := r.changeSitekey(ctx, model.MayManage, input.SitekeyID, func(accountID, id int64) (err error) {
		if key, err = r.sites.SitekeyByID(ctx, accountID, id); err != nil {
			return err
		}
		return r.sites.DeleteSitekey(ctx, accountID, id)
	})

	return &generated.SitekeyPayload{Sitekey: key}, err
}

// changeSitekey checks the permission and runs a change of a sitekey of the caller's account.
func (r *mutationResolver) changeSitekey(
	ctx context.Context, p model.Permission, nodeID string, change func(accountID, id int64) error,
) error {
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

// parseDomains normalises the domains of a sitekey. It reports up to model.MaxListErrors mistakes.
func (r *mutationResolver) parseDomains(texts []string) ([]string, error) {
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

func (r *accountResolver) CaptchaUsage(ctx context.Context, obj *model.Account) (*generated.CaptchaUsage, error) {
	key := accountRead{field: "captchaUsage", accountID: obj.ID}
	return shared(ctx, key, func() (*generated.CaptchaUsage, error) { return r.captchaUsage(ctx, obj.ID) })
}

// SetCaptchaPlan sets the captcha plan of any account, for operators.
func (r *mutationResolver) SetCaptchaPlan(
	ctx context.Context, input generated.SetCaptchaPlanInput,
) (*generated.SetCaptchaPlanPayload, error) {
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
	return &generated.SetCaptchaPlanPayload{AccountID: &input.AccountID, CaptchaPlan: &input.Plan, CaptchaUsage: usage},
		orNotFound("accountId", err)
}

// captchaUsage returns what an account has used of its captcha quota in the month of the request.
func (r *Resolver) captchaUsage(ctx context.Context, accountID int64) (*generated.CaptchaUsage, error) {
	now := requestOf(ctx).now
	used, err := r.accounts.CaptchaUsage(ctx, accountID, now.Month())
	if err != nil {
		return nil, err
	}

	usage := &generated.CaptchaUsage{
		Period: now.Month().String(), Verifications: used.Used, Standing: used.Standing(now),
		ResetsAt: model.At(now.Month().Next().Start()),
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
