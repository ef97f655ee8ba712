package graph_test

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/nodeid"
	"github.com/tallygate/tallygate/graph"
	"github.com/tallygate/tallygate/tools/dbtest"
	"github.com/tallygate/tallygate/tools/testkit"
	"github.com/tallygate/tallygate/tools/world"
)

// mailLanguages returns recipient, kind and language of all mails with a recipient.
func (a *app) mailLanguages() (list []string) {
	a.t.Helper()
	rows := value(dbtest.Rows[model.Mail](a.db, "SELECT * FROM mails WHERE recipient <> '' ORDER BY id"))(a.t)
	for _, m := range rows {
		list = append(list, m.Recipient+" "+m.Kind+" "+string(m.Language))
	}
	return list
}

// TestMailLanguage: a user's language is that of the request that created the user until they
// change it. Mails to an address without a user have the language of the request.
func TestMailLanguage(t *testing.T) {
	const read = `{ viewer { language } }`

	eachApp(t, func(t *testing.T, a *app) {
		for header, want := range map[string]string{
			"": "EN", "de": "DE", "de-AT,en;q=0.9": "DE", "fr, de;q=0.8, en;q=0.7": "DE", "en-GB,de": "EN", "fr": "EN", "*": "EN",
			"de;q=0": "EN", "\"": "EN", strings.Repeat("de,", 300): "EN",
		} {
			c := a.client()
			c.language = header
			name := fmt.Sprintf("x%d@example.com", len(a.mailLanguages()))
			if got := c.signUp(name).ok(t, "signUp"); got.at("signUp.verificationSent") == true {
				c.confirm(a.mailedSecret(name), password).ok(t, "confirmSignUp")
			}
			c.query(read).named("Accept-Language %q", header).has(t, "viewer.language", want)
			must(t, errors.Join(dbtest.Exec(a.db, "DELETE FROM accounts"), dbtest.Exec(a.db, "DELETE FROM users")))
			must(t, dbtest.Exec(a.db, "UPDATE mails SET recipient = ''"))
			a.clock.Add(model.SignUpLifetime)
		}

		owner := a.owner("owner@example.com")
		owner.language = "de"
		owner.done("inviteMember", "email", "guest@example.com", "role", "VIEWER")
		if got := a.mailLanguages(); !slices.Contains(got, "guest@example.com invitation de") {
			t.Errorf("mails %q", got)
		}

		guest := a.client()
		guest.language = "de"
		guest.done("acceptInvitation", "token", a.mailedSecret("guest@example.com"), "password", password)
		guest.query(read).named("the guest").has(t, "viewer.language", "DE")

		// The owner's language is that of the sign-up, whatever the later requests ask for.
		a.client().done("requestPasswordReset", "email", "owner@example.com")
		owner.done("updateUser", "language", nil).named("no change").has(t, "updateUser.user.language", "EN")
		owner.done("updateUser", "language", "DE").named("a change").has(t, "updateUser.user.language", "DE")
		if got := owner.do("updateUser", "language", "FR"); got.codes() == "" {
			t.Errorf("an unknown language: %s", got.Body)
		}

		owner.language = "en"
		owner.query(read).named("the changed language").has(t, "viewer.language", "DE")
		a.client().done("requestPasswordReset", "email", "owner@example.com")

		visitor := a.client()
		visitor.language = "de"
		visitor.signUp("new@example.com").ok(t, "signUp")
		visitor.language = "en"
		visitor.signUp("owner@example.com").ok(t, "signUp")

		want := []string{
			"owner@example.com password_reset de", "new@example.com sign_up de", "owner@example.com sign_up_known de",
		}
		testkit.EqualSlices(t, a.mailLanguages(), want, "mails")
	})
}

// TestStopChannel checks that the secret of an alert mail stops its channel over HTTP without a
// session, as often as it is sent, that wrong secrets stop nothing, and that the channel shows why
// it is stopped.
func TestStopChannel(t *testing.T) {
	const read = `query($id: ID!) { node(id: $id) { ... on AlertChannel { state stopReason } } }`

	eachOwner(t, func(t *testing.T, a *app, owner *client) {
		add := func(name string) (string, int64) {
			t.Helper()
			id := owner.done("createAlertChannel", "kind", "EMAIL", "name", name, "address", name+"@example.org", "events", []string{"QUOTA"}).
				at("createAlertChannel.alertChannel.id").(string)
			number, _ := a.ids.Parse(nodeid.AlertChannel, id)
			return id, number
		}
		stopped, number := add("stopped")
		kept, keptNumber := add("kept")
		confirmedAt := model.At(a.clock.Now())
		must(t, dbtest.Exec(a.db, "UPDATE alert_channels SET confirmed_at = ?", confirmedAt))
		want := func(id, want string) {
			t.Helper()
			if got := owner.query(read, "id", id); got.Body != `{"data":{"node":`+want+`}}` {
				t.Errorf("the channel is %s, want %s", got.Body, want)
			}
		}

		handler := value(graph.StopMail(a.db, a.clock.Now, slog.New(slog.NewTextHandler(t.Output(), nil))))(t)
		server := httptest.NewServer(handler)
		defer server.Close()
		secret := a.ids.OfChannelStop(number, confirmedAt)
		for _, test := range []struct {
			secret, body string
			status       int
		}{
			{secret, "", http.StatusBadRequest},
			{secret + "x", "List-Unsubscribe=One-Click", http.StatusBadRequest},
			{kept, "List-Unsubscribe=One-Click", http.StatusBadRequest},
			{a.ids.OfChannelStop(keptNumber, confirmedAt-1), "List-Unsubscribe=One-Click", http.StatusNoContent}, // of an earlier confirmation
			{a.ids.OfChannelStop(keptNumber+100, confirmedAt), "List-Unsubscribe=One-Click", http.StatusNoContent},
		} {
			if got := postStop(t, server.URL, test.secret, test.body); got != test.status {
				t.Errorf("%q with the body %q is answered with %d, want %d", test.secret, test.body, got, test.status)
			}
		}
		active := `{"state":"ACTIVE","stopReason":null}`
		want(stopped, active)
		want(kept, active)

		for range 2 {
			equal(t, postStop(t, server.URL, secret, "List-Unsubscribe=One-Click"), http.StatusNoContent, "answered with")
		}
		want(stopped, `{"state":"STOPPED","stopReason":"recipient"}`)
		want(kept, active)
	})
}

// postStop sends the request with which a mail program stops mails, and returns the status.
func postStop(t *testing.T, server, secret, body string) int {
	t.Helper()
	response := value(http.Post(server+model.StopMailPath+"?token="+url.QueryEscape(secret),
		"application/x-www-form-urlencoded", strings.NewReader(body)))(t)
	defer response.Body.Close()
	_, _ = io.Copy(io.Discard, response.Body)
	return response.StatusCode
}

// TestFirstAccount: callers learn whether they would create the first account, and nothing from an
// installation that takes none.
func TestFirstAccount(t *testing.T) {
	t.Parallel()
	const read = `{ installation { signUps firstAccount } }`

	for policy, want := range map[model.SignupPolicy][2]string{
		model.SignupsOpen:      {"true true", "true false"},
		model.SignupsFirstOnly: {"true true", "false false"},
		model.SignupsClosed:    {"false false", "false false"},
	} {
		t.Run(string(policy), func(t *testing.T) {
			dbtest.Each(t, func(t *testing.T, d *db.DB) {
				a := newApp(t, d, func(s *settings) { s.auth.Signups = policy })
				shown := func() string {
					got := a.client().query(read)
					return fmt.Sprint(got.at("installation.signUps"), " ", got.at("installation.firstAccount"))
				}

				equal(t, shown(), want[0], "without users")
				world.New(t, d).User("first@example.com")
				equal(t, shown(), want[1], "with a user")
			})
		})
	}
}
