package test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/tallygate/tallygate/db/outbox"
	"github.com/tallygate/tallygate/tools/browsertest"
	"github.com/tallygate/tallygate/tools/dbtest"
	"github.com/tallygate/tallygate/tools/testkit"
)

// TestMailedLinksChromium follows the links of mails in a real browser: a person accepts an
// invitation, resets the password, and another person signs up.
func TestMailedLinksChromium(t *testing.T) {
	testkit.SkipLong(t, "Chromium")
	dbtest.EachURL(t, func(t *testing.T, databaseURL string) {
		settings := settingsFor(t, databaseURL)

		// No worker sends the mails, so the test can read their links.
		settings["TALLYGATE_ROLES"] = "control,data"
		settings["TALLYGATE_SIGNUPS"] = "open"
		p := start(t, settings, []string{"control", "data"})

		d := dbtest.Open(t, databaseOf(settings))
		link := func() string {
			t.Helper()

			rows, err := dbtest.Rows[struct{ Data string }](d, "SELECT data FROM mails ORDER BY id DESC LIMIT 1")
			if err != nil || len(rows) != 1 {
				t.Fatalf("mails: %v, %v", rows, err)
			}

			var mail outbox.LinkMail
			testkit.NoError(t, json.Unmarshal([]byte(rows[0].Data), &mail))

			return mail.URL
		}

		owner := newOwner(t, p)
		owner.do(`mutation { signUp(input: {email: "owner@example.com", password: "correct horse", accountName: "Example"}) { viewer { id } } }`, &struct{}{})
		owner.do(`mutation { inviteMember(input: {email: "guest@example.com", role: VIEWER}) { userErrors { code } } }`,
			&struct{}{})

		browser := browsertest.New(t)
		page := browser.Open(link())
		choose := func(password, want string) {
			t.Helper()
			page.WaitFor(`document.querySelector('input[name=password]')`)
			page.Eval(`(() => { document.querySelector('input[name=password]').value = `+quote(t,
				password)+`; document.querySelector('form').requestSubmit() })()`, nil)
			page.WaitFor(`document.querySelector('main').innerText.includes(` + quote(t, want) + `)`)
		}

		choose("the guest's password", "No sites yet")
		page.WaitFor(`location.pathname === '/' && location.hash === ''`)

		guest := newOwner(t, p)
		guest.SignIn("guest@example.com", "the guest's password")
		guest.do(`mutation { requestPasswordReset(input: {email: "guest@example.com"}) { userErrors { code } } }`,
			&struct{}{})
		address := link()
		page = browser.Open(address)
		choose("another password", "Your password is changed.")
		page = browser.Open(address)
		choose("yet another password", "This link is wrong, was used already, or is too old.")
		newOwner(t, p).SignIn("guest@example.com", "another password")

		// A second account is created when its owner follows the mailed link and enters the
		// password of the sign-up.
		newOwner(t, p).do(`mutation { signUp(input: {email: "second@example.com", password: "the second password", accountName: "Second"}) { verificationSent } }`, &struct{}{})
		page = browser.Open(link())
		page.WaitFor(`document.title.startsWith('Confirm your address')`)
		choose("a password of another", "password is wrong.")
		choose("the second password", "No sites yet")
		page.WaitFor(`location.pathname === '/' && location.hash === ''`)
		newOwner(t, p).SignIn("second@example.com", "the second password")

		for _, message := range page.Console() {
			// Ignore the browser's advice about forms.
			if message.Level == "verbose" {
				continue
			}

			t.Errorf("the page's console shows %s: %s", message.Level, message.Text)
		}

		if response, err := http.Get("http://" + p.addr["control"] + "/reset-password"); err != nil ||
			response.Header.Get("X-Frame-Options") != "DENY" {
			t.Errorf("the page: %v, %v", response, err)
		}
	})
}

func quote(t *testing.T, s string) string {
	t.Helper()
	text, err := json.Marshal(s)
	testkit.NoError(t, err)
	return string(text)
}

// TestGraphiQLAndIntrospectionAreSettings turns both off.
func TestGraphiQLAndIntrospectionAreSettings(t *testing.T) {
	t.Parallel()

	for _, on := range []string{"true", "false"} {
		p := start(t, map[string]string{"TALLYGATE_DATA_DIR": t.TempDir(), "TALLYGATE_GRAPHIQL": on,
			"TALLYGATE_INTROSPECTION": on}, []string{"control", "data"})
		address := "http://" + p.addr["control"] + "/graphql"

		page, _ := exchange(t, http.DefaultClient, http.MethodGet, address, "", map[string]string{"Accept": "text/html"})
		testkit.Equal(t, (page.StatusCode == 200), (on == "true"), "%s: status %d", on, page.StatusCode)

		body := post(t, p, "{ __schema { queryType { name } } }")
		testkit.Equal(t, (body == `{"data":{"__schema":{"queryType":{"name":"Query"}}}}`), (on == "true"), "%s: %s", on, body)

		status, schema := get(t, address+"/schema.graphqls")
		if (status == 200 && strings.Contains(schema, "type Query {")) != (on == "true") {
			t.Errorf("%s: the schema has status %d and %d bytes", on, status, len(schema))
		}
	}
}
