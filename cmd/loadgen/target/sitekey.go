package target

import (
	"context"
	"errors"
	"fmt"
)

// CaptchaDomain is the domain that new sitekeys are bound to.
const CaptchaDomain = "loadgen.example"

// CaptchaUsage is an account's use of its captcha quota in one month.
type CaptchaUsage struct {
	Period        string // YYYY-MM
	Verifications int64
}

// CaptchaUsage returns the usage of the account that is signed in.
func (a *Account) CaptchaUsage(ctx context.Context) (CaptchaUsage, error) {
	var data struct {
		Viewer *struct {
			Account struct{ CaptchaUsage CaptchaUsage }
		}
	}

	err := a.call(ctx, `{ viewer { account { captchaUsage { period verifications } } } }`, nil, &data)
	if err == nil && data.Viewer == nil {
		err = errors.New("read the account's captcha usage: not signed in")
	}
	if err != nil {
		return CaptchaUsage{}, err
	}

	return data.Viewer.Account.CaptchaUsage, nil
}

// PrepareSitekey creates a sitekey, and puts the account on an unlimited plan if the target permits
// it.
func (a *Account) PrepareSitekey(ctx context.Context) (sitekey, secret string, err error) {
	var created struct {
		Sitekey struct{ Sitekey string }
		Secret  string
	}

	input := map[string]any{"name": "Load test", "domains": []string{CaptchaDomain}}
	if err := a.Mutate(ctx, "createSitekey", "sitekey { sitekey } secret", input, &created); err != nil {
		return "", "", fmt.Errorf("create a sitekey, or set --sitekey and --secret to an existing one: %w", err)
	}

	var data struct {
		Viewer *struct{ Account struct{ ID string } }
	}
	if err := a.call(ctx, `{ viewer { account { id } } }`, nil, &data); err != nil || data.Viewer == nil {
		return "", "", errors.Join(err, errors.New("read the account's id"))
	}

	unlimited := true
	a.try(ctx, &unlimited, "the account keeps its captcha plan, whose quota may refuse tokens", "setCaptchaPlan", "",
		map[string]any{"accountId": data.Viewer.Account.ID, "plan": "ENTERPRISE"}, nil)

	return created.Sitekey.Sitekey, created.Secret, nil
}
