package test

import (
	"bytes"
	"compress/gzip"
	"context"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"time"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/accounts"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/tools/countrytest"
	"github.com/tallygate/tallygate/tools/dbtest"
	"github.com/tallygate/tallygate/tools/pgserver"
	"github.com/tallygate/tallygate/tools/testkit"
)

// documentStep is what the test knows of a document's lines, from one that begins with a text to the
// next such one, or to the end of the block.
type documentStep struct {
	document, begins string

	instead string        // why the lines are not run here, and the test that covers them
	except  string        // likewise, of the programs that have a stand-in
	long    string        // why the lines and the document's further ones are left to the long tests
	before  func(*reader) // creates what the lines need
	check   func(*reader) // compares what they did with the document

	row  int // in documentTable; -1: none
	text string
}

const (
	backupPage, movePage    = "docs/operator/backup.md", "docs/operator/move.md"
	operationsPage          = "docs/operator/operations.md"
	quickstart              = "docs/operator/quickstart.md"
	captchaPage             = "docs/owner/captcha.md"
	graphqlPage             = "docs/owner/graphql.md"
	thirdParty              = "frontend-assets/thirdparty/"
	needsRegistry           = "needs the npm registry; the files that it writes are in the repository, with their versions in its table"
	onBootedMachine         = "needs root and a booted machine; `TestDeploySystemd` and make release-check have the unit and the package"
	readByTheScript         = "`TestChromiumQueueIsReplayedInOrder` has a page with this"
	operator, operatorLogin = "you@example.com", "a long password"
)

// documentTable has the steps that need something, are checked or are not run. A block without a
// step of a command is run, and must succeed.
var documentTable = []documentStep{
	{document: "README.md", begins: "go run ./cmd/tallygate demo", instead: "`TestDemoPurchaseChromium` starts the demo"},
	{document: "README.md", begins: "make test", instead: "CI runs it"},
	{document: "README.md", begins: "make build", except: "CI builds the program", check: wantServed},

	{document: backupPage, begins: "tallygate admin backup", before: (*reader).install, check: func(r *reader) {
		r.wantOut("verified")
		r.want = len(r.owner.export(r.site.ID))
		r.visit("/after-the-backup")
		r.stop()
	}},
	{document: backupPage, begins: "mv tallygate-data", check: wantRestored},
	{document: backupPage, begins: "docker compose --file one-node.yaml --profile backup stop", before: func(r *reader) {
		r.visit("/after-the-restore")
		r.stop()
		for _, file := range []string{"lock", "tallygate.sqlite"} {
			r.values["/data/"+file] = r.path("tallygate-data/" + file)
		}
		r.values["/backups/FILE"] = r.path("backups/tallygate-1.sqlite")
	}, except: "the container's script runs here; `TestDeployComposeOneNode` starts the service", check: wantRestored},
	{document: backupPage, begins: "pg_dump", long: "dumps and base backups of PostgreSQL", before: (*reader).installOnPostgres, check: func(r *reader) {
		r.runDumpOfTimer()
		r.want = len(r.owner.export(r.site.ID))
		r.visit("/after-the-dump")
		r.stop()
		r.postgresCommand("dropdb", "tallygate")
	}},
	{document: backupPage, begins: "createdb tallygate", check: wantRestored},
	{document: backupPage, begins: "# postgresql.conf", instead: "the base backup runs with these lines"},
	{document: backupPage, begins: "pg_basebackup", before: (*reader).archive, check: func(r *reader) {
		r.visit("/after-the-base-backup")
		r.want = len(r.owner.export(r.site.ID))
		r.stop()
		r.losePostgres()
	}},
	{document: backupPage, begins: "cp -a /backups/base", check: func(r *reader) {
		r.startLostPostgres()
		wantRestored(r)
	}},
	{document: backupPage, begins: "[Service]", instead: "`TestDeployBackupTimer` runs the unit; the command of the daily dump runs after pg_dump"},

	{document: movePage, begins: "sudo systemctl stop", long: "a copy to PostgreSQL", except: onBootedMachine, before: func(r *reader) {
		r.install()
		r.want = len(r.owner.export(r.site.ID))
		r.stop()
		r.startPostgres()
		address, _ := url.Parse(r.postgres.URL())
		r.values["tallygate@db.internal:5432"] = "tallygate@" + address.Host
	}, check: func(r *reader) {
		r.settings["TALLYGATE_DATABASE_URL"] = r.postgresURL()
		r.settings["TALLYGATE_SECRET"] = strings.TrimSpace(r.read("tallygate-data/secret"))
		wantRestored(r)
	}},

	{document: operationsPage, begins: "TALLYGATE_BASE_URL=", before: (*reader).setKey, check: wantServed},
	{document: operationsPage, begins: "tallygate admin create-account", check: func(r *reader) {
		r.serve()
		link := regexp.MustCompile(`tgr_\w+`).FindString(r.out)
		if got := choose(r.T, r.service, link); !strings.Contains(got, `"userErrors":[]`) {
			r.Errorf("the link: %s", got)
		}
		r.owner = newOwner(r.T, r.service)
		r.owner.SignIn(operator, operatorLogin)
		r.site = r.createSite()
	}},
	{document: operationsPage, begins: "tallygate admin invite", check: func(r *reader) { r.wantOut("tgi_") }},
	{document: operationsPage, begins: "tallygate admin reset-password", check: func(r *reader) { r.wantOut("tgr_") }},
	{document: operationsPage, begins: "tallygate admin test-mail", before: func(r *reader) {
		r.sh("export TALLYGATE_SMTP_URL=smtp://127.0.0.1:1 TALLYGATE_MAIL_FROM=service@example.com")
	}, check: func(r *reader) { r.wantOut("Queued.") }},
	{document: operationsPage, begins: "tallygate admin set-operator"},
	{document: operationsPage, begins: "tallygate admin set-plan", check: func(r *reader) { r.wantOut("example.com is on the plan PRO_1M.") }},
	{document: operationsPage, begins: "tallygate admin set-site-limit", check: func(r *reader) { r.wantOut("200 sites") }},
	{document: operationsPage, begins: "tallygate admin accounts", check: func(r *reader) { r.wantOut("PRO_1M", operator, r.site.SiteKey) }},
	{document: operationsPage, begins: "tallygate admin installation", check: func(r *reader) { r.wantOut("mail server:") }},
	{document: operationsPage, begins: "tallygate admin check-reports"},
	{document: operationsPage, begins: "tallygate admin verify-domain", before: (*reader).setProvider,
		check: func(r *reader) { r.wantOut("corp.example belongs to") }},
	{document: operationsPage, begins: "tallygate admin suspend", before: func(r *reader) {
		r.sh("tallygate admin create-account customer@example.net --name Customer")
		r.owner.do(`mutation { deleteSite(input: {siteId: "`+r.site.ID+`"}) { userErrors { code } } }`, new(any))
	}, check: func(r *reader) { r.wantOut("suspended") }},
	{document: operationsPage, begins: "tallygate admin purge-site", check: func(r *reader) {
		if printed := r.sh("tallygate admin accounts --json"); strings.Contains(printed, r.site.SiteKey) {
			r.Errorf("the site remains: %s", printed)
		}
	}},
	{document: operationsPage, begins: "account: owner@example.com", instead: "`TestApply` applies this file"},
	{document: operationsPage, begins: "GRANT USAGE", instead: "`TestServeWithoutRightsToCreateTables` has a role with these rights"},
	{document: operationsPage, begins: "TALLYGATE_DATABASE_URL=postgres://tallygate@pooler",
		instead: "needs a pooler; `TestProxyPooler` serves with such settings"},
	{document: operationsPage, begins: "#!/bin/sh", before: (*reader).offerCountries, check: func(r *reader) {
		if got := r.read("var/lib/tallygate-files/country.mmdb"); !strings.Contains(got, "DBIP-Country-Lite") {
			r.Errorf("the file of countries has %d bytes", len(got))
		}
		r.sh("cd \"$ROOT\"")
	}},
	{document: operationsPage, begins: "tallygate admin restore-month   ", check: func(r *reader) { r.wantOut("Nothing to restore.") }},
	{document: operationsPage, begins: "tallygate admin restore-month 2026-05",
		instead: "needs a month that retention has detached on PostgreSQL; `TestAdminData` restores one"},

	{document: quickstart, begins: "app=app.example.org", except: onBootedMachine, before: func(r *reader) {
		r.write("etc/tallygate/tallygate.env", readDeploy(r.T, "systemd/tallygate.env"))
		r.write("usr/share/tallygate/nginx.conf", readDeploy(r.T, "proxies/nginx.conf"))
	}, check: func(r *reader) { r.wantNames("etc/tallygate/tallygate.env") }},
	{document: quickstart, begins: "tallygate-admin create-account", check: func(r *reader) {
		if !strings.Contains(r.out, "https://app.example.org/reset-password#tgr_") {
			r.Errorf("create-account printed %s", r.out)
		}
	}},
	{document: quickstart, begins: "apt install nginx", except: "needs root and public names; `TestDeployProxies` starts nginx with this file",
		check: func(r *reader) { r.wantNames("etc/nginx/conf.d/tallygate.conf") }},
	{document: quickstart, begins: "tallygate-admin doctor", before: func(r *reader) {
		// The names of the document do not exist: the service listens here alone.
		r.settings["TALLYGATE_DATA_DIR"] = r.path("var/lib/tallygate")
		r.serve()
		r.write("etc/tallygate/tallygate.env", "TALLYGATE_CONTROL_ADDR="+r.service.addr["control"]+
			"\nTALLYGATE_DATA_ADDR="+r.service.addr["data"]+"\n")
	}, check: func(r *reader) { r.wantOut("0 findings.") }},
	{document: quickstart, begins: "systemctl enable", except: "needs a booted machine; `TestDeployBackupTimer` runs the unit's command"},
	{document: "docs/operator/tls.md", begins: "TALLYGATE_BASE_URL=", before: func(r *reader) {
		// Nothing listens at the authority, which the program tries again.
		r.sh("export TALLYGATE_TLS_ACME_DIRECTORY=https://127.0.0.1:1/directory TALLYGATE_TLS_ADDR=127.0.0.1:0 TALLYGATE_TLS_HTTP_ADDR=127.0.0.1:0")
	}, check: wantServed},

	{document: captchaPage, begins: "curl {captcha_url}/api/v1/pow/siteverify", before: (*reader).solve,
		check: func(r *reader) { r.wantOut(`"valid":true`) }},
	{document: "docs/owner/export.md", begins: "curl --header", before: (*reader).install,
		check: func(r *reader) { r.wantOut("row_id,", ",/first,") }},
	{document: "docs/owner/figures.md", begins: "curl --header", before: (*reader).install,
		check: func(r *reader) { r.wantOut(`"site":"example.com"`, `"pageviews":1,`) }},
	{document: graphqlPage, begins: "curl --header", before: (*reader).install,
		check: func(r *reader) { r.wantOut(`"domain":"example.com"`, r.site.ID) }},
	{document: graphqlPage, begins: "TALLYGATE_URL=", check: func(r *reader) { r.wantOut("Script tag:", r.site.SiteKey, "svcs_") }},
	{document: graphqlPage, begins: "curl --compressed", check: func(r *reader) {
		if !strings.Contains(r.read("schema.graphqls"), "type Query {") {
			r.Error("schema.graphqls is no schema")
		}
	}},
	{document: "docs/owner/http-api.md", begins: "curl https://stats.example.com/server.php", before: (*reader).install, check: func(r *reader) {
		r.wantOut(`{"status":"recorded"}`)
		query := url.Values{"site_id": {r.site.ID}, "type": {"events"}, "from": {"2000-01-01"}, "to": {"2100-01-01"}}
		if rows := string(r.owner.download(query.Encode())); !strings.Contains(rows, `"signup"`) || !strings.Contains(rows, `"/welcome"`) {
			r.Errorf("the events are %s", rows)
		}
	}},
	{document: "docs/owner/mcp.md", begins: "npx", instead: "needs packages of npm; `TestInspector` runs the inspector"},
	{document: thirdParty + "fflate/README.md", begins: "npm pack", instead: needsRegistry},
	{document: thirdParty + "graphiql/README.md", begins: "npm pack", instead: needsRegistry},
	{document: thirdParty + "preact/README.md", begins: "npm pack", instead: needsRegistry},

	{document: "docs/owner/browser-script.md", begins: "<script defer", instead: readByTheScript},
	{document: "docs/owner/browser-script.md", begins: "<script>window.svc", instead: readByTheScript},
	{document: "docs/owner/captcha-dropin.md", begins: "<?php", instead: "needs WordPress"},
	{document: captchaPage, begins: "<form action=", instead: "`TestChromiumCaptchaNotifiesThePage` has such a form"},
	{document: captchaPage, begins: "const response", instead: "tests of the widget such as `TestChromiumCaptchaNotifiesThePage` reset it"},
	{document: captchaPage, begins: "<script>", instead: "`TestChromiumCaptchaNotifiesThePage` has this script in its page"},
	{document: "docs/owner/first-party.md", begins: "<script defer", instead: "`TestDeployFirstParty` has a page with such tags"},
	{document: graphqlPage, begins: "import type", instead: "`TestTypedClient` generates such a client in Go"},
	{document: graphqlPage, begins: "<iframe", instead: "`TestEmbeddedReportChromium` has such a page"},
	{document: "docs/owner/webhooks.md", begins: "func isOurs", instead: "`TestSignatures` checks signatures so"},
	{document: "docs/owner/webhooks.md", begins: "$body", instead: "needs a PHP server; `TestSignatures` computes the same"},
	{document: "frontend-assets/packages/analytics/README.md", begins: "import", instead: "`TestNpmPackagesChromium`"},
	{document: "frontend-assets/packages/captcha/README.md", begins: "import", instead: "`TestNpmPackagesChromium`"},
}

// wantOut checks that the last commands printed texts.
func (r *reader) wantOut(texts ...string) {
	r.Helper()
	for _, text := range texts {
		if !strings.Contains(r.out, text) {
			r.Errorf("printed %s; want %q", r.out, text)
		}
	}
}

// wantServed checks that the program has served at the names of the document.
func wantServed(r *reader) {
	r.Helper()
	r.wantOut(`"url":"https://app.example.com"`, `"url":"https://stats.example.com"`)
}

// wantNames checks that a file of the package has the names of the quickstart.
func (r *reader) wantNames(file string) {
	r.Helper()
	text := r.read(file)
	if strings.Count(text, "app.example.org") == 0 || strings.Count(text, "stats.example.org") == 0 || strings.Contains(text, ".example.com;") {
		r.Errorf("%s has\n%s", file, text)
	}
}

// serve starts the service, which ends with stop or with the test.
func (r *reader) serve() {
	r.Helper()
	r.service = start(r.T, r.settings, []string{"control", "data"})
	r.values["https://app.example.com"] = "http://" + r.service.addr["control"]
	r.values["https://stats.example.com"] = "http://" + r.service.addr["data"]
	r.values["{captcha_url}"] = r.values["https://stats.example.com"]
	if r.owner != nil {
		r.owner.Origin = r.values["https://app.example.com"]
	}
}

func (r *reader) stop() { r.service.signal(syscall.SIGTERM) }

// install starts a service, with a site, a page view, an event name, a server secret and a token.
func (r *reader) install() {
	r.Helper()
	r.serve()
	r.owner = newOwner(r.T, r.service)
	r.site = r.owner.signUp("example.com")
	r.visit("/first")

	var made struct {
		RotateServerSecret struct{ ServerSecret string }
		CreateAPIToken     struct{ Token string }
	}
	r.owner.do(`mutation { registerEvent(input: {siteId: "`+r.site.ID+`", name: "signup"}) { userErrors { code } }
		rotateServerSecret(input: {siteId: "`+r.site.ID+`"}) { serverSecret }
		createApiToken(input: {name: "script", scopes: [WRITE, EXPORT]}) { token } }`, &made)
	r.sh("export TALLYGATE_API_TOKEN=" + made.CreateAPIToken.Token)

	today := time.Now().UTC().Format(time.DateOnly)
	for name, value := range map[string]string{
		"site_…": r.site.ID, "svcs_…": made.RotateServerSecret.ServerSecret, "tga_…": made.CreateAPIToken.Token,
		"from=2026-11-01&to=2026-11-30": "from=" + today + "&to=" + today,
		"Mozilla/5.0 …":                 "Mozilla/5.0 (X11; Linux x86_64; rv:145.0) Gecko/20100101 Firefox/145.0",
	} {
		r.values[name] = value
	}
}

// setKey gives the service and the commands the application key of dbtest.
func (r *reader) setKey() {
	r.Helper()
	r.settings["TALLYGATE_SECRET"] = dbtest.ApplicationKey
	r.sh("export TALLYGATE_SECRET='" + dbtest.ApplicationKey + "'")
}

// createSite creates the site of the documents.
func (r *reader) createSite() testSite {
	r.Helper()
	var created struct{ CreateSite struct{ Site testSite } }
	r.owner.do(`mutation { createSite(input: {domain: "example.com"}) { site { id siteKey } } }`, &created)
	return created.CreateSite.Site
}

// visit sends a page view.
func (r *reader) visit(path string) {
	r.Helper()
	status, err := sendPageviewFrom(http.DefaultClient, "https://example.com", "http://"+r.service.addr["data"], r.site.SiteKey, path)
	if status != http.StatusNoContent || err != nil {
		r.Fatalf("the page view %s: %d, %v", path, status, err)
	}
}

// wantRestored starts the service again, and checks that it has the page views of the backup and
// stores further ones.
func wantRestored(r *reader) {
	r.Helper()
	r.serve()
	if got := len(r.owner.export(r.site.ID)); got != r.want || got == 0 {
		r.Errorf("%d page views are restored, want %d", got, r.want)
	}
	r.visit("/restored")
}

// solve obtains a token of the captcha.
func (r *reader) solve() {
	r.Helper()
	r.settings["TALLYGATE_CAPTCHA_DIFFICULTY"] = "1024"
	r.install()
	var made struct {
		CreateSitekey struct {
			Secret  string
			Sitekey struct{ Sitekey string }
		}
	}
	r.owner.do(`mutation { createSitekey(input: {name: "form"}) { secret sitekey { sitekey } } }`, &made)
	key := made.CreateSitekey

	s := &solver{http: &http.Client{Timeout: patience}, data: r.service.addr["data"], sitekey: key.Sitekey.Sitekey}
	token, err := s.token()
	testkit.NoError(r, err)
	r.values["svck_…"], r.values["svcc_…"], r.values["…the field of the form…"] = s.sitekey, key.Secret, token
}

// setProvider gives the account a provider, which GraphQL would ask first.
func (r *reader) setProvider() {
	r.Helper()
	d := dbtest.Open(r.T, db.EmbeddedURL(r.settings["TALLYGATE_DATA_DIR"]))
	store, secret := accounts.New(d), "the client secret"
	owner, err := store.UserByEmail(r.Context(), operator)
	testkit.NoError(r, err)
	if _, err := store.Providers.Set(r.Context(), owner, accounts.ProviderChange{Secret: &secret, Provider: model.AccountProvider{
		Issuer: "https://sso.example", ClientID: "tallygate", Domain: "corp.example", DefaultRole: model.RoleViewer,
		ChangedAt: model.At(time.Now()),
	}}); err != nil {
		r.Fatal(err)
	}
}

// offerCountries serves a database of countries as its publisher does.
func (r *reader) offerCountries() {
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	_, _ = w.Write(countrytest.Countries(r.T, time.Now(), map[string]string{"198.51.100.0/24": "DE"}))
	_ = w.Close()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		if q.URL.Path != "/free/dbip-country-lite-"+time.Now().Format("2006-01")+".mmdb.gz" {
			http.NotFound(w, q)
		}
		_, _ = w.Write(packed.Bytes())
	}))
	r.Cleanup(server.Close)
	r.values["https://download.db-ip.com"] = server.URL
}

// startPostgres starts a server with an empty first database, for the programs of PostgreSQL. It is
// durable, which the doctor checks.
func (r *reader) startPostgres() {
	r.Helper()
	bin, err := pgserver.Bin()
	if err != nil {
		testkit.Missing(r, "PostgreSQL's server programs are not installed: "+err.Error())
	}
	if r.postgres, err = pgserver.Start(bin, pgserver.Options{Durable: true}); err != nil {
		r.Fatal(err)
	}
	r.Cleanup(r.postgres.Stop)

	address, _ := url.Parse(r.postgres.URL())
	r.sh("export PGHOST=" + address.Hostname() + " PGPORT=" + address.Port() + " PGUSER=tallygate PGDATABASE=postgres")
}

// postgresURL returns the address of the documents' database.
func (r *reader) postgresURL() string {
	return strings.Replace(r.postgres.URL(), "/postgres?", "/tallygate?", 1)
}

// postgresCommand runs a program of PostgreSQL.
func (r *reader) postgresCommand(program string, args ...string) {
	r.Helper()
	r.sh(program + " " + strings.Join(args, " "))
}

// installOnPostgres installs a service on PostgreSQL.
func (r *reader) installOnPostgres() {
	r.Helper()
	r.stop()
	r.startPostgres()
	if _, err := r.postgres.CreateDatabase(context.Background(), "tallygate"); err != nil {
		r.Fatal(err)
	}
	r.setKey()
	r.settings["TALLYGATE_DATABASE_URL"] = r.postgresURL()
	r.sh("export TALLYGATE_DATABASE_URL='" + r.postgresURL() + "'")
	r.install()
}

// runDumpOfTimer runs the command of the daily dump, which systemd reads with %% and $$.
func (r *reader) runDumpOfTimer() {
	r.Helper()
	page, err := os.ReadFile("../../../" + backupPage)
	testkit.NoError(r, err)
	command := regexp.MustCompile(`(?s)\nExecStart=(/bin/sh .*?)\n` + "```").FindSubmatch(page)
	if command == nil {
		r.Fatal("the page has no command of a daily dump")
	}
	r.sh("export FOLDER=$ROOT/backups KEEP=7")
	r.sh(strings.NewReplacer("%%", "%", "$$", "$", "/usr/bin/tallygate", "tallygate").Replace(string(command[1])))
	r.read("backups/" + time.Now().UTC().Format(time.DateOnly) + ".dump")
}

// archive adds the lines of the document to the server's settings.
func (r *reader) archive() {
	r.Helper()
	page, err := os.ReadFile("../../../" + backupPage)
	testkit.NoError(r, err)
	lines := regexp.MustCompile("(?s)```\n# postgresql.conf\n(.*?)```").FindSubmatch(page)
	if lines == nil {
		r.Fatal("the page has no lines for postgresql.conf")
	}

	// The server's user writes there.
	folder := filepath.Join(filepath.Dir(r.postgres.DataDir()), "archive")
	r.values["/archive/"] = folder + "/"
	r.write("postgresql.conf", r.literal(string(lines[1])))
	r.stop()
	r.postgres.Crash()
	r.asRoot(`mkdir "$0"; chown --reference="$1" "$0"; cat "$2" >>"$1/postgresql.conf"`, folder, r.postgres.DataDir(), r.path("postgresql.conf"))
	testkit.NoError(r, r.postgres.Restart())
	r.serve()
}

// losePostgres ends the server and moves its files away. Segments that were not archived are copied.
func (r *reader) losePostgres() {
	r.Helper()
	r.postgres.Crash()
	data := r.postgres.DataDir()
	r.asRoot(`cp --archive --no-clobber "$0"/pg_wal/0* "$1"; mv "$0" "$0.lost"`, data, r.values["/archive/"])
}

// asRoot runs the commands of a test outside the reader's shell, where chown has an effect. Tests
// that do not run as root have one user for everything.
func (r *reader) asRoot(commands string, args ...string) {
	r.Helper()
	if out, err := exec.Command("sh", append([]string{"-ec", commands}, args...)...).CombinedOutput(); err != nil {
		r.Fatalf("%v: %s", err, out)
	}
}

// startLostPostgres starts the server with the restored files.
func (r *reader) startLostPostgres() {
	r.Helper()
	data := r.postgres.DataDir()
	r.asRoot(`mv "$0" "$1"; chown -R --reference="$1.lost" "$1"; chmod 700 "$1"`, r.path("var/lib/postgresql/data"), data)
	testkit.NoError(r, r.postgres.Restart())
	testkit.Await(r, "the end of the recovery", func() bool {
		return strings.HasPrefix(strings.TrimSpace(r.sh("psql --no-align --tuples-only --command='SELECT pg_is_in_recovery()'")), "f")
	})
}
