package solver_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/evanw/esbuild/pkg/api"

	assets "github.com/tallygate/tallygate/frontend-assets"
	"github.com/tallygate/tallygate/tools/browsertest"
)

func TestMain(m *testing.M) { os.Exit(browsertest.Run(m.Run)) }

// engineOrigin is the origin of the engines, which always differs from the page's.
const engineOrigin = "https://captcha.example.test"

// engineVectors is the file of challenges that the tests of the Go implementation use too.
const engineVectors = "../../../dataplane/captcha/pow/testdata/vectors.json"

// solverScript returns the solver as the widget bundles it, with its functions as globals for the
// tests.
var solverScript = sync.OnceValues(func() (string, error) {
	result := api.Build(api.BuildOptions{
		Stdin: &api.StdinOptions{
			Contents: `
				import { foldSecrets as fold, readChallenge as read } from './challenge';
				import { js } from './js';
				import { solve, Unreachable, Unsupported } from './solver';
				import { subtle } from './subtle';
				import { wasm } from './wasm';
				Object.assign(window, { fold, read, js, subtle, wasm, solve, Unreachable, Unsupported });`,
			ResolveDir: "../../src/captcha/engine",
			Loader:     api.LoaderTS,
		},
		Bundle: true, Format: api.FormatIIFE, Target: api.ES2020, LogLevel: api.LogLevelSilent,
	})
	if len(result.Errors) > 0 {
		return "", fmt.Errorf("%s", result.Errors[0].Text)
	}

	return string(result.OutputFiles[0].Contents), nil
})

// spy runs before any script of the page and records what the solver does: the engines that
// answered from workers and from the page, the number of workers started and ended, and calls of
// functions that it must not use.
const spy = `
	window.seen = { started: 0, ended: 0, worker: [], page: [] };
	if (window.Worker) {
		const plain = Worker;
		window.Worker = class extends plain {
			constructor(url) {
				super(url);
				seen.started++;
				this.addEventListener("message", ({ data }) => { if (Array.isArray(data)) seen.worker.push(data[1]) });
			}
			terminate() { seen.ended++; super.terminate() }
		};
	}
	const post = MessagePort.prototype.postMessage;
	MessagePort.prototype.postMessage = function (message, ...rest) {
		if (Array.isArray(message) && typeof message[1] === "string") seen.page.push(message[1]);
		return post.call(this, message, ...rest);
	};
	for (const name of ["setTimeout", "setInterval", "requestAnimationFrame", "requestIdleCallback", "eval", "Function"]) {
		const plain = window[name];
		window[name] = (...all) => { if (window.solving) (seen.forbidden ||= []).push(name); return plain.apply(window, all) };
	}`

// engineWorld is a website with TLS and a captcha service on another origin.
type engineWorld struct {
	t       *testing.T
	browser *browsertest.Browser

	page   *browsertest.Page // the only tab, which all sites use in turn
	remove func()            // removes the last site's scripts from the tab

	mu    sync.Mutex // guards sites
	sites []engineSite
}

// engineSite is one page, with the captcha's responses to it.
type engineSite struct {
	csp     string                      // Content-Security-Policy, with O for the captcha's origin
	replace map[string]http.HandlerFunc // replaces the captcha's responses, by path
}

// enginePage is an open page.
type enginePage struct {
	*browsertest.Page
	t   *testing.T
	api string // the captcha's address for this page
}

// newEngineWorld starts servers and browser, and runs the test in parallel with others.
func newEngineWorld(t *testing.T, opts ...browsertest.Option) *engineWorld {
	t.Helper()
	t.Parallel()
	w := &engineWorld{t: t}
	host := func(name string, h http.HandlerFunc) browsertest.Option {
		server := httptest.NewTLSServer(h)
		t.Cleanup(server.Close)
		return browsertest.Host(name, server.URL)
	}

	w.browser = browsertest.New(t, append(opts, host("captcha.example.test", w.captcha), host("shop.example.test", w.shop))...)
	return w
}

// site returns the page whose number is the first segment of a path, and the rest of the path.
func (w *engineWorld) site(path string) (engineSite, string) {
	number, rest, _ := strings.Cut(path[1:], "/")
	w.mu.Lock()
	defer w.mu.Unlock()
	if i, err := strconv.Atoi(number); err == nil && i < len(w.sites) {
		return w.sites[i], "/" + rest
	}
	return engineSite{}, path
}

func (w *engineWorld) captcha(res http.ResponseWriter, r *http.Request) {
	site, path := w.site(r.URL.Path)
	if path == "/solver.js" {
		script, err := solverScript()
		if err != nil {
			w.t.Error(err)
		}

		res.Header().Set("Content-Type", "text/javascript")
		fmt.Fprint(res, script)
		return
	}

	if other := site.replace[path]; other != nil {
		res.Header().Set("Access-Control-Allow-Origin", "*")
		other(res, r)
		return
	}

	r.URL.Path = path
	assets.Handler().ServeHTTP(res, r)
}

func (w *engineWorld) shop(res http.ResponseWriter, r *http.Request) {
	site, _ := w.site(r.URL.Path)
	if site.csp != "" {
		res.Header().Set("Content-Security-Policy", strings.ReplaceAll(site.csp, "O", engineOrigin))
	}
	res.Header().Set("Content-Type", "text/html; charset=utf-8")
	fmt.Fprintf(res, `<!doctype html><link rel=icon href=data:,><script nonce="abc" src="%s/solver.js"></script>`, engineOrigin)
}

// open opens a page in the world's tab, with further scripts before its own.
func (w *engineWorld) open(t *testing.T, site engineSite, before ...string) *enginePage {
	t.Helper()
	w.mu.Lock()
	number := fmt.Sprintf("/%d", len(w.sites))
	w.sites = append(w.sites, site)
	w.mu.Unlock()

	if w.page == nil {
		w.page = w.browser.NewPage()
	} else {
		w.remove()
	}

	w.remove = w.page.Before(strings.Join(append(before, spy), "\n"))
	w.page.Goto("https://shop.example.test" + number)
	w.page.WaitFor("window.solve")

	return &enginePage{w.page, t, engineOrigin + number}
}

// solution is the outcome of a call of solve.
type solution struct {
	Nonce    uint64
	Failure  string // name of the error's class or type
	Progress [][2]int
	Seen     struct {
		Started, Ended int
		Worker, Page   []string
		Forbidden      []string
	}
}

// solve runs the solver in the page.
func (p *enginePage) solve(v solveVector) (s solution) {
	p.t.Helper()

	p.Eval(fmt.Sprintf(`(async () => {
		const result = { progress: [] };
		window.solving = true;
		try {
			result.nonce = await solve(%s, %q, (done, total) => result.progress.push([done, total]));
		} catch (problem) {
			result.failure = problem instanceof Unsupported ? "Unsupported" : problem instanceof Unreachable ? "Unreachable" : String(problem);
		}
		window.solving = false;
		return { ...result, seen };
	})()`, v.json(), p.api), &s)

	return s
}

// solveVector is a challenge with its answer.
type solveVector struct {
	Name       string   `json:"-"`
	Challenge  string   `json:"challenge"`
	Salt       string   `json:"salt"`
	Difficulty int      `json:"difficulty"`
	Secrets    []uint32 `json:"-"`
	Nonce      uint64   `json:"-"`
}

func (v solveVector) json() string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(b)
}

// readEngineVectors reads the challenges with a solution and those without, by name.
func readEngineVectors(t *testing.T) (solvable, unsolvable map[string]solveVector) {
	t.Helper()

	type vector struct {
		Name, Challenge, Salt string
		Difficulty            int
		Secrets               []uint32
		Nonce                 uint64
	}

	var file struct{ Solve, Unsolvable []vector }
	content, err := os.ReadFile(engineVectors)
	if err == nil {
		err = json.Unmarshal(content, &file)
	}
	if err != nil || len(file.Solve) < 10 || len(file.Unsolvable) < 10 {
		t.Fatalf("%s: %d and %d vectors, %v", engineVectors, len(file.Solve), len(file.Unsolvable), err)
	}

	solvable, unsolvable = map[string]solveVector{}, map[string]solveVector{}
	for _, v := range file.Solve {
		solvable[v.Name] = solveVector(v)
	}

	for _, v := range file.Unsolvable {
		unsolvable[v.Name] = solveVector(v)
	}

	return solvable, unsolvable
}

// noExceptions checks that the page's console has no uncaught exception or unhandled rejection.
func (p *enginePage) noExceptions() {
	p.t.Helper()
	for _, m := range p.Console() {
		if m.Level == "exception" || strings.Contains(m.Text, "Uncaught") {
			p.t.Errorf("console: %s: %s", m.Level, m.Text)
		}
	}
}

// requested reports whether the page requested a path of the captcha.
func (p *enginePage) requested(path string) bool {
	for _, r := range p.Requests() {
		if r.URL == p.api+path {
			return true
		}
	}
	return false
}
