package test

import (
	"fmt"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/tools/dbtest"
	"github.com/tallygate/tallygate/tools/testkit"
)

// TestConfigureSite runs docs/owner/configure-site.sh: with only an API token it creates a site to which
// browsers and servers can send hits. Then it replaces and revokes the server secret, and checks
// that no data process accepts the old ones.
func TestConfigureSite(t *testing.T) {
	t.Parallel()

	t.Run("sqlite", func(t *testing.T) {
		p := start(t, map[string]string{"TALLYGATE_DATA_DIR": t.TempDir()}, []string{"control", "data"})
		configureSite(t, p, p.addr["data"])
	})

	t.Run("postgres with processes apart", func(t *testing.T) {
		settings := map[string]string{
			"TALLYGATE_DATA_DIR": t.TempDir(), "TALLYGATE_DATABASE_URL": dbtest.PostgresURL(t),
			"TALLYGATE_SECRET": strings.Repeat("key!", 8),
		}

		as := func(role string) *process {
			settings["TALLYGATE_ROLES"] = role
			return start(t, settings, []string{role})
		}

		configureSite(t, as("control"), as("data").addr["data"], as("data").addr["data"])
	})
}

func configureSite(t *testing.T, control *process, data ...string) {
	owner, token := tokenOf(t, control, "WRITE, EXPORT")
	script := exec.Command("sh", "../../../docs/owner/configure-site.sh", "example.com")
	script.Env = append(newCommand(nil).Env, "TALLYGATE_URL=http://"+control.addr["control"],
		"TALLYGATE_API_TOKEN="+token,
		"EXTRA_DOMAIN=shop.example", "EVENT=lead", "WEBHOOK_URL=https://example.com/hook?a=b&c=d",
		"EXCLUDE=192.0.2.0/24",
		"WEBHOOK_SECRET=whisper-whisper-whisper", "DAILY_URL=https://example.com/daily", "SITEKEY_NAME=Contact form")

	var secrets []string

	// Running it again must succeed.
	for _, want := range []string{"createSite: done", "createSite: the site is there already"} {
		run := *script
		out, err := run.CombinedOutput()
		if err != nil || !strings.Contains(string(out), want) {
			t.Fatalf("the script: %v\n%s", err, out)
		}

		tag := regexp.MustCompile(`Script tag: +<script defer src="http://[^"]+/svc\.js" data-site="[0-9a-f]{32}"></script>\n`)
		secret := regexp.MustCompile(`svcs_\w+`).FindString(string(out))
		if !tag.Match(out) || !model.IsSecret("svcs_", secret) {
			t.Fatalf("the script printed\n%s", out)
		}

		key := regexp.MustCompile(`Sitekey: +(\S+)\nIts secret: +(\S+) `).FindStringSubmatch(string(out))
		if len(key) != 3 || !model.IsSitekey(key[1]) || !model.IsSecret(model.CaptchaSecretPrefix, key[2]) {
			t.Fatalf("the script printed\n%s", out)
		}

		secrets = append(secrets, secret)
	}

	var read struct {
		Sites struct {
			Edges []struct{ Node map[string]any }
		}
	}

	owner.do(`{ sites { edges { node { id domain measureSiteSearch measureEcommerce extraDomains registeredEvents keyEvents excludedAddresses conversionWebhookUrl conversionWebhookSigned dailyExportUrl } } } }`, &read)
	want := "[{map[conversionWebhookSigned:true conversionWebhookUrl:https://example.com/hook?a=b&c=d dailyExportUrl:https://example.com/daily domain:example.com excludedAddresses:[192.0.2.0/24] extraDomains:[shop.example] " +
		"keyEvents:[lead purchase] measureEcommerce:true measureSiteSearch:true registeredEvents:[lead]]}]"

	testkit.Require(t, len(read.Sites.Edges), 1, "the sites are %+v", read.Sites)

	site, _ := read.Sites.Edges[0].Node["id"].(string)
	delete(read.Sites.Edges[0].Node, "id")

	testkit.Equal(t, fmt.Sprint(read.Sites.Edges), want, "the site")

	var keys struct {
		Sitekeys struct{ Edges []struct{ Node any } }
	}

	owner.do(`{ sitekeys { edges { node { name domains } } } }`, &keys)

	if got := fmt.Sprint(keys.Sitekeys.Edges); got != "[{map[domains:[example.com] name:Contact form]} {map[domains:[example.com] name:Contact form]}]" {
		t.Errorf("the sitekeys are %s", got)
	}

	wrong := *script
	wrong.Args = append(wrong.Args[:2:2], "localhost")
	if out, err := wrong.CombinedOutput(); err == nil || !strings.Contains(string(out), "INVALID_DOMAIN") {
		t.Errorf("of a domain that is none, the script: %v\n%s", err, out)
	}

	for _, addr := range data {
		await(t, addr, secrets[1], `200 {"status":"recorded"}`)
		await(t, addr, secrets[0], `401 {"error":"invalid_secret"}`)
	}

	rotated := owner.RotateServerSecret(site)
	since := time.Now()

	for _, addr := range data {
		await(t, addr, secrets[1], `401 {"error":"invalid_secret"}`)
	}

	t.Logf("the old secret was refused everywhere %v after the answer", time.Since(since))

	for _, addr := range data {
		await(t, addr, rotated, `200 {"status":"recorded"}`)
	}

	owner.do(`mutation { revokeServerSecret(input: {siteId: "`+site+`"}) { userErrors { code } } }`, &struct{}{})

	for _, addr := range data {
		await(t, addr, rotated, `401 {"error":"invalid_secret"}`)
	}
}

// await sends events with a server secret until the response has the wanted status.
func await(t *testing.T, addr, secret, want string) {
	t.Helper()
	testkit.AwaitState(t, addr+" answers "+want, func() (string, bool) {
		status, body := callServer(t, addr, secret, "lead", "198.51.100.7")
		got := fmt.Sprintf("%d %s", status, body)
		return got, got == want
	})
}
