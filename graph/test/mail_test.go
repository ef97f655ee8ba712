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
)

// mailLanguages returns recipient, kind and language of all mails with a recipient.
func (a *app) mailLanguages() (list []string) {
	a.t.Helper()
	rows, err := dbtest.Rows[model.Mail](a.db, "SELECT * FROM mails WHERE recipient <> '' ORDER BY id")
	if err != nil {
		a.t.Fatal(err)
	}
	for _, m := range rows {
		list = append(list, m.Recipient+" "+m.Kind+" "+string(m.Language))
	}
	return list
}

// TestMailLanguage: a user's language is that of the request that created the user until they
// change it. Mails to an address without a user have the language of the request.
func TestMailLanguage(t *testing.T) {
	t.Parallel()
	const read = `{ viewer { language } }`
	const update = `mutation($language: Language) { updateUser(input: {language: $language}) { user { language } userErrors { code } } }`

	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		a := newApp(t, d)
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
			if got := c.query(read); got.at("viewer.language") != want {
				t.Errorf("Accept-Language %q: %s, want %s", header, got.Body, want)
			}
			if err := errors.Join(dbtest.Exec(d, "DELETE FROM accounts"), dbtest.Exec(d, "DELETE FROM users")); err != nil {
				t.Fatal(err)
			}
			if err := dbtest.Exec(d, "UPDATE mails SET recipient = ''"); err != nil {
				t.Fatal(err)
			}
			a.clock.Add(model.SignUpLifetime)
		}

		owner := a.owner("owner@example.com")
		owner.language = "de"
		const invite = `mutation($email: String!) { inviteMember(input: {email: $email, role: VIEWER}) { userErrors { code } } }`
		owner.query(invite, "email", "guest@example.com").ok(t, "inviteMember")
		if got := a.mailLanguages(); !slices.Contains(got, "guest@example.com invitation de") {
			t.Errorf("mails %q", got)
		}

		guest := a.client()
		guest.language = "de"
		guest.query(acceptMutation, "token", a.mailedSecret("guest@example.com"), "password", password).ok(t, "acceptInvitation")
		if got := guest.query(read); got.at("viewer.language") != "DE" {
			t.Errorf("the guest: %s", got.Body)
		}

		// The owner's language is that of the sign-up, whatever the later requests ask for.
		a.client().query(`mutation { requestPasswordReset(input: {email: "owner@example.com"}) { userErrors { code } } }`).ok(t, "requestPasswordReset")
		if got := owner.query(update, "language", nil).ok(t, "updateUser"); got.at("updateUser.user.language") != "EN" {
			t.Errorf("no change: %s", got.Body)
		}
		if got := owner.query(update, "language", "DE").ok(t, "updateUser"); got.at("updateUser.user.language") != "DE" {
			t.Errorf("a change: %s", got.Body)
		}
		if got := owner.query(update, "language", "FR"); got.codes() == "" {
			t.Errorf("an unknown language: %s", got.Body)
		}

		owner.language = "en"
		if got := owner.query(read); got.at("viewer.language") != "DE" {
			t.Errorf("the changed language: %s", got.Body)
		}
		a.client().query(`mutation { requestPasswordReset(input: {email: "owner@example.com"}) { userErrors { code } } }`).ok(t, "requestPasswordReset")

		visitor := a.client()
		visitor.language = "de"
		visitor.signUp("new@example.com").ok(t, "signUp")
		visitor.language = "en"
		visitor.signUp("owner@example.com").ok(t, "signUp")

		want := []string{
			"owner@example.com password_reset de", "new@example.com sign_up de", "owner@example.com sign_up_known de",
		}
		if got := a.mailLanguages(); !slices.Equal(got, want) {
			t.Errorf("mails %q, want %q", got, want)
		}
	})
}

// TestStopChannel checks that the secret of an alert mail stops its channel over HTTP without a
// session, as often as it is sent, that wrong secrets stop nothing, and that the channel shows why
// it is stopped.
func TestStopChannel(t *testing.T) {
	t.Parallel()
	const create = `mutation($name: String!, $address: String!) { createAlertChannel(input: {kind: EMAIL, name: $name, address: $address,
		events: [QUOTA]}) { alertChannel { id } userErrors { code } } }`
	const read = `query($id: ID!) { node(id: $id) { ... on AlertChannel { state stopReason } } }`

	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		a := newApp(t, d)
		owner := a.owner("owner@example.com")
		add := func(name string) (string, int64) {
			t.Helper()
			id := owner.query(create, "name", name, "address", name+"@example.org").ok(t, "createAlertChannel").
				at("createAlertChannel.alertChannel.id").(string)
			number, _ := a.ids.Parse(nodeid.AlertChannel, id)
			return id, number
		}
		stopped, number := add("stopped")
		kept, keptNumber := add("kept")
		confirmedAt := model.At(a.clock.Now())
		if err := dbtest.Exec(d, "UPDATE alert_channels SET confirmed_at = ?", confirmedAt); err != nil {
			t.Fatal(err)
		}
		want := func(id, want string) {
			t.Helper()
			if got := owner.query(read, "id", id); got.Body != `{"data":{"node":`+want+`}}` {
				t.Errorf("the channel is %s, want %s", got.Body, want)
			}
		}

		handler, err := graph.StopMail(d, a.clock.Now, slog.New(slog.NewTextHandler(t.Output(), nil)))
		if err != nil {
			t.Fatal(err)
		}
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
			if got := postStop(t, server.URL, secret, "List-Unsubscribe=One-Click"); got != http.StatusNoContent {
				t.Errorf("answered with %d", got)
			}
		}
		want(stopped, `{"state":"STOPPED","stopReason":"recipient"}`)
		want(kept, active)
	})
}

// postStop sends the request with which a mail program stops mails, and returns the status.
func postStop(t *testing.T, server, secret, body string) int {
	t.Helper()
	response, err := http.Post(server+model.StopMailPath+"?token="+url.QueryEscape(secret),
		"application/x-www-form-urlencoded", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
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

				if got := shown(); got != want[0] {
					t.Errorf("without users: %s, want %s", got, want[0])
				}
				dbtest.NewUser(t, d, "first@example.com")
				if got := shown(); got != want[1] {
					t.Errorf("with a user: %s, want %s", got, want[1])
				}
			})
		})
	}
}
