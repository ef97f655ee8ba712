package target

import (
	"context"
	"errors"
	"fmt"

	"github.com/tallygate/tallygate/graph/client"
)

// CaptchaDomain is the domain that new sitekeys are bound to.
const CaptchaDomain = "loadgen.example"

// CaptchaUsage is an account's use of its captcha quota in one month.
type CaptchaUsage = client.CaptchaUsage

// CaptchaUsage returns the usage of the account that is signed in.
func (a *Account) CaptchaUsage(ctx context.Context) (CaptchaUsage, error) {
	data, err := client.Account(ctx, a)
	if err != nil {
		return CaptchaUsage{}, err
	}
	if data.Viewer == nil {
		return CaptchaUsage{}, errors.New("read the account's captcha usage: not signed in")
	}
	return data.Viewer.Account.CaptchaUsage, nil
}

// PrepareSitekey creates a sitekey, and puts the account on an unlimited plan if the target permits
// it.
func (a *Account) PrepareSitekey(ctx context.Context) (sitekey, secret string, err error) {
	created, err := client.CreateSitekey(ctx, a,
		client.CreateSitekeyInput{Name: "Load test", Domains: []string{CaptchaDomain}})
	if err := client.Refused(err, created.CreateSitekey); err != nil {
		return "", "", fmt.Errorf("create a sitekey, or set --sitekey and --secret to an existing one: %w", err)
	}

	data, err := client.Account(ctx, a)
	if err != nil || data.Viewer == nil {
		return "", "", errors.Join(err, errors.New("read the account's id"))
	}

	unlimited := true
	a.try(&unlimited, "the account keeps its captcha plan, whose quota may refuse tokens", "setCaptchaPlan", func() error {
		done, err := client.SetCaptchaPlan(ctx, a, data.Viewer.Account.Id, client.CaptchaPlanEnterprise)
		return client.Refused(err, done.SetCaptchaPlan)
	})

	return created.CreateSitekey.Sitekey.Sitekey, *created.CreateSitekey.Secret, nil
}
