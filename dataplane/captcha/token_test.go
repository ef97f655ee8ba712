package captcha_test

import (
	"testing"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/dbtest"
	"github.com/tallygate/tallygate/db/model"
)

func TestWholeWay(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		p := newPlane(t, d)
		key := p.pair(p.account("a", model.CaptchaPlanFree), "example.com")
		origin := "https://www.example.com"
		if got := p.siteverify(key, p.token(key, origin)); got != valid {
			t.Errorf("siteverify: %s", got)
		}
		if got, want := p.compat(key, p.token(key, origin)), `{"success":true,"challenge_ts":"2026-11-20T12:00:00.000Z","hostname":"www.example.com"}`; got != want {
			t.Errorf("compat: %s, want %s", got, want)
		}
		if got := p.siteverify(testPair, p.token(testPair, "")); got != valid {
			t.Errorf("test sitekey: %s", got)
		}
	})
}
