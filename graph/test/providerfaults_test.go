package graph_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/tools/dbtest"
	"github.com/tallygate/tallygate/tools/testkit"
)

// TestSignOutWithoutTheProvider checks that a provider that does not answer keeps no one signed in,
// and that other mutations of the account do not wait for the provider.
func TestSignOutWithoutTheProvider(t *testing.T) {
	dbtest.Parallel(t, func(t *testing.T, d *db.DB) {
		p, dns := newFakeProvider(t), testkit.NewDNS(t)
		a := newApp(t, d, withProviders(p, dns))
		owner := a.owner("owner@corp.example")
		owner.provide(p, dns, nil)
		anna := a.client()
		anna.callback(p, "anna@corp.example", nil)
		anna.finish(map[string]any{}).ok(t, "finishProviderSignIn")

		// The metadata is too old to be used, and the provider does not answer.
		a.clock.Add(25 * time.Hour)
		asked, away := make(chan struct{}, 1), make(chan struct{})
		p.wrap = func(w http.ResponseWriter, _ *http.Request) bool {
			asked <- struct{}{}
			<-away
			http.Error(w, "away", http.StatusServiceUnavailable)
			return true
		}
		out := make(chan *answer, 1)
		go func() { out <- anna.query(`mutation { signOut { providerUrl userErrors { code } } }`) }()

		<-asked
		owner.done("updateAccount", "name", "renamed")
		if len(out) > 0 {
			t.Error("the sign-out has not waited for the provider")
		}
		close(away)
		(<-out).ok(t, "signOut").named("a provider that is away has a page").has(t, "signOut.providerUrl", nil)
		anna.query(`{ viewer { email } }`).named("signed in as").has(t, "viewer", nil)
	})
}

// TestPageAfterProvider checks that the longest page and the longest person fit the cookie
// together, and that a sign-in leads to pages of the console only.
func TestPageAfterProvider(t *testing.T) {
	t.Parallel()
	long := "/sites/new?text=" + strings.Repeat("&", 300-len("/sites/new?text="))
	tests := []struct {
		name, next, subject, want string
	}{
		{"a long page", long, "person", long},
		{"a longer page", long + "&", "person", ""},
		{"a long page and a person of control characters", long, strings.Repeat("\x01", 255), long},
		{"another site", "https://other.example/", "person", ""},
		{"another site without a scheme", "//other.example/", "person", ""},
		{"another site with a backslash", `/\other.example/`, "person", ""},
		{"a script", "javascript:alert(1)", "person", ""},
	}
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		p, dns := newFakeProvider(t), testkit.NewDNS(t)
		a := newApp(t, d, withProviders(p, dns))
		a.owner("owner@corp.example").provide(p, dns, nil)
		for i, test := range tests {
			c := a.client()
			p.subject, p.email = test.subject, "anna"+string(rune('a'+i))+"@corp.example"
			started := c.done("startProviderSignIn", "email", p.email, "next", test.next)
			request := queryOf(t, started.at("startProviderSignIn.url").(string))
			p.pending["code"] = request
			got := c.answer(request.Get("redirect_uri"), url.Values{"code": {"code"}, "state": {request.Get("state")}})
			if got.Get("provider") != "finish" || got.Get("next") != test.want {
				t.Errorf("%s: the page gets %v, want the next page %q", test.name, got, test.want)
			}
			c.finish(map[string]any{}).ok(t, "finishProviderSignIn")
		}
	})
}

func queryOf(t *testing.T, address string) url.Values {
	t.Helper()
	u := value(url.Parse(address))(t)
	return u.Query()
}
