package captcha

import (
	"testing"
	"time"

	"github.com/tallygate/tallygate/dataplane/captcha/pow"
	"github.com/tallygate/tallygate/dataplane/captcha/token"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/tools/testkit"
)

// TestRotatedKeys checks that processes with the old key, both keys and the new key accept each
// other's challenges and tokens while genuine ones can be in use, and that signatures of a leaked
// old key are refused after that.
func TestRotatedKeys(t *testing.T) {
	now := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	before, after := []byte("the old application key"), []byte("the new application key")
	make := func(current []byte, rotation *model.KeyRotation) *keys {
		t.Helper()
		k, err := newKeys(current, rotation)
		testkit.NoError(t, err)
		return k
	}

	rotation := &model.KeyRotation{Previous: before}
	old, both, only := make(before, nil), make(after, rotation), make(after, nil)
	accepts := func(what string, by, from *keys, at time.Time, want bool) {
		t.Helper()

		c := from.issue("sitekey", 1024, at)
		nonce, err := pow.Solve(c)
		testkit.NoError(t, err)

		_, workErr := by.verify("sitekey", c.Challenge, nonce, at)
		_, tokenErr := by.read(from.sign(&token.Token{Issued: at}), at)
		if (workErr == nil) != want || (tokenErr == nil) != want {
			t.Errorf("%s: challenge %v, token %v; want accepted %v", what, workErr, tokenErr, want)
		}
	}

	accepts("before, old by both", both, old, now, true)
	accepts("before, both by old", old, both, now, true)
	accepts("before, new by both", both, only, now, true)
	rotation.Replaced(model.At(now))
	accepts("after, both by new", only, both, now, true)
	accepts("after, both by old", old, both, now, false)
	last := now.Add(pow.Lifetime + token.Lifetime)
	accepts("the last old one in use", both, old, last, true)
	accepts("signed with a leaked key", both, old, now.Add(previousAccepted), false)
}
