package captcha_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tallygate/tallygate/dataplane/captcha/pow"
	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/cells"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/sites"
	"github.com/tallygate/tallygate/tools/dbtest"
	"github.com/tallygate/tallygate/tools/testkit"
	"github.com/tallygate/tallygate/tools/world/planetest"
)

// redeemer redeems challenges and tokens of sitekeys, each through all planes at once, until it is
// stopped.
type redeemer struct {
	tb     testing.TB
	planes []*plane
	stop   func()
}

// redeeming is the work on one sitekey.
type redeeming struct {
	key      sitekey
	mayWait  bool // requests may be answered with 503
	accepted atomic.Int64
	exceeded atomic.Int64 // tokens over the quota
	late     atomic.Int64 // requests answered with 503
	longest  atomic.Int64 // the longest request, in nanoseconds
}

// startRedeeming starts two callers for each sitekey.
func startRedeeming(tb testing.TB, planes []*plane, all ...*redeeming) *redeemer {
	tb.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	r := &redeemer{tb: tb, planes: planes}
	var wg sync.WaitGroup
	for i, one := range all {
		for caller := range 2 {
			wg.Go(func() {
				used := ""
				for ctx.Err() == nil {
					token, err := r.redeem(one, used)
					if err != nil {
						tb.Errorf("sitekey %d: %v", i, err)
						return
					}
					if used == "" || caller == 0 && token != "" {
						used = token // the other caller repeats its first token until the end
					}
				}
			})
		}
	}
	r.stop = sync.OnceFunc(func() { cancel(); wg.Wait() })
	tb.Cleanup(r.stop)
	return r
}

// redeem exchanges a challenge and redeems its token, and repeats a token that was used before. Of
// several requests with one challenge or token, exactly one is accepted. It returns the token,
// unless it is over the quota and so not used.
func (r *redeemer) redeem(one *redeeming, used string) (token string, err error) {
	p := r.planes[0]
	_, body, err := p.Try(call{Path: configPath, Body: m{"sitekey": one.key.Sitekey.Sitekey}, Origin: siteOrigin, Client: planetest.NextClient()})
	var c pow.Challenge
	if err == nil {
		err = json.Unmarshal([]byte(body), &c)
	}
	if err != nil {
		return "", fmt.Errorf("config: %s, %w", body, err)
	}
	nonce, err := pow.Solve(c)
	if err != nil {
		return "", err
	}

	solved := m{"sitekey": one.key.Sitekey.Sitekey, "challenge": c.Challenge, "nonce": nonce}
	answers, err := r.everywhere(one, call{Path: verifyPath, Body: solved, Origin: siteOrigin})
	if err != nil {
		return "", err
	}
	exchanged := 0
	for _, answer := range answers {
		var tokens struct{ Token, Error string }
		if err := json.Unmarshal([]byte(answer), &tokens); err != nil {
			return "", err
		}
		switch {
		case tokens.Token != "":
			token = tokens.Token
			exchanged++
		case tokens.Error != "Challenge not found or invalid work: request a new challenge.":
			return "", fmt.Errorf("verify: %s", answer)
		}
	}
	if exchanged != 1 {
		return "", fmt.Errorf("a challenge was exchanged %d times: %v", exchanged, answers)
	}

	isUsed, err := r.verify(one, token, used)
	if !isUsed {
		token = ""
	}
	return token, err
}

// verify redeems a token, and one that was used before. It reports whether the token was accepted.
func (r *redeemer) verify(one *redeeming, token, used string) (isUsed bool, err error) {
	counts := make(map[string]int)
	for _, text := range []string{token, used} {
		if text == "" {
			continue
		}
		answers, err := r.everywhere(one, call{Path: siteverifyPath,
			Body: m{"sitekey": one.key.Sitekey.Sitekey, "secret": one.key.Secret, "token": text}})
		if err != nil {
			return false, err
		}
		for _, answer := range answers {
			counts[answer]++
			if answer != invalid && text == used {
				return false, fmt.Errorf("a used token: %s", answer)
			}
		}
	}

	accepted, over := counts[valid]+counts[fromReserve], counts[exceeded]
	one.accepted.Add(int64(accepted))
	switch {
	case accepted == 0 && over == len(r.planes):
		one.exceeded.Add(1)
	case accepted != 1 || over != 0:
		return false, fmt.Errorf("a token was answered with %v", counts)
	}
	return accepted > 0, nil
}

// everywhere sends a call through all planes at once, and again while it is answered with 503,
// which it may be if the sitekey's account is moved. It returns the answers.
func (r *redeemer) everywhere(one *redeeming, c call) ([]string, error) {
	answers, errs := make([]string, len(r.planes)), make([]error, len(r.planes))
	var wg sync.WaitGroup
	for i, p := range r.planes {
		wg.Go(func() {
			for {
				began := time.Now()
				response, body, err := p.Try(c)
				if took := int64(time.Since(began)); took > one.longest.Load() {
					one.longest.Store(took)
				}
				answers[i], errs[i] = body, err
				if err != nil || response.StatusCode != http.StatusServiceUnavailable {
					return
				}
				one.late.Add(1)
				if !one.mayWait {
					errs[i] = fmt.Errorf("%s: %d %s", c.Path, response.StatusCode, body)
					return
				}
			}
		})
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			return nil, err
		}
	}
	return answers, nil
}

// redeemed returns how many tokens were accepted, or are over the quota.
func (o *redeeming) redeemed() int64 { return o.accepted.Load() + o.exceeded.Load() }

// awaitMore waits until some more tokens of each sitekey were redeemed.
func (r *redeemer) awaitMore(t *testing.T, all ...*redeeming) {
	t.Helper()
	for _, one := range all {
		since := one.redeemed()
		testkit.Await(t, "more verifications", func() bool { return t.Failed() || one.redeemed() >= since+5 })
	}
	if t.Failed() {
		t.FailNow()
	}
}

// movingPlanes returns two data planes on databases of their own with two cells, which both are
// open.
func movingPlanes(t *testing.T) []*plane {
	t.Helper()
	databaseURL := dbtest.CellURL(t)
	planes := []*plane{newPlane(t, dbtest.Open(t, databaseURL)), newPlane(t, dbtest.Open(t, databaseURL))}
	for _, p := range planes {
		dbtest.SetClock(p.DB, p.Clock.Now)
	}
	planes[0].Account("operator", model.CaptchaPlanFree)
	return planes
}

// inBothCells returns accounts of a plan in the second cell, and one in the first one.
func inBothCells(t *testing.T, p *plane, plan model.CaptchaPlan) (moved, sameCell, otherCell model.AccountID) {
	t.Helper()
	moved, sameCell, otherCell = p.Account("moved", plan), p.Account("b", plan), p.Account("c", plan)
	for _, statement := range []string{
		fmt.Sprintf("UPDATE accounts SET cell = 2 WHERE id IN (%d, %d)", moved, sameCell),
		fmt.Sprintf("UPDATE accounts SET cell = 1 WHERE id = %d", otherCell),
		"UPDATE cells SET open = true",
	} {
		if _, err := p.DB.Write.ExecContext(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	return moved, sameCell, otherCell
}

// leave ends the minute for which the rows of a moved account stay in its former cell, and the
// move.
func leave(t *testing.T, d *db.DB) {
	t.Helper()
	if _, err := d.Write.ExecContext(t.Context(), "UPDATE account_moves SET switched_at = 0"); err != nil {
		t.Fatal(err)
	}
	if n, err := cells.New(d).Continue(t.Context()); n != 1 || err != nil {
		t.Fatalf("%d moves finished, error %v; want 1", n, err)
	}
}

// TestAccountMoveUnderLoad moves an account there and back while two processes redeem its
// challenges and tokens, those of a sitekey that it has given away, and those of one that it has
// received. Each is accepted once, the usage is exact, and other accounts do not wait.
func TestAccountMoveUnderLoad(t *testing.T) {
	testkit.SkipLong(t, "a move under load")
	t.Parallel()
	planes := movingPlanes(t)
	p := planes[0]
	moved, sameCell, otherCell := inBothCells(t, p, model.CaptchaPlanEnterprise)

	own := &redeeming{key: p.Sitekey(moved), mayWait: true}
	given := &redeeming{key: p.Sitekey(moved), mayWait: true}
	received := &redeeming{key: p.Sitekey(otherCell), mayWait: true}
	others := []*redeeming{{key: p.Sitekey(sameCell)}, {key: p.Sitekey(otherCell)}, {key: planetest.TestSitekey}}

	r := startRedeeming(t, planes, append(others, own, given, received)...)
	r.awaitMore(t, own, given, received)
	for _, transfer := range []struct {
		key      sitekey
		from, to model.AccountID
	}{{given.key, moved, otherCell}, {received.key, otherCell, moved}} {
		if _, err := sites.New(p.DB).Sitekeys.TransferSitekey(t.Context(), transfer.key.ID, transfer.from, transfer.to); err != nil {
			t.Fatal(err)
		}
	}
	r.awaitMore(t, given, received)

	for _, to := range []int64{1, 2, 1} {
		testkit.NoError(t, cells.New(p.DB).MoveAccount(t.Context(), moved, to))
		r.awaitMore(t, own, given, received)
		leave(t, p.DB)
		r.awaitMore(t, append(others, own)...)
	}

	r.stop()
	used := p.CaptchaUsage(moved).Used + p.CaptchaUsage(sameCell).Used + p.CaptchaUsage(otherCell).Used
	accepted := own.accepted.Load() + given.accepted.Load() + received.accepted.Load() + others[0].accepted.Load() + others[1].accepted.Load()
	if used != accepted {
		t.Errorf("%d verifications accepted, %d counted", accepted, used)
	}
	if n := p.CaptchaUsage(sameCell).Used; n != others[0].accepted.Load() {
		t.Errorf("another account: %d accepted, %d counted", others[0].accepted.Load(), n)
	}
	testkit.Equal(t, usageIn(t, p.DB, 2, moved), 0, "verifications are left in the former cell")
	t.Logf("accepted: %d own, %d given, %d received; %d requests answered with 503; longest: %v, of others %v", own.accepted.Load(),
		given.accepted.Load(), received.accepted.Load(), own.late.Load()+given.late.Load()+received.late.Load(),
		time.Duration(own.longest.Load()), time.Duration(others[0].longest.Load()))
}

// TestQuotaOfAMovedAccount moves an account back and forth while its quota and its reserve are used
// up: exactly these are accepted.
func TestQuotaOfAMovedAccount(t *testing.T) {
	t.Parallel()
	planes := movingPlanes(t)
	p := planes[0]
	moved, _, otherCell := inBothCells(t, p, model.CaptchaPlanFree)
	const limit, left = 11_000, 120
	in, err := p.DB.Cell(t.Context(), 2)
	if err == nil {
		_, err = in.Write.ExecContext(t.Context(), "INSERT INTO captcha_usage (account_id, month, used) VALUES (?, ?, ?)", moved,
			model.At(noon).Month(), limit-left)
	}
	testkit.NoError(t, err)

	own, other := &redeeming{key: p.Sitekey(moved), mayWait: true}, &redeeming{key: p.Sitekey(otherCell)}
	r := startRedeeming(t, planes, own, other)
	for i := 0; own.exceeded.Load() < 5; i++ {
		testkit.NoError(t, cells.New(p.DB).MoveAccount(t.Context(), moved, int64(1+i%2)))
		r.awaitMore(t, own, other)
		leave(t, p.DB)
	}
	r.stop()

	if used, accepted := p.CaptchaUsage(moved).Used, own.accepted.Load(); used != limit || accepted != left {
		t.Errorf("%d verifications accepted, %d counted; want %d and %d", accepted, used, left, limit)
	}
	notices, err := dbtest.Rows[struct{ Threshold int }](p.DB, "SELECT threshold FROM quota_notices WHERE account_id = ?", moved)
	if err != nil || len(notices) > 1 {
		t.Errorf("notices %v, %v; want at most one", notices, err)
	}
}
