package resolver

import (
	"context"
	"net/netip"

	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/sites"
	"github.com/tallygate/tallygate/graph/generated"
)

// UpdateCaptchaPolicy changes what is given. All mistakes are reported.
func (r *mutationResolver) UpdateCaptchaPolicy(
	ctx context.Context, input generated.UpdateCaptchaPolicyInput,
) (*generated.SitekeyPayload, error) {
	update := sites.PolicyUpdate{
		BaseMS: model.WorkMS(input.BaseSeconds), MaxMS: model.WorkMS(input.MaxSeconds), Free: input.FreeChallenges,
		Automation: input.Automation, Strict: input.Strict, AttackMode: input.AttackMode,
	}

	if input.ExemptNetworks != nil {
		networks := make([]netip.Prefix, len(input.ExemptNetworks))
		for i, text := range input.ExemptNetworks {
			// UpdatePolicy reports an invalid network with the other mistakes.
			networks[i] = model.ParseNetwork(text)
		}
		update.Exempt = &networks
	}

	member, id := granted[model.SitekeyID](ctx)
	key, err := r.sitekeys.UpdatePolicy(ctx, member.AccountID, id, update)
	return &generated.SitekeyPayload{Sitekey: key}, err
}

// Policy returns the policy with the installation's settings where the sitekey has none.
func (r *sitekeyResolver) Policy(ctx context.Context, obj *model.Sitekey) (*generated.CaptchaPolicy, error) {
	p := &obj.Policy
	base := p.Base(r.captchaBase)
	most := p.Most(base)

	networks := make([]string, len(p.Exempt))
	for i, network := range p.Exempt {
		networks[i] = network.String()
	}

	return &generated.CaptchaPolicy{
		BaseSeconds: model.PhoneSeconds(base), BaseHashes: int64(base), IsBaseDefault: p.BaseMS == 0,
		MaxSeconds: model.PhoneSeconds(most), MaxHashes: int64(most), IsMaxDefault: p.MaxMS == 0,
		FreeChallenges: p.FreeChallenges(), Automation: p.AutomationOrDefault(), Strict: p.Strict,
		AttackMode: p.AttackModeOrDefault(), ExemptNetworks: networks,
	}, nil
}

// Attack returns the last attack. One on a sitekey with attack mode OFF is never active.
func (r *sitekeyResolver) Attack(ctx context.Context, obj *model.Sitekey) (*generated.CaptchaAttack, error) {
	a := &obj.Attack
	if a.Level == 0 {
		return nil, nil
	}

	level := obj.Policy.AttackLevel(a.LevelAt(requestOf(ctx).now))
	return &generated.CaptchaAttack{
		IsActive: level > 0, Factor: 1 << level, HighestFactor: 1 << obj.Policy.AttackLevel(a.Level), Since: a.Since, SeenAt: a.Seen,
		Networks: a.Networks, Challenges: a.Challenges, Refused: a.Refused, UsualNetworks: a.Usual,
	}, nil
}
