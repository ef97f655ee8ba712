package test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/tallygate/tallygate/tools/dbtest"
	"github.com/tallygate/tallygate/tools/testkit"
)

// seenWithin is the time within which another process must notice a change. It is well below the
// interval at which it reloads everything, 10 s, and leaves time for a busy machine. The measured
// time is logged.
const seenWithin = 5 * time.Second

// follower is a data process that must notice other processes' changes.
type follower struct {
	t    *testing.T
	data string // address
}

// post sends JSON and returns the status and the response.
func (f *follower) post(path string, body any) string {
	f.t.Helper()
	text, err := json.Marshal(body)
	testkit.NoError(f.t, err)
	response, answer := exchange(f.t, http.DefaultClient, http.MethodPost, "http://"+f.data+path, string(text),
		map[string]string{"Content-Type": "application/json", "Origin": "https://shop.example"})
	return fmt.Sprintf("%d %s", response.StatusCode, strings.TrimSpace(answer))
}

// event sends a server event with a secret.
func (f *follower) event(secret, name string) string {
	f.t.Helper()
	status, answer := callServer(f.t, f.data, secret, name, "198.51.100.7")
	return fmt.Sprintf("%d %s", status, answer)
}

// redeem verifies an invalid token with a sitekey's secret.
func (f *follower) redeem(sitekey, secret string) string {
	return f.post("/api/v1/pow/siteverify", map[string]string{"sitekey": sitekey, "secret": secret, "token": "x"})
}

// sees makes a change in another process and waits until the follower's response changes. It reads
// the response before the change first, so that the follower has it in memory.
func (f *follower) sees(what string, answer func() string, before, after string, change func()) {
	f.t.Helper()

	if got := answer(); !strings.HasPrefix(got, before) {
		f.t.Fatalf("%s: before the change %s, want %s", what, got, before)
	}

	change()

	began := time.Now()
	testkit.AwaitState(f.t, what, func() (string, bool) {
		got := answer()
		return got, strings.HasPrefix(got, after)
	})
	if took := time.Since(began); took > seenWithin {
		f.t.Fatalf("%s was seen after %v, want %v at most", what, took, seenWithin)
	}
}

// TestChangesReachAnotherProcess checks that a process notices at once what an owner changes
// through another process, or the operator by a command: replaced secrets, deleted keys, new
// settings.
func TestChangesReachAnotherProcess(t *testing.T) {
	dbtest.ParallelURL(t, func(t *testing.T, databaseURL string) {
		settings := settingsFor(t, databaseURL)
		p := start(t, settings, []string{"control", "data"})
		settings["TALLYGATE_ROLES"] = "data"
		f := &follower{t: t, data: start(t, settings, []string{"data"}).addr["data"]}

		owner := newOwner(t, p)
		site := owner.signUp("shop.example")
		var made struct {
			RotateServerSecret struct{ ServerSecret string }
			CreateSitekey      struct {
				Sitekey struct{ ID, Sitekey string }
				Secret  string
			}
			RotateSitekeySecret struct{ Secret string }
		}

		mutate := func(mutation string) func() {
			return func() {
				t.Helper()
				owner.do("mutation { "+mutation+" }", &made)
			}
		}

		mutate(`rotateServerSecret(input: {siteId: "` + site.ID + `"}) { serverSecret }`)()
		mutate(`createSitekey(input: {name: "form", domains: ["shop.example"]}) { sitekey { id sitekey } secret }`)()
		serverSecret, key, keySecret := made.RotateServerSecret.ServerSecret, made.CreateSitekey.Sitekey,
			made.CreateSitekey.Secret
		run := adminOf(t, settings)
		event := func() string { return f.event(serverSecret, "lead") }
		redeem := func() string { return f.redeem(key.Sitekey, keySecret) }

		f.sees("a new setting", event, `400 {"error":"unknown_event"}`, `200 {"status":"recorded"}`,
			mutate(`registerEvent(input: {siteId: "`+site.ID+`", name: "lead"}) { userErrors { code } }`))

		f.sees("a setting of a command", func() string { return f.event(serverSecret, "signup") },
			`400 {"error":"unknown_event"}`, `200 {"status":"recorded"}`, func() {
				t.Helper()
				text := "account: owner@shop.example\nsites:\n- domain: shop.example\n  registeredEvents: [lead, signup]\n"
				run("", "apply", writeFile(t, t.TempDir(), "sites.yaml", text))
			})

		f.sees("a replaced server secret", event, `200 {"status":"recorded"}`, `401 {"error":"invalid_secret"}`,
			mutate(`rotateServerSecret(input: {siteId: "`+site.ID+`"}) { serverSecret }`))

		pageview := func() string {
			return f.post("/collect.php", map[string]any{"k": site.SiteKey, "t": "pageview", "p": "/"})
		}

		siteID, gone := `(input: {siteId: "`+site.ID+`"}) { userErrors { code } }`, `404 {"error":"unknown_site_key"}`
		f.sees("a paused site", pageview, "204", gone, mutate("pauseSite"+siteID))
		f.sees("a resumed site", pageview, gone, "204", mutate("resumeSite"+siteID))
		admin := func(args ...string) func() { return func() { run("", args...) } }

		// The account of the only operator cannot be suspended.
		run("", "create-account", "other@example.com", "--name", "Other")
		run("", "set-operator", "other@example.com")
		f.sees("a suspended account", pageview, "204", gone, admin("suspend", "owner@shop.example", "--reason", "abuse"))
		f.sees("a resumed account", pageview, gone, "204", admin("resume", "owner@shop.example"))

		f.sees("a deleted site", pageview, "204", gone, mutate("deleteSite"+siteID))
		f.sees("a restored site", pageview, gone, "204", mutate("restoreSite"+siteID))

		f.sees("a replaced captcha secret", redeem, `200 {"valid":false`, `401 `,
			mutate(`rotateSitekeySecret(input: {sitekeyId: "`+key.ID+`"}) { secret }`))

		f.sees("a deleted sitekey", redeem, `401 `, `404 `,
			mutate(`deleteSitekey(input: {sitekeyId: "`+key.ID+`"}) { userErrors { code } }`))
	})
}
