package resolver

import (
	"context"
	"slices"

	"github.com/tallygate/tallygate/db/health"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/graph/generated"
)

// Public settings of the installation, and its state for operators.

func (r *queryResolver) Installation(ctx context.Context) (*generated.Installation, error) {
	open, first, err := r.auth.SignUpsOpen(ctx)
	return &generated.Installation{
		SignUps: open, FirstAccount: first, SendsMail: r.auth.SendsMail(),
		Provider:  notZero(r.auth.Providers.Name()),
		Countries: r.configuration.Countries, Shields: orEmpty(r.configuration.Shields),
	}, err
}

// InstallationHealth is Installation.health for callers that need an error without the right.
func (r *queryResolver) InstallationHealth(ctx context.Context) (*health.State, error) {
	return r.health(ctx)
}

func (r *installationResolver) Health(
	ctx context.Context, _ *generated.Installation,
) (*health.State, error) {
	if may, err := r.operates(ctx); !may || err != nil {
		return nil, err
	}
	return r.health(ctx)
}

// Configuration returns the settings of this process.
func (r *installationResolver) Configuration(
	ctx context.Context, _ *generated.Installation,
) (*generated.InstallationConfiguration, error) {
	if may, err := r.operates(ctx); !may || err != nil {
		return nil, err
	}

	c := r.configuration
	shown := &generated.InstallationConfiguration{
		Version: c.Version, Database: r.db.Dialect(), Roles: orEmpty(c.Roles), Signups: c.Signups.String(),
		BaseURL: c.BaseURL, AnalyticsURL: r.analyticsURL, CaptchaURL: r.captchaURL,
		MailServer: c.MailServer, Redis: c.Redis, DefaultSitePlan: r.plan,
	}
	if c.RetentionMonths > 0 {
		shown.RetentionMonths = &c.RetentionMonths
	}

	return shown, nil
}

func (r *installationResolver) Mail(
	ctx context.Context, _ *generated.Installation,
) (*generated.InstallationMail, error) {
	if may, err := r.operates(ctx); !may || err != nil {
		return nil, err
	}

	state, err := r.outbox.MailState(ctx)
	if err != nil {
		return nil, err
	}

	now, _, err := r.db.CompareClock(ctx, r.now)
	if err != nil {
		return nil, err
	}

	due, err := r.outbox.DueMailCount(ctx, now)
	return &generated.InstallationMail{
		LastSentAt: &state.LastSent, LastFailedAt: &state.LastFailed, Retrying: state.Retrying, Due: due,
	}, err
}

// operates reports whether the caller is an operator, and charges the request.
func (r *Resolver) operates(ctx context.Context) (bool, error) {
	_, err := r.require(ctx, model.MayOperate)
	switch model.KindOf(err) {
	case model.Forbidden, model.Unauthenticated:
		return false, nil
	}
	return err == nil, err
}

// health reads the state that all processes share.
func (r *Resolver) health(ctx context.Context) (*health.State, error) {
	return health.Read(ctx, r.db, r.configuration.Version, r.now)
}

// Problems returns the names of the checks that found something in the database or in this process.
// Both can find the same condition.
func (r *installationHealthResolver) Problems(ctx context.Context, state *health.State) ([]string, error) {
	found, err := state.Findings(ctx, true)
	if err != nil {
		return nil, err
	}

	names := []string{}
	for _, f := range append(found, r.findings()...) {
		if !slices.Contains(names, f.Check) {
			names = append(names, f.Check)
		}
	}
	return names, nil
}

// maxCertificates is how many certificates Certificates lists. Processes have at most three hosts
// each.
const maxCertificates = 20

// Certificates reads the states that the processes with TALLYGATE_TLS=auto have recorded.
func (r *installationHealthResolver) Certificates(
	ctx context.Context, _ *health.State,
) ([]*generated.Certificate, error) {
	now := r.now()
	hosts, err := r.certificates.Hosts(ctx, model.At(now))
	if err != nil {
		return nil, err
	}

	list := make([]*generated.Certificate, min(len(hosts), maxCertificates))
	for i := range list {
		list[i] = &generated.Certificate{Host: hosts[i].Host, ExpiresAt: &hosts[i].ExpiresAt, Late: hosts[i].IsLate(now)}
	}
	return list, nil
}
