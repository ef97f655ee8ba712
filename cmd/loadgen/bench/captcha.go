package bench

import (
	"context"
	"fmt"
	"time"

	"github.com/tallygate/tallygate/cmd/loadgen/captcha"
	"github.com/tallygate/tallygate/cmd/loadgen/instance"
	"github.com/tallygate/tallygate/cmd/loadgen/load"
	"github.com/tallygate/tallygate/cmd/loadgen/target"
	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/model"
)

// Captcha is what a bench redeems tokens with. Its sitekey is made in the database, which is
// the bench's own.
type Captcha struct {
	accountID int64
	Run       *captcha.Run
}

// NewCaptcha makes a sitekey for the user's account.
func NewCaptcha(ctx context.Context, b *instance.Instance, email string) (*Captcha, error) {
	var c Captcha
	err := b.WithDatabase(func(d *db.DB) error {
		user, err := d.UserByEmail(ctx, email)
		if err != nil {
			return err
		}

		key, secret, err := d.CreateSitekey(ctx, user.AccountID, "Load test", []string{target.CaptchaDomain}, model.At(time.Now()))
		if err != nil {
			return err
		}

		c = Captcha{accountID: user.AccountID, Run: captcha.NewRun(b.Server.Data, key.Sitekey, secret, load.Load{})}
		return nil
	})

	return &c, err
}

// tokensPerSecond is how many tokens are prepared for each second of a measurement. A server that
// is faster has fewer seconds.
const tokensPerSecond = 10_000

// obtaining is over how many connections they are prepared: that is not measured.
const obtaining = 128

// prepare obtains tokens, drives the empty handler with the requests that redeem them, and returns
// what does redeem them: each once, so that every answer stands for a committed row. Of both a
// tenth of the answers is warm-up.
func (c *Captcha) prepare(ctx context.Context, noop *instance.Server, l load.Load) (base *load.Result, phase func() *load.Result, err error) {
	tokens := min(max(int(tokensPerSecond*l.Duration.Seconds()), 2*load.MinAnswers), 3*captcha.LapTokens)
	c.Run.Load = load.Load{Addr: c.Run.Load.Addr, Connections: obtaining}
	attempts := captcha.Once(c.Run.Obtain(ctx, tokens))
	if len(attempts) < tokens-tokens/10 {
		return nil, nil, fmt.Errorf("only %d of %d tokens could be had: %v", len(attempts), tokens, c.Run.Results[captcha.Asking].Answers)
	}

	l.Addr, l.Warmup, l.WarmAnswers = c.Run.Load.Addr, 0, max(int64(len(attempts)/10), 1)
	c.Run.Load = l
	base = c.Run.Rehearse(ctx, noop.Data, noop.Pid(), captcha.Redeeming, attempts)

	return base, func() *load.Result { return c.Run.Redeem(ctx, attempts) }, base.AllAccepted()
}

// Usage is what the database has counted for the account this month.
func (c *Captcha) Usage(ctx context.Context, b *instance.Instance) (u target.CaptchaUsage, err error) {
	month := model.At(time.Now()).Month()
	u.Period = fmt.Sprint(month)
	err = b.WithDatabase(func(d *db.DB) error {
		used, err := d.CaptchaUsage(ctx, c.accountID, month)
		if err == nil {
			u.Verifications = used.Used
		}
		return err
	})

	return u, err
}
