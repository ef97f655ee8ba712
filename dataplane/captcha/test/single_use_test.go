package captcha_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tallygate/tallygate/dataplane/captcha"
	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/ingest"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/sites"
	"github.com/tallygate/tallygate/tools/dbtest"
	"github.com/tallygate/tallygate/tools/testkit"
	"github.com/tallygate/tallygate/tools/world/planetest"
)

// atOnce sends the same call n times at once, in turn to each plane, and counts the answers.
func atOnce(t *testing.T, n int, planes []*plane, c call) map[string]int {
	t.Helper()

	answers := make([]string, n)
	begin := make(chan struct{})

	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			<-begin
			response, body, err := planes[i%len(planes)].Try(c)
			if err != nil {
				t.Error(err)
				return
			}

			answers[i] = body

			// Tokens differ from each other.
			if c.Path == verifyPath {
				answers[i] = http.StatusText(response.StatusCode)
			}
		})
	}

	close(begin)
	wg.Wait()

	counts := make(map[string]int)
	for _, answer := range answers {
		counts[answer]++
	}

	return counts
}

// exactlyOne checks that one of n answers is the good one, and all others are the refusal.
func exactlyOne(t *testing.T, what string, counts map[string]int, n int, good, refusal string) {
	t.Helper()
	if counts[good] != 1 || counts[refusal] != n-1 {
		t.Errorf("%s: %v, want 1 %s and %d %s", what, counts, good, n-1, refusal)
	}
}

// parallelRedemption sends each of the consuming calls a hundred times at once, in the given number
// of rounds.
func parallelRedemption(t *testing.T, rounds int, planes ...*plane) {
	t.Helper()

	const n = 100
	p := planes[0]
	account := p.Account("a", model.CaptchaPlanFree)
	key := p.Sitekey(account)
	for round := range rounds {
		token := p.Token(key, siteOrigin)
		body := m{"sitekey": key.Sitekey.Sitekey, "secret": key.Secret, "token": token}
		exactlyOne(t, "siteverify", atOnce(t, n, planes, call{Path: siteverifyPath, Body: body}), n, valid, invalid)

		token = p.Token(key, siteOrigin)
		form := call{Path: compatPath, Type: formType, Body: "secret=" + key.Secret + "&response=" + token}
		exactlyOne(t, "compat", atOnce(t, n, planes, form), n, success(noon), refused("timeout-or-duplicate"))

		work := call{Path: verifyPath, Body: p.Solved(key, siteOrigin), Origin: siteOrigin}
		exactlyOne(t, "verify", atOnce(t, n, planes, work), n, "OK", "Bad Request")

		body = m{"sitekey": model.TestSitekey, "secret": model.TestSitekeySecret, "token": p.Token(planetest.TestSitekey, "")}
		exactlyOne(t, "test token", atOnce(t, n, planes, call{Path: siteverifyPath, Body: body}), n, valid, invalid)

		if used := p.CaptchaUsage(account).Used; used != int64(2*(round+1)) {
			t.Errorf("%d counted after round %d, want %d", used, round, 2*(round+1))
		}
	}
}

// TestParallelRedemption checks that exactly one of a hundred requests consumes a token or
// challenge.
func TestParallelRedemption(t *testing.T) {
	dbtest.Parallel(t, func(t *testing.T, d *db.DB) { parallelRedemption(t, 2, newPlane(t, d)) })
}

// twoPlanes returns two services, each with its own writer and, except on SQLite, its own
// connections. Their requests have no timeout, since many concurrent claims are slow on a busy
// machine.
func twoPlanes(t *testing.T, databaseURL string) []*plane {
	t.Helper()
	first := dbtest.Open(t, databaseURL)
	second := first

	if first.Dialect() == "postgres" {
		second = dbtest.Open(t, databaseURL)
	}

	c := testkit.NewClock(noon)
	return []*plane{
		newPlaneWithin(t, first, ingest.NewClaimStore(dbtest.SitesCell(t, first)), c, hang),
		newPlaneWithin(t, second, ingest.NewClaimStore(dbtest.SitesCell(t, second)), c, hang),
	}
}

// TestParallelRedemptionByTwoProcesses is TestParallelRedemption on two services.
func TestParallelRedemptionByTwoProcesses(t *testing.T) {
	dbtest.ParallelURL(t, func(t *testing.T, databaseURL string) {
		parallelRedemption(t, 3, twoPlanes(t, databaseURL)...)
	})
}

// TestQuotaIsExact checks that two processes that serve one account concurrently grant exactly the
// remaining quota.
func TestQuotaIsExact(t *testing.T) {
	dbtest.ParallelURL(t, func(t *testing.T, databaseURL string) {
		planes := twoPlanes(t, databaseURL)
		p := planes[0]
		account := p.Account("a", model.CaptchaPlanFree)
		keys := []sitekey{p.Sitekey(account), p.Sitekey(account)}
		const left, inQuota, n = 60, 20, 100 // left until the reserve is used up, of which inQuota are in the quota
		p.setUsage(account, 11_000-left)

		testkit.NoError(t, dbtest.Exec(p.DB, "UPDATE captcha_usage SET used = ?, reserve_from = 0", 11_000-left))
		testkit.NoError(t, dbtest.Exec(p.DB, "UPDATE captcha_usage SET used = ?", 10_000-inQuota))

		calls := make([]call, n)
		for i := range calls {
			key := keys[i%2]
			calls[i] = call{Path: siteverifyPath, Body: m{"sitekey": key.Sitekey.Sitekey, "secret": key.Secret, "token": p.Token(key, siteOrigin)}}
		}

		counts := make(map[string]int)
		var mu sync.Mutex
		redeem := func() {
			var wg sync.WaitGroup
			for i, c := range calls {
				wg.Go(func() {
					_, body, err := planes[i/2%2].Try(c)
					if err != nil {
						t.Error(err)
					}
					mu.Lock()
					counts[body]++
					mu.Unlock()
				})
			}

			wg.Wait()
		}

		redeem()

		if counts[valid] != inQuota || counts[fromReserve] != n-inQuota {
			t.Errorf("%v, want %d within the quota and %d from the reserve", counts, inQuota, n-inQuota)
		}

		clear(counts)
		redeem()

		testkit.Equal(t, counts[invalid], n, "again: %v", counts)

		// The rest of the reserve.
		testkit.NoError(t, dbtest.Exec(p.DB, "UPDATE captcha_usage SET used = ?", 11_000-left))

		for i := range calls {
			key := keys[i%2]
			calls[i].Body = m{"sitekey": key.Sitekey.Sitekey, "secret": key.Secret, "token": p.Token(key, siteOrigin)}
		}

		clear(counts)
		redeem()

		if counts[fromReserve] != left || counts[exceeded] != n-left {
			t.Errorf("%v, want %d from the reserve and %d over it", counts, left, n-left)
		}
		testkit.Equal(t, p.CaptchaUsage(account).Used, 11_000, "counted")

		clear(counts)
		p.setPlan(account, model.CaptchaPlanPro100K)
		redeem()

		if counts[valid] != n-left || counts[invalid] != left {
			t.Errorf("after an upgrade %v, want the %d that were not consumed", counts, n-left)
		}
		if notices, err := dbtest.Count(p.DB, "quota_notices"); err != nil || notices == 0 || notices > 2 {
			t.Errorf("%d notices, %v", notices, err)
		}
	})
}

// dyingStore is a real store whose process seems to crash right after a commit: no request is
// answered.
type dyingStore struct {
	captcha.ClaimStore
	mu    sync.Mutex
	dying bool
}

var errKilled = errors.New("killed")

func (s *dyingStore) Update(ctx context.Context, keys ingest.ClaimKeys, decide func(*ingest.ClaimState) *ingest.ClaimChanges) error {
	err := s.ClaimStore.Update(ctx, keys, decide)
	s.mu.Lock()
	defer s.mu.Unlock()
	if err == nil && s.dying {
		return errKilled
	}
	return err
}

func (s *dyingStore) set(dying bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dying = dying
}

// TestKillBetweenClaimAndAnswer checks that a client that repeats its call after a crash, which
// lost the answer, is refused. A challenge never gets a second token, nor a token a second success.
func TestKillBetweenClaimAndAnswer(t *testing.T) {
	dbtest.Parallel(t, func(t *testing.T, d *db.DB) {
		store := &dyingStore{ClaimStore: ingest.NewClaimStore(dbtest.SitesCell(t, d))}
		p := newPlaneOn(t, d, store, testkit.NewClock(noon))
		account := p.Account("a", model.CaptchaPlanFree)
		key := p.Sitekey(account)
		work := call{Path: verifyPath, Body: p.Solved(key, siteOrigin), Origin: siteOrigin}
		native := call{Path: siteverifyPath, Body: m{"sitekey": key.Sitekey.Sitekey, "secret": key.Secret, "token": p.Token(key, siteOrigin)}}
		form := call{Path: compatPath, Body: m{"secret": key.Secret, "response": p.Token(key, siteOrigin)}}

		store.set(true)
		p.refusal(t, "verify", work, http.StatusServiceUnavailable)
		p.refusal(t, "siteverify", native, http.StatusServiceUnavailable)
		check(t, "compat", p.compatCall(t, form), refused("internal-error"))
		store.set(false)
		p.refusal(t, "verify, tried again", work, http.StatusBadRequest)

		if _, body := p.Send(native); body != invalid {
			t.Errorf("siteverify, tried again: %s", body)
		}

		check(t, "compat, tried again", p.compatCall(t, form), refused("timeout-or-duplicate"))

		testkit.Equal(t, p.CaptchaUsage(account).Used, 2, "counted")
	})
}

// hang is how long a test waits for an event: far longer than it takes, so that a busy machine does
// not fail the test.
const hang = time.Minute

// awayStore is a database that is unavailable, or hangs.
type awayStore struct {
	captcha.ClaimStore
	err  error
	hang bool
}

func (s *awayStore) Update(ctx context.Context, _ ingest.ClaimKeys, _ func(*ingest.ClaimState) *ingest.ClaimChanges) error {
	if s.hang {
		<-ctx.Done()
		return ctx.Err()
	}
	return s.err
}

// failsClosed checks that no answer is a success while the database is unavailable.
func failsClosed(t *testing.T, p *plane, key sitekey, work m, token string) {
	t.Helper()
	for name, c := range map[string]call{
		"verify":     {Path: verifyPath, Body: work, Origin: siteOrigin},
		"siteverify": {Path: siteverifyPath, Body: m{"sitekey": key.Sitekey.Sitekey, "secret": key.Secret, "token": token}},
	} {
		if response := p.refusal(t, name, c, http.StatusServiceUnavailable); response.Header.Get("Retry-After") == "" {
			t.Errorf("%s: no Retry-After", name)
		}
	}

	check(t, "compat", p.Compat(key, token), refused("internal-error"))
}

// TestFailClosed checks that there is no token and no success without the database, in bounded
// time.
func TestFailClosed(t *testing.T) {
	t.Parallel()
	for name, store := range map[string]*awayStore{"error": {err: errors.New("disk full")}, "hang": {hang: true}} {
		t.Run(name, func(t *testing.T) {
			d := dbtest.Open(t, dbtest.SQLiteURL(t))
			well := newPlane(t, d)
			key := well.Sitekey(well.Account("a", model.CaptchaPlanFree))
			store.ClaimStore = ingest.NewClaimStore(dbtest.SitesCell(t, d))
			p := newPlaneWithin(t, d, store, well.Clock, 100*time.Millisecond)
			p.HTTP.Timeout = hang
			work, token := well.Solved(key, siteOrigin), well.Token(key, siteOrigin)
			failsClosed(t, p, key, work, token)
			check(t, "afterwards", well.Siteverify(key, token), valid)
		})
	}

	// Sitekeys that are not cached cannot be looked up either.
	t.Run("closed database", func(t *testing.T) {
		dbtest.EachURL(t, func(t *testing.T, databaseURL string) {
			d, err := db.Open(databaseURL)
			testkit.NoError(t, err)

			p := newPlane(t, d)
			key := p.Sitekey(p.Account("a", model.CaptchaPlanFree))
			work, token := p.Solved(key, siteOrigin), p.Token(key, siteOrigin)
			p.Stop()

			testkit.NoError(t, d.Close())

			failsClosed(t, p, key, work, token)

			// The cache entries have expired.
			p.Clock.Add(time.Hour)
			failsClosed(t, p, key, work, token)
			p.refusal(t, "config", call{Path: configPath, Body: m{"sitekey": key.Sitekey.Sitekey}}, http.StatusServiceUnavailable)
		})
	})
}

// stuckStore is a real store whose batches wait until they are released or their time is up.
type stuckStore struct {
	captcha.ClaimStore
	taken   chan struct{} // receives once per batch
	release chan struct{}
}

func (s *stuckStore) Update(ctx context.Context, keys ingest.ClaimKeys, decide func(*ingest.ClaimState) *ingest.ClaimChanges) error {
	s.taken <- struct{}{}
	select {
	case <-s.release:
		return s.ClaimStore.Update(ctx, keys, decide)
	case <-ctx.Done():
		return ctx.Err()
	}
}

// TestRefusedIsNotConsumed checks that the calls of a slow commit and those queued behind it are
// answered with 503, and that their tokens are neither consumed nor counted once the database has
// recovered.
func TestRefusedIsNotConsumed(t *testing.T) {
	dbtest.Parallel(t, func(t *testing.T, d *db.DB) {
		well := newPlane(t, d)
		account := well.Account("a", model.CaptchaPlanFree)
		key := well.Sitekey(account)
		store := &stuckStore{ClaimStore: ingest.NewClaimStore(dbtest.SitesCell(t, d)), taken: make(chan struct{}, 9), release: make(chan struct{})}
		p := newPlaneWithin(t, d, store, well.Clock, time.Second)
		p.HTTP.Timeout = hang
		tokens := []string{well.Token(key, siteOrigin), well.Token(key, siteOrigin)}

		// The sitekey is cached afterwards. A busy database may take longer to find it than a call waits.
		p.Await("an answer of siteverify", func() bool {
			response, _ := p.Send(call{
				Path: siteverifyPath, Body: m{"sitekey": key.Sitekey.Sitekey, "secret": key.Secret, "token": "x"},
			})
			return response.StatusCode == http.StatusOK
		})

		var wg sync.WaitGroup
		refused := func(token string) {
			wg.Go(func() {
				response, body, err := p.Try(call{
					Path: siteverifyPath, Body: m{"sitekey": key.Sitekey.Sitekey, "secret": key.Secret, "token": token},
				})
				if err != nil || response.StatusCode != http.StatusServiceUnavailable {
					t.Errorf("while a commit is slow: %s, %v; want 503", body, err)
				}
			})
		}

		refused(tokens[0])
		<-store.taken
		refused(tokens[1])
		wg.Wait()
		close(store.release)

		// Its writer has ended, so that no commit can follow.
		p.Stop()

		testkit.Equal(t, well.CaptchaUsage(account).Used, 0, "counted")

		check(t, "the second", well.Siteverify(key, tokens[1]), valid)

		testkit.Equal(t, well.CaptchaUsage(account).Used, 1, "counted")
	})
}

// panickyStore is a real store whose transactions panic if they contain a claim of one account.
type panickyStore struct {
	captcha.ClaimStore
	account model.AccountID
}

func (s *panickyStore) Update(ctx context.Context, keys ingest.ClaimKeys, decide func(*ingest.ClaimState) *ingest.ClaimChanges) error {
	return s.ClaimStore.Update(ctx, keys, func(state *ingest.ClaimState) *ingest.ClaimChanges {
		for key := range state.Usage {
			if key.AccountID == s.account {
				panic("bad claim")
			}
		}
		return decide(state)
	})
}

// TestPanicIsTemporary checks that a claim that makes its transaction panic is answered with 503
// and not consumed, and that other claims are not affected.
func TestPanicIsTemporary(t *testing.T) {
	dbtest.Parallel(t, func(t *testing.T, d *db.DB) {
		well := newPlane(t, d)
		good, bad := well.Sitekey(well.Account("a", model.CaptchaPlanFree)), well.Sitekey(well.Account("b", model.CaptchaPlanFree))
		p := newPlaneOn(t, d, &panickyStore{ClaimStore: ingest.NewClaimStore(dbtest.SitesCell(t, d)), account: bad.AccountID}, well.Clock)
		token := well.Token(bad, siteOrigin)
		c := call{Path: siteverifyPath, Body: m{"sitekey": bad.Sitekey.Sitekey, "secret": bad.Secret, "token": token}}
		for range 2 {
			p.refusal(t, "panic", c, http.StatusServiceUnavailable)
			check(t, "another account", p.Siteverify(good, p.Token(good, siteOrigin)), valid)
		}

		check(t, "afterwards", well.Siteverify(bad, token), valid)

		testkit.Equal(t, well.CaptchaUsage(bad.AccountID).Used, 1, "counted")
	})
}

// TestRotatedSecretIsRefused checks that a replaced secret, a deleted sitekey and a new domain
// binding take effect in every process soon.
func TestRotatedSecretIsRefused(t *testing.T) {
	dbtest.ParallelURL(t, func(t *testing.T, databaseURL string) {
		changing := dbtest.Open(t, databaseURL)

		// SQLite notifies its own process only.
		serving := changing

		if changing.Dialect() == "postgres" {
			serving = dbtest.Open(t, databaseURL)
		}

		p := newPlane(t, serving)
		account := p.Account("a", model.CaptchaPlanFree)
		key := p.Sitekey(account)
		testkit.Await(t, "the sitekey", func() bool { return p.Compat(key, "x") == refused("invalid-input-response") })
		_, secret, err := sites.New(changing).Sitekeys.RotateSitekeySecret(t.Context(), account, key.ID, 0)
		testkit.NoError(t, err)

		testkit.Await(t, "the new secret", func() bool { return p.Compat(key, "x") == refused("invalid-input-secret") })
		p.refusal(t, "old secret", call{Path: siteverifyPath, Body: m{"sitekey": key.Sitekey.Sitekey, "secret": key.Secret, "token": "x"}}, 401)
		key.Secret = secret
		check(t, "new secret", p.Siteverify(key, p.Token(key, siteOrigin)), valid)

		config := call{Path: configPath, Body: m{"sitekey": key.Sitekey.Sitekey}, Origin: siteOrigin}
		domains := []string{"example.org"}
		if _, err := sites.New(changing).Sitekeys.UpdateSitekey(t.Context(), account, key.ID, sites.SitekeyUpdate{Domains: &domains}); err != nil {
			t.Fatal(err)
		}

		testkit.Await(t, "the binding", func() bool { response, _ := p.Send(config); return response.StatusCode == http.StatusForbidden })

		testkit.NoError(t, sites.New(changing).Sitekeys.DeleteSitekey(t.Context(), account, key.ID))

		testkit.Await(t, "the removal", func() bool { response, _ := p.Send(config); return response.StatusCode == http.StatusNotFound })
		check(t, "secret of a removed sitekey", p.Compat(key, "x"), refused("invalid-input-secret"))
	})
}

// TestOldSitekeySecret checks that both endpoints accept a replaced secret until exactly the chosen
// time, although it is in their cache, and not after it is revoked.
func TestOldSitekeySecret(t *testing.T) {
	dbtest.ParallelURL(t, func(t *testing.T, databaseURL string) {
		changing := dbtest.Open(t, databaseURL)

		// Another process serves. On SQLite it reads the changes from their table.
		p := newPlane(t, dbtest.Open(t, databaseURL))
		account := p.Account("a", model.CaptchaPlanFree)
		key := p.Sitekey(account)

		// accepted returns how many of the two endpoints accept a secret.
		accepted := func(secret string) (endpoints int) {
			t.Helper()

			response, body := p.Send(call{Path: siteverifyPath,
				Body: m{"sitekey": key.Sitekey.Sitekey, "secret": secret, "token": "x"}})
			switch response.StatusCode {
			case http.StatusOK:
				endpoints++
			case http.StatusUnauthorized:
			default:
				t.Errorf("siteverify: %d %s", response.StatusCode, body)
			}

			asked := key
			asked.Secret = secret
			if p.Compat(asked, "x") == refused("invalid-input-response") {
				endpoints++
			}

			return endpoints
		}

		accepts := func(secret string) bool { t.Helper(); return accepted(secret) == 2 }
		refuses := func(secret string) bool { t.Helper(); return accepted(secret) == 0 }
		await := func(what string, arrived func(string) bool, secret string) {
			t.Helper()
			testkit.Await(t, what, func() bool { return arrived(secret) })
		}

		rotate := func(keep time.Duration) string {
			t.Helper()
			_, secret, err := sites.New(changing).Sitekeys.RotateSitekeySecret(t.Context(), account, key.ID, model.At(p.Clock.Now().Add(keep)))
			testkit.NoError(t, err)
			return secret
		}

		await("the first secret", accepts, key.Secret)
		second := rotate(24 * time.Hour)
		await("the second secret", accepts, second)
		if !accepts(key.Secret) {
			t.Error("the old secret is refused")
		}

		check(t, "a token, with the old secret", p.Siteverify(key, p.Token(key, siteOrigin)), valid)

		p.Clock.Set(noon.Add(24*time.Hour - time.Microsecond))
		if !accepts(key.Secret) || !accepts(second) {
			t.Error("just before the end, one of the secrets is refused")
		}
		p.Clock.Set(noon.Add(24 * time.Hour))
		if !refuses(key.Secret) || !accepts(second) {
			t.Error("at the end, the old secret is accepted or the new one refused")
		}

		third := rotate(24 * time.Hour)
		await("the third secret", accepts, third)
		fourth := rotate(24 * time.Hour)
		await("the end of the second secret", refuses, second)
		if !accepts(third) || !accepts(fourth) {
			t.Error("after another rotation, one of the last two secrets is refused")
		}

		if _, err := sites.New(changing).Sitekeys.RevokeOldSitekeySecret(t.Context(), account, key.ID); err != nil {
			t.Fatal(err)
		}
		await("the end of the third secret", refuses, third)
		if !accepts(fourth) {
			t.Error("the current secret is refused")
		}
	})
}

// TestAccountDeleted checks that a token is not valid if its account was deleted since the sitekey
// was cached.
func TestAccountDeleted(t *testing.T) {
	eachPlane(t, func(t *testing.T, p *plane) {
		account := p.Account("a", model.CaptchaPlanFree)
		key := p.Sitekey(account)
		token := p.Token(key, siteOrigin)

		// The secret is cached now.
		check(t, "before", p.Compat(key, "x"), refused("invalid-input-response"))

		testkit.NoError(t, dbtest.Exec(p.DB, "DELETE FROM accounts WHERE id = ?", account))

		p.refusal(t, "siteverify", call{Path: siteverifyPath, Body: m{"sitekey": key.Sitekey.Sitekey, "secret": key.Secret, "token": token}}, 404)
		check(t, "compat", p.Compat(key, token), refused("invalid-input-secret"))
	})
}

// TestDisconnectCancelsTheClaim checks that the token of a client that disconnects while other
// claims are being committed is not consumed.
func TestDisconnectCancelsTheClaim(t *testing.T) {
	t.Parallel()
	d := dbtest.Open(t, dbtest.SQLiteURL(t))
	entered, release := make(chan struct{}), make(chan struct{})
	store := &gateStore{ClaimStore: ingest.NewClaimStore(dbtest.SitesCell(t, d)), entered: entered, release: release}
	p := newPlaneOn(t, d, store, testkit.NewClock(noon))
	key := p.Sitekey(p.Account("a", model.CaptchaPlanFree))
	token := p.Token(key, siteOrigin)
	first, second := p.Token(planetest.TestSitekey, ""), mustJSON(t, m{"sitekey": key.Sitekey.Sitekey, "secret": key.Secret, "token": token})
	store.mu.Lock()
	store.closed = true
	store.mu.Unlock()

	done := make(chan string)
	go func() {
		_, body, _ := p.Try(call{Path: siteverifyPath, Body: m{"sitekey": model.TestSitekey, "secret": model.TestSitekeySecret, "token": first}})
		done <- body
	}()

	// The writer is busy with the first claim.
	<-entered
	ctx, leave := context.WithCancel(t.Context())
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, siteverifyPath, strings.NewReader(second))
	testkit.NoError(t, err)

	cancelled := make(chan struct{})
	go func() {
		p.Handler.ServeHTTP(&discardWriter{header: http.Header{}}, request)
		close(cancelled)
	}()

	leave()
	<-cancelled
	close(release)
	check(t, "the first", <-done, valid)
	check(t, "the sitekey that left", p.Siteverify(key, token), valid)
}

// gateStore blocks one batch until it is released.
type gateStore struct {
	captcha.ClaimStore
	mu               sync.Mutex
	closed           bool
	entered, release chan struct{}
}

func (s *gateStore) Update(ctx context.Context, keys ingest.ClaimKeys, decide func(*ingest.ClaimState) *ingest.ClaimChanges) error {
	s.mu.Lock()
	closed := s.closed
	s.closed = false
	s.mu.Unlock()

	if closed {
		close(s.entered)
		<-s.release
	}

	return s.ClaimStore.Update(ctx, keys, decide)
}

// discardWriter is an http.ResponseWriter that discards the body.
type discardWriter struct {
	header http.Header
	status int
}

func (w *discardWriter) Header() http.Header         { return w.header }
func (w *discardWriter) Write(p []byte) (int, error) { return len(p), nil }
func (w *discardWriter) WriteHeader(status int)      { w.status = status }

// TestOneDeadlineForAllWaits checks that a call whose sitekey cannot be looked up is answered at
// its deadline for all waits, not when the lookup times out.
func TestOneDeadlineForAllWaits(t *testing.T) {
	dbtest.ParallelPostgres(t, func(t *testing.T, d *db.DB) {
		well := newPlane(t, d)
		key := well.Sitekey(well.Account("a", model.CaptchaPlanFree))
		work, token := well.Solved(key, siteOrigin), well.Token(key, siteOrigin)
		p := newPlaneWithin(t, d, ingest.NewClaimStore(dbtest.SitesCell(t, d)), well.Clock, 500*time.Millisecond)
		p.HTTP.Timeout = hang

		ctx, release := context.WithCancel(context.Background())
		var holder sync.WaitGroup
		holder.Go(func() {
			_ = dbtest.Transaction(ctx, d, "LOCK TABLE sitekeys IN ACCESS EXCLUSIVE MODE", "SELECT pg_sleep(60)")
		})
		defer holder.Wait()
		defer release()

		testkit.Await(t, "the lock", func() bool {
			locks, err := dbtest.Rows[int](d,
				"SELECT count(*) FROM pg_locks WHERE relation = 'sitekeys'::regclass AND mode = 'AccessExclusiveLock' AND granted")
			testkit.NoError(t, err)
			return locks[0] == 1
		})

		began := time.Now()
		failsClosed(t, p, key, work, token)

		// There are three calls, and each lookup times out after 5 s.
		if took := time.Since(began); took > 5*time.Second {
			t.Errorf("three calls were answered after %v, want 1.5s", took)
		}
	})
}

// TestTokensShowNoRowNumbers checks that neither a token nor a challenge contains the id of the
// sitekey or of the account, in any byte order.
func TestTokensShowNoRowNumbers(t *testing.T) {
	eachPlane(t, func(t *testing.T, p *plane) {
		var key sitekey
		for range 3 {
			key = p.Sitekey(p.Account(rand.Text(), model.CaptchaPlanFree))
		}

		for name, text := range map[string]string{"token": p.Token(key, ""), "challenge": p.Challenge(key, "").Challenge} {
			raw, err := base64.RawURLEncoding.DecodeString(text)
			testkit.NoError(t, err)

			for _, number := range []int64{int64(key.ID), int64(key.AccountID)} {
				for _, shown := range [][]byte{
					binary.BigEndian.AppendUint64(nil, uint64(number)),
					binary.LittleEndian.AppendUint64(nil, uint64(number)),
				} {
					if bytes.Contains(raw, shown) {
						t.Errorf("a %s of sitekey %d contains %x: %x", name, key.ID, shown, raw)
					}
				}
			}
		}
	})
}
