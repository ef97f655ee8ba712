package captcha_test

import (
	"net/http"
	"sync"
	"testing"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/accounts"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/sites"
	"github.com/tallygate/tallygate/tools/dbtest"
	"github.com/tallygate/tallygate/tools/testkit"
)

// TestTransferredSitekey: challenges and tokens from before a transfer are valid once and never
// twice, whether a process has heard of the transfer or not. Verifications count against one
// account each.
func TestTransferredSitekey(t *testing.T) {
	dbtest.Parallel(t, func(t *testing.T, d *db.DB) { transferSitekey(t, d, func(model.AccountID) {}) })
}

// TestTransferBetweenCells is TestTransferredSitekey for accounts in different cells, of which the
// second one has no address or one.
func TestTransferBetweenCells(t *testing.T) {
	t.Parallel()
	for name, cell := range map[string]int64{"from the default cell": db.DefaultCell, "from the second cell": 2} {
		t.Run(name, func(t *testing.T) {
			transferBetweenCells(t, dbtest.Open(t, dbtest.CellURL(t)), cell)
		})
		t.Run(name+" with an address", func(t *testing.T) {
			databaseURL := dbtest.CellURL(t)
			d, err := db.OpenWith(databaseURL, db.Options{CellURLs: map[int64]string{2: dbtest.CellNodes(t, databaseURL)[0]}})
			testkit.NoError(t, err)
			t.Cleanup(func() { _ = d.Close() })
			transferBetweenCells(t, d, cell)
		})
	}
}

func transferBetweenCells(t *testing.T, d *db.DB, cell int64) {
	t.Helper()
	transferSitekey(t, d, func(from model.AccountID) {
		if _, err := d.Write.ExecContext(t.Context(), "UPDATE accounts SET cell = CASE id WHEN ? THEN ? ELSE 3 - ? END",
			from, cell, cell); err != nil {
			t.Fatal(err)
		}
	})
}

// transferSitekey transfers a sitekey between accounts that place has prepared.
func transferSitekey(t *testing.T, d *db.DB, place func(from model.AccountID)) {
	const rounds = 6

	// Each plane has caches of its own.
	planes := []*plane{newPlane(t, d), newPlane(t, d)}
	p := planes[0]
	from, to := p.Account("a", model.CaptchaPlanFree), p.Account("b", model.CaptchaPlanFree)
	place(from)
	key := p.Sitekey(from)
	all := 0

	for round := range rounds {
		used := p.Token(key, siteOrigin)
		check(t, "before", p.Siteverify(key, used), valid)
		all++

		// Both planes know the key of the old account now.
		token, challenge := p.Token(key, siteOrigin), p.Solved(key, siteOrigin)
		for _, plane := range planes {
			check(t, "a used token", plane.Siteverify(key, used), invalid)
		}

		var mu sync.Mutex
		var wg sync.WaitGroup
		valids, exchanged := 0, 0
		add := func(ok bool, n *int) {
			mu.Lock()
			defer mu.Unlock()
			if ok {
				*n++
			}
		}

		for _, plane := range planes {
			for range 3 {
				wg.Go(func() { add(plane.Siteverify(key, token) == valid, &valids) })
				wg.Go(func() {
					response, _ := plane.Send(call{Path: verifyPath, Body: challenge, Origin: siteOrigin})
					add(response.StatusCode == http.StatusOK, &exchanged)
				})
			}
		}

		moved, err := sites.New(d).Sitekeys.TransferSitekey(t.Context(), key.ID, from, to)
		if err != nil || moved.AccountID != to {
			t.Fatalf("transfer %d: %+v, %v", round, moved, err)
		}
		wg.Wait()

		for _, plane := range planes {
			add(plane.Siteverify(key, token) == valid, &valids)
			check(t, "a token used before the transfer", plane.Siteverify(key, used), invalid)
		}
		if valids != 1 || exchanged != 1 {
			t.Errorf("transfer %d: the token was valid %d times, the challenge %d times", round, valids, exchanged)
		}

		all++
		from, to = to, from
	}

	if counted := p.CaptchaUsage(from).Used + p.CaptchaUsage(to).Used; counted != int64(all) {
		t.Errorf("%d verifications are counted, want %d", counted, all)
	}
}

// TestUnheardTransfer gives a sitekey away, and deletes the account that had it, without a
// notification. A token is still valid, and counts for the new account. After the sitekey is
// deleted, too, it is unknown.
func TestUnheardTransfer(t *testing.T) {
	eachPlane(t, func(t *testing.T, p *plane) {
		p.Account("operator", model.CaptchaPlanFree)
		from, to := p.Account("a", model.CaptchaPlanFree), p.Account("b", model.CaptchaPlanFree)
		key := p.Sitekey(from)
		used, token, late := p.Token(key, siteOrigin), p.Token(key, siteOrigin), p.Token(key, siteOrigin)
		check(t, "before", p.Siteverify(key, used), valid)

		change := func(statement string, args ...any) {
			t.Helper()
			_, err := p.DB.Write.ExecContext(t.Context(), statement, args...)
			testkit.NoError(t, err)
		}
		closeAccount := func(address string) {
			t.Helper()
			owner, err := accounts.New(p.DB).UserByEmail(t.Context(), address)
			testkit.NoError(t, err)
			testkit.NoError(t, accounts.New(p.DB).DeleteAccount(t.Context(), owner, model.At(p.Clock.Now())))
		}

		change("UPDATE sitekeys SET account_id = ?, claim_space = ? WHERE id = ?", to, from, key.ID)
		closeAccount("a@example.com")
		check(t, "a used token", p.Siteverify(key, used), invalid)
		check(t, "a new token", p.Siteverify(key, token), valid)
		testkit.Equal(t, p.CaptchaUsage(to).Used, 1, "verifications of the new account")

		change("DELETE FROM sitekeys WHERE id = ?", key.ID)
		closeAccount("b@example.com")
		p.refusal(t, "a token of a deleted sitekey", call{
			Path: siteverifyPath, Body: m{"sitekey": key.Sitekey.Sitekey, "secret": key.Secret, "token": late},
		}, http.StatusNotFound)
	})
}

// TestSuspendedSitekey: the captcha of a suspended account refuses loudly and consumes nothing.
func TestSuspendedSitekey(t *testing.T) {
	eachPlane(t, func(t *testing.T, p *plane) {
		p.Account("operator", model.CaptchaPlanFree)
		account := p.Account("a", model.CaptchaPlanFree)
		key := p.Sitekey(account)
		token, challenge := p.Token(key, siteOrigin), p.Solved(key, siteOrigin)
		config := call{Path: configPath, Body: m{"sitekey": key.Sitekey.Sitekey}, Origin: siteOrigin}

		if _, err := accounts.New(p.DB).Suspend(t.Context(), account, "abuse", model.At(p.Clock.Now())); err != nil {
			t.Fatal(err)
		}
		testkit.Await(t, "the suspension", func() bool { response, _ := p.Send(config); return response.StatusCode == http.StatusNotFound })

		p.refusal(t, "verify", call{Path: verifyPath, Body: challenge, Origin: siteOrigin}, http.StatusNotFound)
		testkit.Await(t, "the suspension at siteverify", func() bool { return p.Siteverify(key, token) == exceeded })
		testkit.Await(t, "the suspension at the compatible endpoint", func() bool { return p.Compat(key, token) == refused("quota-exceeded") })
		check(t, "a forged token", p.Siteverify(key, "x"), invalid)
		p.refusal(t, "a wrong secret", call{
			Path: siteverifyPath, Body: m{"sitekey": key.Sitekey.Sitekey, "secret": "x", "token": token},
		}, http.StatusUnauthorized)

		if _, err := accounts.New(p.DB).Resume(t.Context(), account, model.At(p.Clock.Now())); err != nil {
			t.Fatal(err)
		}
		testkit.Await(t, "the end of the suspension", func() bool { return p.Siteverify(key, token) == valid })
		check(t, "again", p.Siteverify(key, token), invalid)

		testkit.Equal(t, p.CaptchaUsage(account).Used, 1, "verifications are counted")
	})
}
