package captcha_test

import (
	"net/http"
	"testing"

	"github.com/tallygate/tallygate/dataplane/captcha"
	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/dbtest"
	"github.com/tallygate/tallygate/db/model"
)

// TestNoTestSitekey: switched off, the test sitekey is unknown and its secret wrong, at all
// endpoints; others work on.
func TestNoTestSitekey(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		on := newPlane(t, d)
		off := newPlaneWith(t, d, on.clock, captcha.StoreTimeout, func(o *captcha.Options) { o.NoTestSitekey = true })
		owned := on.pair(on.account("owner", model.CaptchaPlanFree))
		work, token := on.solved(testPair, siteOrigin), on.token(testPair, siteOrigin)

		for _, c := range []struct {
			name   string
			call   call
			status int
		}{
			{"config", call{path: configPath, body: m{"sitekey": model.TestSitekey}, origin: siteOrigin}, http.StatusNotFound},
			{"verify", call{path: verifyPath, body: work, origin: siteOrigin}, http.StatusNotFound},
			{"siteverify", call{path: siteverifyPath, body: m{"sitekey": model.TestSitekey, "secret": model.TestSitekeySecret, "token": token}}, http.StatusNotFound},
			{"siteverify of another sitekey", call{path: siteverifyPath, body: m{"sitekey": owned.Sitekey.Sitekey, "secret": model.TestSitekeySecret, "token": token}},
				http.StatusUnauthorized},
		} {
			off.refusal(t, c.name, c.call, c.status)
		}

		if got, want := off.compat(testPair, token), refused("invalid-input-secret"); got != want {
			t.Errorf("compat: %s, want %s", got, want)
		}
		if got := off.siteverify(owned, off.token(owned, siteOrigin)); got != valid {
			t.Errorf("another sitekey: %s", got)
		}
		if got := on.siteverify(testPair, token); got != valid {
			t.Errorf("the test sitekey where it is on: %s", got)
		}
	})
}
