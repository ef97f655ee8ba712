package graph_test

import (
	"maps"
	"net/http"
	"net/url"
	"testing"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/graph/provider"
	"github.com/tallygate/tallygate/tools/dbtest"
	"github.com/tallygate/tallygate/tools/testkit"
)

// TestProviderMixUp plays the mix-up attack of RFC 9700, section 4.4: a hostile provider sends the
// victim's browser on to an honest provider, with a request that the thief has started, so that the
// honest provider's code comes back in the victim's sign-in at the hostile provider. The code must
// reach neither the hostile provider nor the thief.
func TestProviderMixUp(t *testing.T) {
	dbtest.Parallel(t, func(t *testing.T, d *db.DB) {
		corp, house, hostile, dns := newFakeProvider(t), newFakeProvider(t), newFakeProvider(t), testkit.NewDNS(t)
		a := newApp(t, d, withProviders(corp, dns), func(s *settings) {
			house.clock, hostile.clock = s.auth.Now, s.auth.Now
			s.auth.ProviderName = "House"
			s.auth.Provider = provider.Settings{Issuer: house.issuer(), ClientID: "installation", ClientSecret: "s", Trusted: true}
		})

		// The first user operates the installation.
		a.owner("operator@house.example")
		a.owner("owner@corp.example").provide(corp, dns, nil)
		a.owner("owner@hostile.example").provide(hostile, dns, map[string]any{"domain": "hostile.example"})
		for p, email := range map[*fakeProvider]any{corp: "person@corp.example", house: nil, hostile: "demo@hostile.example"} {
			p.registered = a.client().started(email).Query().Get("redirect_uri")
		}

		for _, test := range []struct {
			name     string
			honest   *fakeProvider
			victim   string
			start    any // the address with which the thief starts; nil: the installation's provider
			operator bool
		}{
			{"a person of another account", corp, "victim@corp.example", "person@corp.example", false},
			{"the operator", house, "operator@house.example", nil, true},
		} {
			honest := test.honest
			honest.email, honest.subject = test.victim, test.victim

			// signIn signs the victim in through the honest provider.
			signIn := func(input map[string]any) {
				t.Helper()
				c := a.client()
				if page, status := c.browse(c.started(test.start).String()); page.Query().Get("provider") != "finish" {
					t.Fatalf("%s: an honest sign-in leads to %v after %d\n%s", test.name, page, status, a.log)
				}
				viewer := "finishProviderSignIn.viewer."
				got := c.finish(input).ok(t, "finishProviderSignIn")
				if got.at(viewer+"email") != test.victim || got.at(viewer+"operator") != test.operator {
					t.Fatalf("%s: an honest sign-in: %s", test.name, got.Body)
				}
			}
			signIn(map[string]any{"password": password})

			// 1. The thief starts a sign-in at the honest provider and keeps its address.
			thief := a.client()
			kept := thief.started(test.start)

			// 2. The hostile provider sends the victim's browser to that address with the victim's state, and its token
			// endpoint records the code. redirect replaces the address to which the honest provider
			// leads back.
			stolen, redirect := "", ""
			hostile.wrap = func(w http.ResponseWriter, r *http.Request) bool {
				switch r.URL.Path {
				case "/authorize":
					query := maps.Clone(kept.Query())
					query.Set("state", r.URL.Query().Get("state"))
					if redirect != "" {
						query.Set("redirect_uri", redirect)
					}
					http.Redirect(w, r, honest.issuer()+"/authorize?"+query.Encode(), http.StatusFound)
				case "/token":
					stolen = r.FormValue("code")
					http.Error(w, `{"error": "invalid_grant"}`, http.StatusBadRequest)
				default:
					return false
				}
				return true
			}

			// 3. The honest provider's code comes back in the victim's browser.
			calls, victim := honest.calls, a.client()
			page, status := victim.browse(victim.started("demo@hostile.example").String())
			if page.Query().Get("problem") != "expired" || page.Query().Has("provider") {
				t.Errorf("%s: the victim's browser is led to %v after %d", test.name, page, status)
			}
			if stolen != "" || honest.calls != calls {
				t.Errorf("%s: the hostile provider gets the code %q, and the honest one %d calls", test.name, stolen, honest.calls-calls)
			}

			// 4. The thief finishes the own sign-in with the code.
			thief.answer(kept.Query().Get("redirect_uri"), url.Values{"code": {stolen}, "state": {kept.Query().Get("state")}})
			thief.finish(map[string]any{})
			thief.query(`{ viewer { email operator } }`).named("%s: the thief is signed in as", test.name).has(t, "viewer", nil)

			// The honest provider knows no other redirect address of this installation.
			for _, redirect = range []string{hostile.registered, house.registered, corp.registered} {
				if redirect == honest.registered {
					continue
				}
				victim := a.client()
				page, status := victim.browse(victim.started("demo@hostile.example").String())
				if status != http.StatusBadRequest || stolen != "" {
					t.Errorf("%s: with the address %s the browser is led to %v after %d", test.name, redirect, page, status)
				}
			}
			hostile.wrap = nil

			// An attempt that another provider's answer has met goes on, as after any forged
			// answer.
			signIn(map[string]any{})
		}
	})
}
