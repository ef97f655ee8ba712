package bench

import (
	"context"
	"fmt"
	"time"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/accounts"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/sites"
	"github.com/tallygate/tallygate/tools/loadgen/captcha"
	"github.com/tallygate/tallygate/tools/loadgen/instance"
	"github.com/tallygate/tallygate/tools/loadgen/load"
	"github.com/tallygate/tallygate/tools/loadgen/target"
)

// Captcha redeems tokens during a measurement. Its sitekey is created directly in the instance's
// database.
type Captcha struct {
	accountID int64
	Run       *captcha.Run
}

// NewCaptcha creates a sitekey for the user's account.
func NewCaptcha(ctx context.Context, b *instance.Instance, email string) (*Captcha, error) {
	var c Captcha
	err := b.WithDatabase(func(d *db.DB) error {
		user, err := accounts.New(d).UserByEmail(ctx, email)
		if err != nil {
			return err
		}

		key, secret, err := sites.New(d).CreateSitekey(ctx, user.AccountID, "Load test", []string{target.CaptchaDomain},
			model.At(time.Now()))
		if err != nil {
			return err
		}

		c = Captcha{accountID: user.AccountID, Run: captcha.NewRun(b.Server.Data, key.Sitekey, secret, load.Load{})}
		return nil
	})

	return &c, err
}

// tokensPerSecond is the number of tokens that are prepared per second of a measurement. A faster
// server ends its measurement early.
const tokensPerSecond = 10_000

// obtaining is the number of connections that prepare tokens before the measurement.
const obtaining = 128

// prepare obtains tokens, sends the redeeming requests to the empty handler, and returns its result
// and the function that redeems the tokens. Each token is redeemed once, so that every response
// stands for a committed row. A tenth of the responses of both is warm-up.
func (c *Captcha) prepare(ctx context.Context, noop *instance.Server,
	l load.Load) (base *load.Result, phase func() *load.Result, err error) {
	tokens := min(max(int(tokensPerSecond*l.Duration.Seconds()), 2*load.MinAnswers), 3*captcha.LapTokens)
	c.Run.Load = load.Load{Addr: c.Run.Load.Addr, Connections: obtaining}
	attempts := captcha.Once(c.Run.Obtain(ctx, tokens))
	if len(attempts) < tokens-tokens/10 {
		return nil, nil, fmt.Errorf("only %d of %d tokens were obtained: %v",
			len(attempts), tokens, c.Run.Results[captcha.Asking].Answers)
	}

	l.Addr, l.Warmup, l.WarmAnswers = c.Run.Load.Addr, 0, max(int64(len(attempts)/10), 1)
	c.Run.Load = l
	base = c.Run.Rehearse(ctx, noop.Data, noop.Pid(), captcha.Redeeming, attempts)

	return base, func() *load.Result { return c.Run.Redeem(ctx, attempts) }, base.AllAccepted()
}

// Usage returns the account's usage of this month from the database.
func (c *Captcha) Usage(ctx context.Context, b *instance.Instance) (u target.CaptchaUsage, err error) {
	month := model.At(time.Now()).Month()
	u.Period = fmt.Sprint(month)
	err = b.WithDatabase(func(d *db.DB) error {
		used, err := accounts.New(d).CaptchaUsage(ctx, c.accountID, month)
		if err == nil {
			u.Verifications = used.Used
		}
		return err
	})

	return u, err
}
