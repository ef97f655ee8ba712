package main

import (
	"context"
	"fmt"
	"time"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/accounts"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/sites"
)

// benchCaptcha is what a bench redeems tokens with. Its sitekey is made in the database, which is
// the bench's own.
type benchCaptcha struct {
	accountID int64
	run       *captchaRun
}

// newCaptcha makes a sitekey for the user's account.
func (b *bench) newCaptcha(ctx context.Context, email string) (*benchCaptcha, error) {
	var c benchCaptcha
	err := b.withDatabase(func(d *db.DB) error {
		user, err := accounts.New(d).UserByEmail(ctx, email)
		if err != nil {
			return err
		}

		key, secret, err := sites.New(d).CreateSitekey(ctx, user.AccountID, "Load test", []string{captchaDomain}, model.At(time.Now()))
		if err != nil {
			return err
		}

		c = benchCaptcha{accountID: user.AccountID, run: newCaptchaRun(b.server.data, key.Sitekey, secret, load{})}
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
func (c *benchCaptcha) prepare(ctx context.Context, noop *server, l load) (base *result, phase func() *result, err error) {
	tokens := min(max(int(tokensPerSecond*l.duration.Seconds()), 2*leastAnswers), 3*lapTokens)
	c.run.load = load{addr: c.run.load.addr, connections: obtaining}
	attempts := once(c.run.obtain(ctx, tokens))
	if len(attempts) < tokens-tokens/10 {
		return nil, nil, fmt.Errorf("only %d of %d tokens could be had: %v", len(attempts), tokens, c.run.results[asking].answers)
	}

	l.addr, l.warmup, l.warmAnswers = c.run.load.addr, 0, max(int64(len(attempts)/10), 1)
	c.run.load = l
	base = c.run.rehearse(ctx, noop, redeeming, attempts)

	return base, func() *result { return c.run.redeem(ctx, attempts) }, checkNoop(base)
}

// usage is what the database has counted for the account this month.
func (c *benchCaptcha) usage(ctx context.Context, b *bench) (u captchaUsage, err error) {
	month := model.At(time.Now()).Month()
	u.Period = fmt.Sprint(month)
	err = b.withDatabase(func(d *db.DB) error {
		used, err := accounts.New(d).CaptchaUsage(ctx, c.accountID, month)
		if err == nil {
			u.Verifications = used.Used
		}
		return err
	})

	return u, err
}
