package solver_test

import (
	"fmt"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tallygate/tallygate/dataplane/captcha/pow"
	assets "github.com/tallygate/tallygate/frontend-assets"
	"github.com/tallygate/tallygate/tools/browsertest"
	"github.com/tallygate/tallygate/tools/testkit"
)

// contractPolicy is the captcha contract's Content-Security-Policy (section 5), with O for the
// captcha's origin.
const contractPolicy = "script-src O; connect-src O; worker-src blob:"

// TestChromiumSolverFindsAWay solves one challenge in pages that forbid or lack features. The
// solver must find the same nonce each time, with the fastest engine that remains.
func TestChromiumSolverFindsAWay(t *testing.T) {
	w := newEngineWorld(t)
	solvable, _ := readEngineVectors(t)
	v := solvable["difficulty 16,384"]

	const inWorkers, inPage = true, false
	for _, test := range []struct {
		name    string
		csp     string
		before  string // script before the page's own
		replace map[string]http.HandlerFunc
		where   bool
		engine  string
		module  string // what is fetched of WebAssembly
	}{
		{name: "no policy", where: inWorkers, engine: "wasm", module: "/captcha.wasm"},
		{name: "the contract's policy", csp: contractPolicy, where: inWorkers, engine: "js"},
		{name: "the contract's policy with wasm-unsafe-eval", csp: "script-src O 'wasm-unsafe-eval'; connect-src O; worker-src blob:",
			where: inWorkers, engine: "wasm", module: "/captcha.wasm"},
		{
			name: "a nonce and strict-dynamic",
			csp:  "script-src 'nonce-abc' 'strict-dynamic'; worker-src blob:; base-uri 'none'", where: inWorkers,
			engine: "js",
		},
		{name: "strict-dynamic, which allows workers too", csp: "script-src 'nonce-abc' 'strict-dynamic'", where: inWorkers, engine: "js"},
		{name: "a nonce without workers", csp: "script-src 'nonce-abc'", where: inPage, engine: "js"},
		{name: "no worker-src", csp: "script-src O; connect-src O", where: inPage, engine: "js"},
		{
			name: "no worker-src with wasm-unsafe-eval", csp: "script-src O 'wasm-unsafe-eval'; connect-src O",
			where: inPage, engine: "wasm", module: "/captcha.wasm",
		},
		{name: "trusted types", csp: "require-trusted-types-for 'script'", where: inWorkers, engine: "wasm", module: "/captcha.wasm"},
		{name: "trusted types, our policy allowed", csp: contractPolicy + "; require-trusted-types-for 'script'; trusted-types service-captcha",
			where: inWorkers, engine: "js"},
		{
			name: "trusted types, other policies only", csp: "require-trusted-types-for 'script'; trusted-types other",
			where: inPage, engine: "wasm", module: "/captcha.wasm",
		},
		{name: "trusted types, not required", csp: "trusted-types other", where: inWorkers, engine: "wasm", module: "/captcha.wasm"},
		{name: "no connect-src", csp: "script-src O; connect-src 'self'; worker-src blob:", where: inPage, engine: "js"},
		{name: "connections to elsewhere only, wasm-unsafe-eval", csp: "script-src O 'wasm-unsafe-eval'; connect-src 'self'; worker-src blob:",
			where: inPage, engine: "js"},
		{name: "no WebAssembly", before: "delete window.WebAssembly", where: inWorkers, engine: "js"},
		{name: "no SIMD", before: "WebAssembly.validate = () => false", where: inWorkers, engine: "wasm", module: "/captcha-scalar.wasm"},
		{
			name:   "WebAssembly that cannot be compiled",
			before: "WebAssembly.Module = function () { throw new TypeError() }", where: inWorkers, engine: "js",
		},
		{
			name: "module missing", replace: map[string]http.HandlerFunc{"/captcha.wasm": http.NotFound},
			where: inWorkers, engine: "js", module: "/captcha.wasm",
		},
		{name: "module broken", replace: map[string]http.HandlerFunc{"/captcha.wasm": answerText("\x00asm\x01\x00\x00\x00\x05")},
			where: inWorkers, engine: "js", module: "/captcha.wasm"},
		{name: "module is a page", replace: map[string]http.HandlerFunc{"/captcha.wasm": answerText("<!doctype html>")},
			where: inWorkers, engine: "js", module: "/captcha.wasm"},
		{name: "no Worker", before: "delete window.Worker", where: inPage, engine: "wasm", module: "/captcha.wasm"},
		{name: "Worker throws", before: "window.Worker = class { constructor() { throw new DOMException('', 'SecurityError') } }",
			where: inPage, engine: "wasm", module: "/captcha.wasm"},
		{name: "worker breaks while it works", before: `{ const plain = Worker; window.Worker = class extends plain { postMessage(m) {
			typeof m === "number" && m === 7 ? this.dispatchEvent(new ErrorEvent("error")) : super.postMessage(m) } } }`,
			where: inPage, engine: "wasm", module: "/captcha.wasm"},
		{
			name: "blob addresses forbidden", before: "URL.createObjectURL = () => { throw new TypeError() }",
			where: inPage, engine: "wasm", module: "/captcha.wasm",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			page := w.open(t, engineSite{test.csp, test.replace}, test.before)
			s := page.solve(v)
			if s.Failure != "" || s.Nonce != v.Nonce {
				t.Fatalf("nonce %d, failure %q, want %d\nconsole: %v", s.Nonce, s.Failure, v.Nonce, page.Console())
			}

			ran := s.Seen.Worker

			if test.where == inPage {
				ran = s.Seen.Page
			} else if len(s.Seen.Page) > 0 {
				t.Errorf("ran in the page, although workers may: %v", s.Seen.Page)
			}

			if names := slices.Compact(slices.Sorted(slices.Values(ran))); !slices.Equal(names, []string{test.engine}) {
				t.Errorf("ran with %v, want %s", names, test.engine)
			}

			for _, module := range []string{"/captcha.wasm", "/captcha-scalar.wasm"} {
				testkit.Equal(t, page.requested(module), module == test.module, "%s requested", module)
			}

			testkit.Equal(t, s.Seen.Started, s.Seen.Ended, "workers were started, %d ended", s.Seen.Ended)
			if len(s.Seen.Forbidden) > 0 {
				t.Errorf("called %v", s.Seen.Forbidden)
			}
			if test.before == "" && len(s.Progress) != 17 {
				t.Errorf("progress %v", s.Progress)
			}

			page.noExceptions()
		})
	}
}

// TestChromiumSolverDetectsAnEarlyRefusal delays the WebAssembly module until a policy has refused
// the worker. The solver must finish in the page, although no request had been sent to the worker
// yet.
func TestChromiumSolverDetectsAnEarlyRefusal(t *testing.T) {
	w := newEngineWorld(t)
	solvable, _ := readEngineVectors(t)
	v := solvable["difficulty 16,384"]
	refused := make(chan struct{})
	report := sync.OnceFunc(func() { close(refused) })
	page := w.open(t, engineSite{
		csp: "script-src O 'wasm-unsafe-eval'; connect-src O",
		replace: map[string]http.HandlerFunc{
			"/refused": func(http.ResponseWriter, *http.Request) { report() },
			"/captcha.wasm": func(res http.ResponseWriter, r *http.Request) {
				select {
				case <-refused:
				case <-r.Context().Done():
				}
				r.URL.Path = "/captcha.wasm"
				assets.Handler().ServeHTTP(res, r)
			},
		},
	}, reportRefusal)
	s := page.solve(v)
	if s.Failure != "" || s.Nonce != v.Nonce {
		t.Fatalf("nonce %d, failure %q, want %d\nconsole: %v", s.Nonce, s.Failure, v.Nonce, page.Console())
	}
	if s.Seen.Started == 0 || s.Seen.Started != s.Seen.Ended || len(s.Seen.Worker) > 0 || len(s.Seen.Page) == 0 {
		t.Errorf("%d workers were started, %d ended; they answered %v, the page %v", s.Seen.Started, s.Seen.Ended, s.Seen.Worker, s.Seen.Page)
	}

	select {
	case <-refused:
	default:
		t.Error("no worker was refused")
	}

	page.noExceptions()
}

// reportRefusal makes each worker send a request to the captcha's server at its error event, after
// all other listeners in the page.
const reportRefusal = `window.Worker = class extends Worker {
	constructor(url) {
		super(url);
		this.addEventListener("error", () => {
			const { port1, port2 } = new MessageChannel();
			port1.onmessage = () => fetch("` + engineOrigin + `" + location.pathname + "/refused");
			port2.postMessage(0);
		});
	}
};`

// answerText returns a handler that answers with a text.
func answerText(content string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(content)) }
}

func TestChromiumSolverGivesUp(t *testing.T) {
	w := newEngineWorld(t)
	solvable, _ := readEngineVectors(t)

	away := func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) }
	for _, test := range []struct {
		name    string
		csp     string
		replace map[string]http.HandlerFunc
		want    string
	}{
		{"engines away", "", map[string]http.HandlerFunc{"/captcha-worker.js": away, "/captcha.wasm": away}, "Unreachable"},
		{"engines moved", "", map[string]http.HandlerFunc{"/captcha-worker.js": http.NotFound}, "Unreachable"},
		{
			name: "connection cut", csp: "",
			replace: map[string]http.HandlerFunc{"/captcha-worker.js": func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }},
			want:    "Unreachable",
		},
		{"policy forbids to fetch and to load", "script-src O/solver.js; connect-src 'none'; worker-src blob:", nil, "Unreachable"},
		{"policy forbids workers and to load", "script-src O/solver.js; connect-src O", nil, "Unsupported"},
	} {
		t.Run(test.name, func(t *testing.T) {
			page := w.open(t, engineSite{test.csp, test.replace})
			if s := page.solve(solvable["least difficulty"]); s.Failure != test.want || s.Seen.Started != s.Seen.Ended {
				t.Errorf("failed with %q, want %q; %d workers started, %d ended", s.Failure, test.want, s.Seen.Started, s.Seen.Ended)
			}
			page.noExceptions()
		})
	}
}

// TestChromiumSolverRejectsUnsolvable solves every unsolvable vector, in workers and in the page.
func TestChromiumSolverRejectsUnsolvable(t *testing.T) {
	w := newEngineWorld(t)
	_, unsolvable := readEngineVectors(t)
	for _, before := range []string{"", "delete window.Worker"} {
		t.Run(before, func(t *testing.T) {
			page := w.open(t, engineSite{}, before)
			for _, v := range unsolvable {
				if s := page.solve(v); s.Failure != "Unsupported" || s.Seen.Started != s.Seen.Ended {
					t.Errorf("%s: nonce %d, failure %q; %d workers started, %d ended", v.Name, s.Nonce, s.Failure, s.Seen.Started, s.Seen.Ended)
				}
			}
			page.noExceptions()
		})
	}
}

// TestChromiumSolverWithoutJIT runs JavaScript uncompiled and without WebAssembly, as in the
// lockdown mode of iOS. The browser's own SHA-256 is then faster, but only pages with TLS have it.
func TestChromiumSolverWithoutJIT(t *testing.T) {
	w := newEngineWorld(t, browsertest.WithFlag("js-flags", "--jitless"))

	// JavaScript is measured up to 16,384 hashes. The challenge takes hardly more, 21,321, because
	// the browser computes only a few thousand per second.
	keys, err := pow.New(strings.NewReader("whatever looks like it was drawn"), pow.Key{Secret: []byte("a secret for tests")})
	testkit.NoError(t, err)

	c := keys.Issue("svck_TestTestTestTestTestTest", 21_000, time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC))
	nonce, err := pow.Solve(c)
	testkit.NoError(t, err)

	v := solveVector{Challenge: c.Challenge, Salt: c.Salt, Difficulty: int(c.Difficulty), Nonce: nonce}
	for _, test := range []struct{ name, before, engine string }{
		// Several workers would share the work, and none would measure enough of it.
		{"https", "Object.defineProperty(Navigator.prototype, 'hardwareConcurrency', { get: () => 2 })", "subtle"},
		{"https, in the page", "delete window.Worker", "subtle"},
		{"http", "delete window.Worker; delete window.crypto", "js"},
	} {
		page := w.open(t, engineSite{}, test.before)
		s := page.solve(v)
		ran := append(s.Seen.Worker, s.Seen.Page...)
		if s.Nonce != v.Nonce || ran[0] != "js" || ran[len(ran)-1] != test.engine {
			t.Errorf("%s: nonce %d, failure %q, want %d; engines %v", test.name, s.Nonce, s.Failure, v.Nonce, ran)
		}

		page.noExceptions()
	}
}

// TestChromiumSolverProgress checks that the start and each sixteenth are reported once, in order.
func TestChromiumSolverProgress(t *testing.T) {
	w := newEngineWorld(t)
	solvable, _ := readEngineVectors(t)

	var want [][2]int
	for i := range 17 {
		want = append(want, [2]int{i, 16})
	}

	if s := w.open(t, engineSite{}).solve(solvable["difficulty 16,384"]); !slices.Equal(s.Progress, want) {
		t.Errorf("progress %v", s.Progress)
	}
}

// TestChromiumSolverCountsProcessors checks the number of workers: one fewer than processors,
// between one and four.
func TestChromiumSolverCountsProcessors(t *testing.T) {
	w := newEngineWorld(t)
	solvable, _ := readEngineVectors(t)
	for processors, want := range map[string]int{"undefined": 2, "1": 1, "2": 1, "3": 2, "4": 3, "5": 4, "64": 4} {
		page := w.open(t, engineSite{}, "Object.defineProperty(Navigator.prototype, 'hardwareConcurrency', { get: () => "+processors+" })")
		v := solvable["least difficulty"]
		if s := page.solve(v); s.Nonce != v.Nonce || s.Seen.Started != want || s.Seen.Ended != want {
			t.Errorf("%s processors: %d workers started, %d ended, want %d; nonce %d, failure %q",
				processors, s.Seen.Started, s.Seen.Ended, want, s.Nonce, s.Failure)
		}
	}
}

// TestChromiumSolverYieldsToThePage counts the other tasks that run while the page itself works.
func TestChromiumSolverYieldsToThePage(t *testing.T) {
	w := newEngineWorld(t)
	solvable, _ := readEngineVectors(t)
	v := solvable["difficulty 131,072"]
	page := w.open(t, engineSite{}, "delete window.Worker; delete window.WebAssembly")
	var got struct {
		Nonce   uint64
		Turns   int
		Longest float64
	}

	page.Eval(fmt.Sprintf(`(async () => {
		let turns = 0, longest = 0, last = performance.now(), on = true;
		const { port1, port2 } = new MessageChannel();
		port1.onmessage = () => {
			const now = performance.now();
			longest = Math.max(longest, now - last);
			last = now;
			turns++;
			if (on) port2.postMessage(0);
		};
		await solve(%[1]s, %[2]q, () => {}); // the script is there now
		last = performance.now();
		port2.postMessage(0);
		turns = longest = 0;
		const nonce = await solve(%[1]s, %[2]q, () => {});
		on = false;
		return { nonce, turns, longest };
	})()`, v.json(), page.api), &got)

	t.Logf("%d turns of other tasks, at most %.1f ms apart", got.Turns, got.Longest)

	// More than 100,000 hashes of JavaScript take at least two slices of twelve milliseconds on any
	// machine.
	if got.Nonce != v.Nonce || got.Turns < 2 {
		t.Errorf("nonce %d, want %d; other tasks had %d turns", got.Nonce, v.Nonce, got.Turns)
	}
}

// TestChromiumSolverStops aborts at each stage: before the start, while the engines are fetched,
// and during the work.
func TestChromiumSolverStops(t *testing.T) {
	release := make(chan struct{})
	w := newEngineWorld(t)
	t.Cleanup(func() { close(release) })
	slow := map[string]http.HandlerFunc{"/slow/captcha-worker.js": func(http.ResponseWriter, *http.Request) { <-release }}
	solvable, _ := readEngineVectors(t)
	v := solvable["difficulty 131,072"]
	for _, before := range []string{"", "delete window.Worker"} {
		t.Run(before, func(t *testing.T) {
			page := w.open(t, engineSite{replace: slow}, before)
			abort := `(async (path, when) => {
				const controller = new AbortController();
				let reported = 0;
				const progress = (done) => { reported += done > 0; if (done && when === "working") controller.abort() };
				if (when === "before") controller.abort();
				const solved = solve(%s, %q + path, progress, controller.signal);
				if (when === "at once") controller.abort();
				const outcome = await solved.then(() => "solved", (problem) => problem.name);
				return outcome + " " + reported;
			})`

			abort = fmt.Sprintf(abort, v.json(), page.api)
			for call, want := range map[string]string{
				`("", "before")`:       "AbortError 0",
				`("", "at once")`:      "AbortError 0",
				`("/slow", "at once")`: "AbortError 0",
				`("", "working")`:      "AbortError 1",
				`("", "never")`:        "solved 16",
			} {
				var got string
				page.Eval(abort+call, &got)

				testkit.Equal(t, got, want, "%s", call)
			}

			// Workers that started late must have ended too when a later solve is done.
			s := page.solve(v)
			if s.Nonce != v.Nonce || s.Seen.Started != s.Seen.Ended {
				t.Errorf("afterwards: nonce %d, failure %q; %d workers started, %d ended", s.Nonce, s.Failure, s.Seen.Started, s.Seen.Ended)
			}

			page.noExceptions()
		})
	}
}

// TestChromiumSolverOnPlainHTTP solves a challenge without crypto.subtle and WebAssembly.
func TestChromiumSolverOnPlainHTTP(t *testing.T) {
	w := newEngineWorld(t)
	solvable, _ := readEngineVectors(t)
	v := solvable["difficulty 16,384"]
	page := w.open(t, engineSite{}, "delete Crypto.prototype.subtle; delete window.WebAssembly")
	if s := page.solve(v); s.Nonce != v.Nonce {
		t.Errorf("nonce %d, failure %q, want %d", s.Nonce, s.Failure, v.Nonce)
	}
}

// TestSolverUsesNoTimers searches the scripts for timers, which browsers throttle in hidden tabs,
// and for code that runs text as code.
func TestSolverUsesNoTimers(t *testing.T) {
	solver, err := solverScript()
	testkit.NoError(t, err)

	worker, err := os.ReadFile("../../dist/captcha-worker.js")
	testkit.NoError(t, err)

	forbidden := regexp.MustCompile(`setTimeout|setInterval|requestAnimationFrame|requestIdleCallback|\beval\b|\bFunction\(`)
	for name, script := range map[string]string{"solver": solver, "worker": string(worker)} {
		if found := forbidden.FindString(script); found != "" || len(script) < 1000 {
			t.Errorf("the %s of %d bytes contains %q", name, len(script), found)
		}
	}
}
