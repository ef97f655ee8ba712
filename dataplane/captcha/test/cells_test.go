package captcha_test

import (
	"testing"
	"time"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/accounts"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/retention"
	"github.com/tallygate/tallygate/db/sites"
	"github.com/tallygate/tallygate/tools/dbtest"
	"github.com/tallygate/tallygate/tools/testkit"
)

// usageIn returns how many verifications a cell has of an account.
func usageIn(t *testing.T, d *db.DB, cell int64, account model.AccountID) (used int64) {
	t.Helper()
	in, err := d.Cell(t.Context(), cell)
	if err == nil {
		err = in.Read.NewRaw("SELECT coalesce(sum(used), 0) FROM captcha_usage WHERE account_id = ?", account).Scan(t.Context(), &used)
	}
	testkit.NoError(t, err)
	return used
}

// TestClaimsOfAMovedAccount closes an account as a move does. Its tokens wait until it is opened in
// another cell, and are answered with an error after their deadline. A process that did not notice
// the move accepts no token that was used before.
func TestClaimsOfAMovedAccount(t *testing.T) {
	t.Parallel()
	d := dbtest.Open(t, dbtest.CellURL(t))
	exec := func(statement string, args ...any) {
		t.Helper()
		if _, err := d.Write.ExecContext(t.Context(), statement, args...); err != nil {
			t.Fatal(err)
		}
	}

	planes := []*plane{newPlane(t, d), newPlane(t, d)}
	p := planes[0]
	account := p.Account("a", model.CaptchaPlanFree)
	key := p.Sitekey(account)

	used := p.Token(key, siteOrigin)
	for _, plane := range planes {
		check(t, "before", plane.Siteverify(key, plane.Token(key, siteOrigin)), valid)
	}
	check(t, "before", p.Siteverify(key, used), valid)
	testkit.Equal(t, usageIn(t, d, 2, account), 3, "verifications in the account's cell")

	token, late, challenge := p.Token(key, siteOrigin), p.Token(key, siteOrigin), p.Solved(key, siteOrigin)
	exec("UPDATE accounts SET cell_closed = true WHERE id = ?", account)
	answers := make(chan string)
	for _, plane := range planes {
		go func() { answers <- plane.Siteverify(key, token) }()
	}
	select {
	case answer := <-answers:
		t.Fatalf("a token of a closed account was answered with %s", answer)
	case <-time.After(300 * time.Millisecond):
	}

	for _, table := range []string{"captcha_usage", "captcha_spent"} {
		exec("INSERT INTO public." + table + " SELECT * FROM cell_2." + table)
	}
	exec("UPDATE accounts SET cell = 1, cell_closed = false WHERE id = ?", account)
	if first, second := <-answers, <-answers; min(first, second) != min(valid, invalid) || max(first, second) != max(valid, invalid) {
		t.Errorf("the token was answered with %s and %s, want it to be valid once", first, second)
	}

	for _, plane := range planes {
		check(t, "a token used before the move", plane.Siteverify(key, used), invalid)
		check(t, "a token used after the move", plane.Siteverify(key, token), invalid)
	}
	valids := 0
	for _, plane := range planes {
		if plane.Siteverify(key, late) == valid {
			valids++
		}
	}
	exchanged := 0
	for _, plane := range planes {
		if response, _ := plane.Send(call{Path: verifyPath, Body: challenge, Origin: siteOrigin}); response.StatusCode == 200 {
			exchanged++
		}
	}
	if valids != 1 || exchanged != 1 {
		t.Errorf("a token was valid %d times, a challenge %d times", valids, exchanged)
	}
	if former, now := usageIn(t, d, 2, account), usageIn(t, d, 1, account); former != 3 || now != 5 {
		t.Errorf("%d verifications in the former cell and %d in the new one, want 3 and 5", former, now)
	}
}

// TestClaimsOfADeletedAccount: the tokens of a sitekey that an account gave away are valid once
// after the deletion of that account, in its cell. The other rows of the account are deleted there.
func TestClaimsOfADeletedAccount(t *testing.T) {
	t.Parallel()
	d := dbtest.Open(t, dbtest.CellURL(t))
	p := newPlane(t, d)
	p.Account("operator", model.CaptchaPlanFree)
	from, to := p.Account("a", model.CaptchaPlanFree), p.Account("b", model.CaptchaPlanFree)
	if _, err := d.Write.ExecContext(t.Context(), "UPDATE accounts SET cell = 1 WHERE id = ?", to); err != nil {
		t.Fatal(err)
	}

	key := p.Sitekey(from)
	used, token := p.Token(key, siteOrigin), p.Token(key, siteOrigin)
	check(t, "before", p.Siteverify(key, used), valid)
	if _, err := sites.New(d).Sitekeys.TransferSitekey(t.Context(), key.ID, from, to); err != nil {
		t.Fatal(err)
	}

	owner, err := accounts.New(d).UserByEmail(t.Context(), "a@example.com")
	if err == nil {
		err = accounts.New(d).DeleteAccount(t.Context(), owner, model.At(p.Clock.Now()))
	}
	testkit.NoError(t, err)
	if n := usageIn(t, d, 2, from); n != 0 {
		t.Errorf("the deleted account still has %d verifications", n)
	}

	// Another process, which knows only the new account.
	for _, plane := range []*plane{newPlane(t, d), p} {
		plane.Clock = p.Clock
		check(t, "a token used before", plane.Siteverify(key, used), invalid)
	}
	check(t, "a new token", p.Siteverify(key, token), valid)
	check(t, "a used token", p.Siteverify(key, token), invalid)
	testkit.Equal(t, usageIn(t, d, 1, to), 1, "verifications of the new account")

	later := model.At(p.Clock.Now().Add(2 * model.ConsumedRetention))
	if n, err := retention.New(d).DeleteConsumed(t.Context(), later); err != nil || n != 4 {
		t.Errorf("%d claims expired, %v; want 2 challenges and 2 tokens", n, err)
	}
}
