package test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
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
func (f *follower) post(path, bearer string, body any) string {
	f.t.Helper()

	text, err := json.Marshal(body)
	testkit.NoError(f.t, err)

	request, err := http.NewRequest(http.MethodPost, "http://"+f.data+path, bytes.NewReader(text))
	testkit.NoError(f.t, err)

	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Origin", "https://shop.example")

	if bearer != "" {
		request.Header.Set("Authorization", "Bearer "+bearer)
	}

	response, err := http.DefaultClient.Do(request)
	testkit.NoError(f.t, err)
	defer response.Body.Close()

	answer, err := io.ReadAll(response.Body)
	testkit.NoError(f.t, err)

	return fmt.Sprintf("%d %s", response.StatusCode, bytes.TrimSpace(answer))
}

// event sends a server event with a secret.
func (f *follower) event(secret, name string) string {
	return f.post("/server.php", secret, map[string]string{"event": name, "ip": "198.51.100.7",
		"user_agent": "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"})
}

// redeem verifies an invalid token with a sitekey's secret.
func (f *follower) redeem(sitekey, secret string) string {
	return f.post("/api/v1/pow/siteverify", "", map[string]string{"sitekey": sitekey, "secret": secret, "token": "x"})
}

// sees makes a change in another process and waits until the follower's response changes. It reads
// the response before the change first, so that the follower has it in memory.
func (f *follower) sees(what string, answer func() string, before, after string, change func()) {
	f.t.Helper()

	if got := answer(); !strings.HasPrefix(got, before) {
		f.t.Fatalf("%s: before the change %s, want %s", what, got, before)
	}

	change()

	for began := time.Now(); ; time.Sleep(5 * time.Millisecond) {
		got := answer()
		if took := time.Since(began); strings.HasPrefix(got, after) {
			f.t.Logf("%s was seen after %v", what, took.Round(time.Millisecond))
			return
		} else if took > seenWithin {
			f.t.Fatalf("%s: still %s after %v, want %s", what, got, took, after)
		}
	}
}

// TestChangesReachAnotherProcess checks that a process notices at once what an owner changes
// through another process, or the operator by a command: replaced secrets, deleted keys, new
// settings.
func TestChangesReachAnotherProcess(t *testing.T) {
	t.Parallel()

	dbtest.EachURL(t, func(t *testing.T, databaseURL string) {
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
		event := func() string { return f.event(serverSecret, "lead") }
		redeem := func() string { return f.redeem(key.Sitekey, keySecret) }

		f.sees("a new setting", event, `400 {"error":"unknown_event"}`, `200 {"status":"recorded"}`,
			mutate(`registerEvent(input: {siteId: "`+site.ID+`", name: "lead"}) { userErrors { code } }`))

		f.sees("a setting of a command", func() string { return f.event(serverSecret, "signup") },
			`400 {"error":"unknown_event"}`, `200 {"status":"recorded"}`, func() {
				t.Helper()
				file := filepath.Join(t.TempDir(), "sites.yaml")

				text := "account: owner@shop.example\nsites:\n- domain: shop.example\n  registeredEvents: [lead, signup]\n"
				testkit.NoError(t, os.WriteFile(file, []byte(text), 0o600))
				if out, err := newCommand(settings, "admin", "apply", file).CombinedOutput(); err != nil {
					t.Fatalf("admin apply: %v\n%s", err, out)
				}
			})

		f.sees("a replaced server secret", event, `200 {"status":"recorded"}`, `401 {"error":"invalid_secret"}`,
			mutate(`rotateServerSecret(input: {siteId: "`+site.ID+`"}) { serverSecret }`))

		pageview := func() string {
			return f.post("/collect.php", "", map[string]any{"k": site.SiteKey, "t": "pageview", "p": "/"})
		}

		siteID, gone := `(input: {siteId: "`+site.ID+`"}) { userErrors { code } }`, `404 {"error":"unknown_site_key"}`
		f.sees("a paused site", pageview, "204", gone, mutate("pauseSite"+siteID))
		f.sees("a resumed site", pageview, gone, "204", mutate("resumeSite"+siteID))
		admin := func(args ...string) func() {
			return func() {
				t.Helper()
				if out, err := newCommand(settings, append([]string{"admin"}, args...)...).CombinedOutput(); err != nil {
					t.Fatalf("admin %v: %v\n%s", args, err, out)
				}
			}
		}

		// The account of the only operator cannot be suspended.
		admin("create-account", "other@example.com", "--name", "Other")()
		admin("set-operator", "other@example.com")()
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
