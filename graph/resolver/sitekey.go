package resolver

import (
	"context"
	"errors"
	"html"

	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/nodeid"
	"github.com/tallygate/tallygate/db/sites"
	"github.com/tallygate/tallygate/graph/generated"
)

// Captcha sitekeys, and the captcha quota of an account.

func (r *queryResolver) Sitekey(ctx context.Context, id string) (*model.Sitekey, error) {
	viewer := memberOf(ctx)
	return r.sitekey(ctx, viewer, id)
}

// sitekeyCursors are the kinds of the cursors of a list of sitekeys in each order.
var sitekeyCursors = map[sites.Order]nodeid.Kind{
	sites.Oldest: nodeid.AfterSitekey, sites.Newest: nodeid.AfterNewestSitekey, sites.ByName: nodeid.AfterSitekeyName,
}

func (r *queryResolver) Sitekeys(
	ctx context.Context, _ *string, first *int, after *string, last *int, before *string,
	order sites.Order, search *string,
) (*generated.SitekeyConnection, error) {
	viewer := memberOf(ctx)
	if viewer.IsRestricted() {
		return nil, model.ErrForbidden
	}

	p := paging{first, after, last, before}
	cursors := r.cursors(sitekeyCursors[order])
	list, err := cursors.textList(p, order, search)
	if err != nil {
		return nil, err
	}

	keys, err := r.sitekeys.ListSitekeys(ctx, viewer.AccountID, list)
	if err != nil {
		return nil, err
	}

	keys, found, info := cut(p, keys, func(key *model.Sitekey) string {
		return cursors.encodeText(sites.SitekeyPosition(order, key))
	})

	edges := make([]*generated.SitekeyEdge, len(keys))
	for i, key := range keys {
		edges[i] = &generated.SitekeyEdge{Cursor: found[i], Node: key}
	}

	requestOf(ctx).loaders().ExpectSitekeys(keys)
	return &generated.SitekeyConnection{
		Edges: edges, Nodes: orEmpty(keys), PageInfo: info, AccountID: viewer.AccountID, Search: list.Search,
	}, nil
}

func (r *sitekeyConnectionResolver) TotalCount(ctx context.Context, obj *generated.SitekeyConnection) (int, error) {
	n, err := r.sitekeys.CountSitekeys(ctx, obj.AccountID, obj.Search)
	return int(n), err
}

// sitekey returns a sitekey of one of the viewer's accounts by its global id, or nil.
func (r *Resolver) sitekey(ctx context.Context, viewer *model.User, id string) (*model.Sitekey, error) {
	return ownObject(ctx, r, nodeid.Sitekey, viewer, id, r.sitekeys.SitekeyByID)
}

// WidgetTag returns the tags for a form (docs/owner/captcha.md).
func (r *sitekeyResolver) WidgetTag(ctx context.Context, obj *model.Sitekey) (string, error) {
	return `<div class="service-captcha" data-sitekey="` + obj.Sitekey + `"></div>` + "\n" +
		`<script defer src="` + html.EscapeString(r.captchaURL) + `/captcha.js"></script>`, nil
}

// CspLines returns what the policy of pages with the widget must allow (docs/owner/captcha.md).
func (r *sitekeyResolver) CspLines(ctx context.Context, obj *model.Sitekey) ([]string, error) {
	return []string{"script-src " + r.captchaURL, "connect-src " + r.captchaURL, "worker-src blob:"}, nil
}

// OptionalCspLines returns what the policy of pages with the widget may allow in addition
// (docs/owner/captcha.md).
func (r *sitekeyResolver) OptionalCspLines(ctx context.Context, obj *model.Sitekey) ([]string, error) {
	return []string{"script-src 'wasm-unsafe-eval'", "style-src " + r.captchaURL}, nil
}

// CreateSitekey checks the input and stores the sitekey. All mistakes are reported.
func (r *mutationResolver) CreateSitekey(
	ctx context.Context, input generated.CreateSitekeyInput,
) (*generated.SitekeySecretPayload, error) {
	_, nameErr := model.ParseName("name", input.Name)
	domains, domainsErr := r.parseDomains(input.Domains)
	if err := errors.Join(nameErr, domainsErr); err != nil {
		return nil, err
	}

	member := memberOf(ctx)
	key, secret, err := r.sitekeys.CreateSitekey(ctx, member.AccountID, input.Name, domains, requestOf(ctx).now)
	return &generated.SitekeySecretPayload{Sitekey: key, Secret: &secret}, err
}

func (r *mutationResolver) UpdateSitekey(
	ctx context.Context, input generated.UpdateSitekeyInput,
) (*generated.SitekeyPayload, error) {
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
		return nil, err
	}

	member, id := granted[model.SitekeyID](ctx)
	key, err := r.sitekeys.UpdateSitekey(ctx, member.AccountID, id, update)
	return &generated.SitekeyPayload{Sitekey: key}, err
}

// RotateSitekeySecret stores the hash of a new secret and its last characters only.
func (r *mutationResolver) RotateSitekeySecret(
	ctx context.Context, input generated.RotateSitekeySecretInput,
) (*generated.SitekeySecretPayload, error) {
	oldUntil, err := model.KeepOldUntil(input.KeepOldFor, requestOf(ctx).now)
	if err != nil {
		return nil, err
	}

	member, id := granted[model.SitekeyID](ctx)
	key, secret, err := r.sitekeys.RotateSitekeySecret(ctx, member.AccountID, id, oldUntil)
	return &generated.SitekeySecretPayload{Sitekey: key, Secret: &secret}, err
}

func (r *mutationResolver) RevokeOldSitekeySecret(
	ctx context.Context, _ generated.RevokeOldSitekeySecretInput,
) (*generated.SitekeyPayload, error) {
	member, id := granted[model.SitekeyID](ctx)
	key, err := r.sitekeys.RevokeOldSitekeySecret(ctx, member.AccountID, id)
	return &generated.SitekeyPayload{Sitekey: key}, err
}

// OldSecretHint returns the hint of the replaced secret while it is valid.
func (r *sitekeyResolver) OldSecretHint(ctx context.Context, obj *model.Sitekey) (*string, error) {
	return ifValid(ctx, obj.OldSecretUntil, obj.OldSecretHint), nil
}

func (r *sitekeyResolver) OldSecretValidUntil(ctx context.Context, obj *model.Sitekey) (*model.Instant, error) {
	return ifValid(ctx, obj.OldSecretUntil, obj.OldSecretUntil), nil
}

// ifValid returns a value that is shown until a time; nil after that. Housekeeping deletes it
// later.
func ifValid[T any](ctx context.Context, until model.Instant, value T) *T {
	if until <= requestOf(ctx).now {
		return nil
	}
	return &value
}

func (r *mutationResolver) DeleteSitekey(
	ctx context.Context, input generated.DeleteSitekeyInput,
) (*generated.SitekeyPayload, error) {
	owner, id := granted[model.SitekeyID](ctx)
	key, err := r.sitekeys.SitekeyByID(ctx, owner.AccountID, id)
	if err != nil {
		return nil, err
	}
	if err := model.Confirm(input.Confirm, key.Name); err != nil {
		return nil, err
	}

	return &generated.SitekeyPayload{Sitekey: key}, r.sitekeys.DeleteSitekey(ctx, owner.AccountID, id)
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
	_, accountID := granted[model.AccountID](ctx)
	if err := r.accounts.SetCaptchaPlan(ctx, accountID, input.Plan); err != nil {
		return nil, err
	}

	usage, err := r.captchaUsage(ctx, accountID)
	return &generated.SetCaptchaPlanPayload{
		AccountID: &input.AccountID, CaptchaPlan: &input.Plan, CaptchaUsage: usage,
	}, err
}

// captchaUsage returns what an account has used of its captcha quota in the month of the request.
func (r *Resolver) captchaUsage(ctx context.Context, accountID model.AccountID) (*generated.CaptchaUsage, error) {
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
