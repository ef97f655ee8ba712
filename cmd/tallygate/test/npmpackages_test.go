package test

import (
	"bytes"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/evanw/esbuild/pkg/api"

	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/tools/testkit"
)

// repositoryRoot is the folder of the Makefile.
const repositoryRoot = "../../.."

// npmApps holds the apps that use the npm packages, and the list of what npm installs for them.
const npmApps = repositoryRoot + "/frontend-assets/test/packages"

// npmProject is a project with our packages from their archives, and with Vite and the frameworks
// from the folder of the apps.
type npmProject struct {
	t      *testing.T
	folder string
	env    []string
}

// openNpmProject builds the packages and installs them with npm.
func openNpmProject(t *testing.T) *npmProject {
	t.Helper()
	for _, program := range []string{"node", "npm", "make"} {
		wantProgram(t, program)
	}
	installed, err := filepath.Abs(npmApps + "/node_modules")
	testkit.NoError(t, err)
	if _, err := os.Stat(installed + "/.package-lock.json"); err != nil {
		testkit.Missing(t, "the packages of frontend-assets/test/packages are not installed; make setup does it")
	}

	archives := packNpm(t)

	// Node looks for a package in the folders above, too, so the frameworks need no copy.
	above := t.TempDir()
	testkit.NoError(t, os.Symlink(installed, filepath.Join(above, "node_modules")))
	p := &npmProject{t: t, folder: filepath.Join(above, "project"), env: os.Environ()}
	for _, app := range []string{"plain", "react", "vue", "svelte"} {
		p.copy(filepath.Join(npmApps, app), app)
	}
	for _, name := range []string{"settings.ts", "tsconfig.json", "import.mjs"} {
		p.write(name, readNpmFile(t, filepath.Join(npmApps, name)))
	}
	p.write("package.json", []byte(`{"private": true, "type": "module"}`))

	install := []string{"install", "--offline", "--ignore-scripts", "--no-audit", "--no-fund"}
	p.run(".", "npm", append(install, archives...)...)
	return p
}

// packNpm runs "make packages" twice, compares the archives, and returns their paths.
func packNpm(t *testing.T) []string {
	t.Helper()
	build := func() (paths []string, contents [][]byte) {
		command := exec.CommandContext(t.Context(), "make", "packages", "VERSION=v1.2.3")
		command.Dir = repositoryRoot
		// The variables of a make that runs the tests are not for this one.
		command.Env = append(os.Environ(), "MAKEFLAGS=", "MFLAGS=", "MAKELEVEL=")
		if output, err := command.CombinedOutput(); err != nil {
			t.Fatalf("make packages: %v\n%s", err, output)
		}

		for _, name := range []string{"analytics", "captcha"} {
			path, err := filepath.Abs(repositoryRoot + "/bin/packages/tallygate-" + name + "-1.2.3.tgz")
			testkit.NoError(t, err)
			paths, contents = append(paths, path), append(contents, readNpmFile(t, path))
		}
		return paths, contents
	}

	paths, first := build()
	_, second := build()
	if !slices.EqualFunc(first, second, bytes.Equal) {
		t.Error("the same sources gave different archives")
	}
	return paths
}

func readNpmFile(t *testing.T, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	testkit.NoError(t, err)
	return data
}

func (p *npmProject) write(name string, data []byte) {
	p.t.Helper()
	path := filepath.Join(p.folder, name)
	testkit.NoError(p.t, os.MkdirAll(filepath.Dir(path), 0o755))
	testkit.NoError(p.t, os.WriteFile(path, data, 0o600))
}

func (p *npmProject) copy(from, to string) {
	p.t.Helper()
	entries, err := os.ReadDir(from)
	testkit.NoError(p.t, err)
	for _, entry := range entries {
		p.write(filepath.Join(to, entry.Name()), readNpmFile(p.t, filepath.Join(from, entry.Name())))
	}
}

// run runs a program in a folder of the project and returns its output.
func (p *npmProject) run(folder, program string, args ...string) string {
	p.t.Helper()
	command := exec.CommandContext(p.t.Context(), program, args...)
	command.Dir, command.Env = filepath.Join(p.folder, folder), p.env
	var stderr bytes.Buffer
	command.Stderr = &stderr
	output, err := command.Output()
	if err != nil {
		line := filepath.Base(program) + " " + strings.Join(args, " ")
		p.t.Fatalf("%s in %s: %v\n%s%s", line, folder, err, output, stderr.String())
	}
	return string(output)
}

// tool runs a program that npm has installed.
func (p *npmProject) tool(folder, name string, args ...string) string {
	p.t.Helper()
	return p.run(folder, filepath.Join(p.folder, "../node_modules/.bin", name), args...)
}

// TestNpmPackagesChromium installs the npm packages into an app without a framework and apps of
// React, Vue and Svelte, and checks and builds them. In a browser each app stores a page view and
// events, and gets tokens that the server accepts; the apps of frameworks do the same after their
// page was rendered on a server.
func TestNpmPackagesChromium(t *testing.T) {
	p := openNpmProject(t)

	t.Run("import on a server", func(t *testing.T) {
		p := &npmProject{t, p.folder, p.env}
		want := "0 undefined CaptchaError execute load render\nobject object\n"
		testkit.Equal(t, p.run(".", "node", "import.mjs"), want, "printed")
	})

	t.Run("unused parts", func(t *testing.T) {
		testUnusedNpmParts(&npmProject{t, p.folder, p.env})
	})

	t.Run("types", func(t *testing.T) {
		p := &npmProject{t, p.folder, p.env}
		p.tool("plain", "tsc", "-p", ".")
		p.tool("react", "tsc", "-p", ".")
		p.tool("vue", "vue-tsc", "-p", ".")
		p.tool("svelte", "svelte-check", "--tsconfig", "./tsconfig.json", "--fail-on-warnings")
	})

	// The components need the types of their frameworks, which "make types" does not have.
	t.Run("sources of components", func(t *testing.T) {
		p := &npmProject{t, p.folder, p.env}
		const sources = repositoryRoot + "/frontend-assets/"
		for _, name := range []string{"error", "handle", "index", "load", "react", "vue", "widget"} {
			p.write("source/"+name+".ts", readNpmFile(t, sources+"packages/captcha/"+name+".ts"))
		}
		p.write("source/globals.d.ts", readNpmFile(t, sources+"src/captcha/widget/globals.d.ts"))
		p.write("source/tsconfig.json", []byte(`{"extends": "../tsconfig.json", "include": ["."]}`))
		p.tool("source", "tsc", "-p", ".")
	})

	r := openRecipes(t)
	t.Run("calls", func(t *testing.T) {
		r := *r
		r.t = t
		testNpmCalls(&r, &npmProject{t, p.folder, p.env})
	})

	p.env = append(p.env, "VITE_TALLYGATE=http://"+r.p.addr["data"], "VITE_SITE="+r.site.SiteKey,
		"VITE_SITEKEY="+model.TestSitekey)
	want := []string{"/plain/ 1"}
	signups := 0
	for _, app := range []string{"plain", "react", "vue", "svelte"} {
		t.Run(app, func(t *testing.T) {
			p := &npmProject{t, p.folder, p.env}
			p.tool(app, "vite", "build", "--logLevel", "warn", "--base", "/"+app+"/")
			dist := filepath.Join(p.folder, app, "dist")
			r.mux.Handle("GET /"+app+"/", http.StripPrefix("/"+app+"/", http.FileServer(http.Dir(dist))))

			r := *r
			r.t = t
			useNpmApp(&r, "/"+app+"/")
			if app == "plain" {
				return
			}

			p.renderOnServer(app)
			useNpmApp(&r, "/"+app+"/rendered.html")
		})
		signups += 3
		if app != "plain" {
			want = append(want, "/"+app+"/ 1", "/"+app+"/rendered.html 1")
			signups += 3
		}
	}
	r.wantStored(append(want, fmt.Sprintf("signup %d", signups))...)
}

// renderOnServer adds the page rendered.html to a built app. It has the markup that Node renders,
// which the app hydrates.
func (p *npmProject) renderOnServer(app string) {
	p.t.Helper()
	entry := "server.ts"
	if app == "react" {
		entry = "server.tsx"
	}
	p.tool(app, "vite", "build", "--logLevel", "warn", "--ssr", entry, "--outDir", "server")
	markup := strings.TrimSpace(p.run(app, "node", "server/server.js"))
	if !strings.Contains(markup, "<textarea") || strings.Contains(markup, "service-captcha") {
		p.t.Errorf("the server rendered %q", markup)
	}

	const root = `<div id="app"></div>`
	page := string(readNpmFile(p.t, filepath.Join(p.folder, app, "dist/index.html")))
	if !strings.Contains(page, root) {
		p.t.Fatalf("the page has no %s:\n%s", root, page)
	}
	rendered := strings.Replace(page, root, `<div id="app">`+markup+`</div>`, 1)
	p.write(filepath.Join(app, "dist/rendered.html"), []byte(rendered))
}

// useNpmApp sends the form of an app twice, and a token of execute once.
func useNpmApp(r *recipePages, path string) {
	r.t.Helper()
	const token = `document.querySelector('[name=service-captcha-response]').value`
	page := r.open(path)
	defer page.Close()
	r.solve(page)
	if got := page.Text(`document.querySelector('.service-captcha button').textContent`); got != "Bestätigt" {
		r.t.Errorf("the label is %q, want it in German", got)
	}

	for i, button := range []string{"#send", "#send", "#direct"} {
		before := page.Text(token)
		page.Click(button)
		page.WaitFor(fmt.Sprintf(`%s >= %d`, sent, i+2))
		page.WaitFor(`document.querySelector('output').textContent`)
		if got := page.Text(`document.querySelector('output').textContent`); got != "accepted" {
			r.t.Errorf("press %d of %s: the server answered %q", i, button, got)
		}
		// The app without a framework leaves the token of its form alone when it executes another
		// captcha.
		if path == "/plain/" && button == "#direct" {
			break
		}
		page.WaitFor(fmt.Sprintf(`(%[1]s || %[2]q) !== %[2]q`, token, before))
	}
	if path != "/plain/" {
		page.WaitFor(`document.querySelector('#verified').textContent === '4'`)
	}
	wantQuietConsole(r.t, page)

	// The widget logs the reason of a wrong setup.
	if path == "/plain/" {
		page.Click("#wrong")
		page.WaitFor(`document.querySelector('output').textContent === 'setup'`)
	}
}

// testUnusedNpmParts builds apps that use little of the packages, with two bundlers.
func testUnusedNpmParts(p *npmProject) {
	built := func(bundler, name string) string {
		if bundler == "vite" {
			return p.buildAlone(name)
		}

		result := api.Build(api.BuildOptions{
			AbsWorkingDir: filepath.Join(p.folder, "plain"), EntryPoints: []string{name + ".ts"}, Bundle: true,
			Format: api.FormatESModule, MinifyWhitespace: true, MinifySyntax: true, MinifyIdentifiers: true,
		})
		if len(result.Errors) > 0 {
			p.t.Fatal(result.Errors)
		}
		return string(result.OutputFiles[0].Contents)
	}

	for _, bundler := range []string{"vite", "esbuild"} {
		if got := built(bundler, "unused"); strings.TrimSpace(got) != "" {
			p.t.Errorf("%s: an app that uses nothing of the packages contains %q", bundler, got)
		}
		got := built(bundler, "shaken")
		others := strings.Contains(got, "collect.php") || strings.Contains(got, "identify")
		if !strings.Contains(got, "svc") || others || len(got) > 300 {
			p.t.Errorf("%s: an app that sends one event contains %d bytes: %s", bundler, len(got), got)
		}
	}
}

// buildAlone builds one module of the plain app and returns the result.
func (p *npmProject) buildAlone(name string) string {
	p.t.Helper()
	own := &npmProject{p.t, p.folder, append(slices.Clone(p.env), "ENTRY="+name+".ts")}
	own.tool("plain", "vite", "build", "--logLevel", "warn", "--outDir", name)
	return string(readNpmFile(p.t, filepath.Join(p.folder, "plain", name, "app.js")))
}

// testNpmCalls makes calls of the analytics package in a browser and compares the messages with
// what the script's tag would send.
func testNpmCalls(r *recipePages, p *npmProject) {
	r.t.Helper()
	const empty = "<!doctype html><html lang=en><title>Calls</title><link rel=icon href='data:,'>"
	// Beacons are recorded instead of sent.
	record := `<script>messages = []
		navigator.sendBeacon = (url, body) => { const m = JSON.parse(body)
			const values = [new URL(url).pathname, m.t, m.e, m.p, m.d && m.d.slice(0, 2), m.a, m.x]
			messages.push(values.filter((v) => v != null).join(' '))
			return true }</script>`
	module := `<script type=module>` + p.buildAlone("exposed") + `</script>`
	r.add("/calls", empty+record+module)
	r.add("/calls-with-tag", empty+record+`<script src="{analytics_url}/svc.js" data-site="{site_key}"></script>`+module)

	const wrongSite = "@tallygate/analytics: site is no site key: 32 hexadecimal characters in lower case"
	const notWeb = "@tallygate/analytics: url is no web address"
	site, url := "site: '"+r.site.SiteKey+"'", "url: 'http://"+r.p.addr["data"]+"'"
	values := strings.NewReplacer("SETTINGS", site+", "+url, "SITE", site, "URL", url)
	for _, test := range []struct{ name, path, script, want, console string }{
		{"queued calls follow the page view", "/calls", `analytics.event('signup', { n: 1 }); analytics.identify('ab'.repeat(32));
			analytics.init({ SETTINGS }); analytics.event('second')`,
			"/collect.php pageview /calls ab, /collect.php event signup /calls ab, /collect.php event second /calls ab",
			""},
		{"routes", "/calls", `analytics.init({ SETTINGS });
			history.pushState(0, '', '/next'); history.pushState(0, '', '/next?q=1')`,
			"/collect.php pageview /calls, /collect.php pageview /next", ""},
		{"auto off", "/calls", `analytics.init({ SETTINGS, auto: false });
			history.pushState(0, '', '/next'); analytics.pageview()`,
			"/collect.php pageview /calls off, /collect.php pageview /next off 1", ""},
		{"search", "/calls", `history.replaceState(0, '', '/calls?q=boots');
			analytics.init({ SETTINGS, search: true })`,
			"/collect.php pageview /calls, /collect.php event site_search /calls", ""},
		{"no search", "/calls", `history.replaceState(0, '', '/calls?q=boots');
			analytics.init({ SETTINGS })`,
			"/collect.php pageview /calls", ""},
		{"an address with a path", "/calls", `analytics.init({ SITE, url: '/stats/' })`, "/stats/collect.php pageview /calls", ""},
		{"a second init", "/calls", `analytics.init({ SETTINGS });
			analytics.init({ site: '0'.repeat(32), url: '/other' });
			analytics.event('signup')`,
			"/collect.php pageview /calls, /collect.php event signup /calls", ""},
		{"the page has the tag", "/calls-with-tag", `analytics.init({ SITE, url: '/other' });
			analytics.event('signup')`,
			"/collect.php pageview /calls-with-tag, /collect.php event signup /calls-with-tag", ""},
		{"a wrong site", "/calls", `analytics.init({ site: 'short', URL })`, "", wrongSite},
		{"no settings", "/calls", `analytics.init()`, "", wrongSite},
		{"no url", "/calls", `analytics.init({ SITE })`, "", notWeb},
		{"a url of another kind", "/calls", `analytics.init({ SITE, url: 'data:text/plain,' })`, "", notWeb},
		{"a broken url", "/calls", `analytics.init({ SITE, url: 'http://[' })`, "", "@tallygate/analytics: url is no address"},
		{"right settings after wrong ones", "/calls", `analytics.init({ site: 'short', URL });
			analytics.init({ SETTINGS })`,
			"/collect.php pageview /calls", wrongSite},
	} {
		page := r.open(test.path)
		page.WaitFor("window.analytics")
		page.Eval("(() => { "+values.Replace(test.script)+" })()", nil)
		// Engagement depends on time.
		got := page.Text(`messages.filter((m) => !m.includes(' engagement ')).join(', ')`)
		var console []string
		for _, message := range page.Console() {
			console = append(console, message.Text)
		}
		if got != test.want || strings.Join(console, "\n") != test.console {
			r.t.Errorf("%s: sent %q, want %q; console %q, want %q", test.name, got, test.want, console, test.console)
		}
		page.Close()
	}
}
