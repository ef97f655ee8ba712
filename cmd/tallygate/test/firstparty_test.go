package test

import (
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/tools/browsertest"
	"github.com/tallygate/tallygate/tools/dbtest"
	"github.com/tallygate/tallygate/tools/testkit"
)

// firstPartyFolder has the files that docs/owner/first-party.md shows.
const firstPartyFolder = "first-party/"

// The website's host, and the address of the last hop in front of Tallygate, which trusts it.
const (
	websiteHost = "shop.localhost"
	hopAddress  = "127.0.0.8"
)

// transportFrom returns a transport that connects from an address of this machine.
func transportFrom(address string) *http.Transport {
	dialer := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(address)}}
	return &http.Transport{DialContext: dialer.DialContext}
}

// arrivals is a hop in front of Tallygate's data listener. It records the headers of each call,
// passes X-Forwarded-For on unchanged, and adds a header that belongs to Tallygate's own host.
type arrivals struct {
	mu      sync.Mutex
	headers []http.Header
	hosts   []string
	proxy   *httputil.ReverseProxy
}

func newArrivals(data string) *arrivals {
	target := &url.URL{Scheme: "http", Host: data}
	return &arrivals{proxy: &httputil.ReverseProxy{
		Transport: transportFrom(hopAddress),
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(target)
			r.Out.Header["X-Forwarded-For"] = r.In.Header["X-Forwarded-For"]
		},
		ModifyResponse: func(r *http.Response) error {
			r.Header.Set("Strict-Transport-Security", "max-age=31536000")
			return nil
		},
	}}
}

// ServeHTTP implements http.Handler.
func (a *arrivals) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	a.headers, a.hosts = append(a.headers, r.Header.Clone()), append(a.hosts, r.Host)
	a.mu.Unlock()
	a.proxy.ServeHTTP(w, r)
}

// take returns the headers of the calls since the last take.
func (a *arrivals) take() (headers []http.Header, hosts []string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	headers, hosts = a.headers, a.hosts
	a.headers, a.hosts = nil, nil
	return headers, hosts
}

// website is a website that serves Tallygate below /x/, through a proxy that each test starts.
type website struct {
	t        *testing.T
	p        *process
	owner    *testOwner
	site     testSite
	arrivals *arrivals
	plain    string // address of arrivals without TLS
	secure   string // and with TLS, as stats.example.com
	roots    string // file with the certificate of secure
	pages    string // address of the website's own pages
}

// openWebsite starts an instance that trusts the proxy, and the website's pages.
func openWebsite(t *testing.T) *website {
	t.Helper()
	w := &website{t: t}
	w.p = start(t, map[string]string{
		"TALLYGATE_DATA_DIR": t.TempDir(), "TALLYGATE_ALLOW_LOCAL_DOMAINS": "true", "TALLYGATE_CAPTCHA_DIFFICULTY": "1024",
		"TALLYGATE_FLOOD_BURST": "0", "TALLYGATE_TRUSTED_PROXIES": hopAddress,
	}, []string{"control", "data"})
	w.owner = newOwner(t, w.p)
	w.site = w.owner.signUp(websiteHost)

	w.arrivals = newArrivals(w.p.addr["data"])
	plain := httptest.NewServer(w.arrivals)
	t.Cleanup(plain.Close)
	w.plain = strings.TrimPrefix(plain.URL, "http://")

	w.roots = filepath.Join(t.TempDir(), "both.pem")
	writeCertificate(t, w.roots)
	w.secure = serveTLS(t, w.arrivals, w.roots)

	pages := httptest.NewServer(w.handler())
	t.Cleanup(pages.Close)
	w.pages = strings.TrimPrefix(pages.URL, "http://")
	return w
}

// handler returns the pages: all paths have the same one, with a form that /contact accepts.
func (w *website) handler() http.Handler {
	mux := contactPage(w.p)
	mux.HandleFunc("GET /", func(res http.ResponseWriter, r *http.Request) {
		res.Header().Set("Content-Type", "text/html; charset=utf-8")
		http.SetCookie(res, &http.Cookie{Name: "session", Value: "secret-of-the-shop", Path: "/"})
		fmt.Fprintf(res, `<!doctype html><html lang="en"><title>Shop</title><link rel="icon" href="data:,">
<script defer src="/x/app.js" data-site="%s"></script>
<form action="/contact" method="post"><textarea name="message"></textarea>
<div class="service-captcha" data-sitekey="%s"></div><button>Send</button></form>
<script defer src="/x/form.js"></script>`, w.site.SiteKey, model.TestSitekey)
	})
	return mux
}

// serveTLS serves a handler over TLS with a certificate and its key from one file.
func serveTLS(t *testing.T, handler http.Handler, file string) (addr string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	testkit.NoError(t, err)
	server := &http.Server{Handler: handler}
	ended := make(chan error, 1)
	go func() { ended <- server.ServeTLS(listener, file, file) }()
	t.Cleanup(func() {
		server.Close()
		<-ended
	})
	return listener.Addr().String()
}

// snippet returns a file of deploy/first-party with replacements. Each text to replace must occur
// in it.
func snippet(t *testing.T, name string, replacements ...string) string {
	t.Helper()
	text := readDeploy(t, firstPartyFolder+name)
	for i := 0; i < len(replacements); i += 2 {
		if !strings.Contains(text, replacements[i]) {
			t.Fatalf("%s has no %q", name, replacements[i])
		}
		text = strings.ReplaceAll(text, replacements[i], replacements[i+1])
	}
	return text
}

// runProxy runs a program until the test ends, and waits until it accepts connections at the
// address.
func runProxy(t *testing.T, addr string, cmd *exec.Cmd) (origin string) {
	t.Helper()
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	cmd.Stdout, cmd.Stderr = t.Output(), t.Output()
	testkit.NoError(t, dbtest.StartBound(cmd))
	t.Cleanup(func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		_ = cmd.Wait()
	})
	awaitListeners(t, "http://"+addr)
	return "http://" + addr
}

// nginxSite starts nginx with a server block of the website, which has the lines.
func (w *website) nginxSite(t *testing.T, lines string) (origin string) {
	t.Helper()
	program, dir, addr := requireTool(t, "nginx"), t.TempDir(), dbtest.FreeAddress(t)

	// The upstream has the name that the shipped lines look up.
	main := writeFile(t, dir, "nginx.conf", "events {}\nhttp {\n"+nginxFolders(dir)+"upstream stats.example.com { server "+w.secure+"; }\n"+
		"server {\nlisten "+addr+";\n"+lines+"\nlocation / { proxy_pass http://"+w.pages+"; access_log off; }\n}\n}\n")
	return runProxy(t, addr, exec.Command(program, nginxArgs(dir, main)...))
}

// firstPartyProxies starts each proxy with its shipped file, and returns the website's address.
var firstPartyProxies = map[string]func(*website, *testing.T) string{
	"nginx": func(w *website, t *testing.T) string {
		return w.nginxSite(t, snippet(t, "nginx.conf", "/etc/ssl/certs/ca-certificates.crt", w.roots))
	},

	"caddy": func(w *website, t *testing.T) string {
		program, dir, addr := requireTool(t, "caddy"), t.TempDir(), dbtest.FreeAddress(t)
		text := snippet(t, "Caddyfile", "shop.example.com {", "http://:"+portOf(addr)+" {\n\tbind 127.0.0.1",
			"https://stats.example.com", "http://"+w.plain, "127.0.0.1:3000", w.pages)
		return runProxy(t, addr, caddyCommand(program, dir, writeFile(t, dir, "Caddyfile", "{\n\tadmin off\n}\n"+text)))
	},

	"haproxy": func(w *website, t *testing.T) string {
		program, dir, addr := requireTool(t, "haproxy"), t.TempDir(), dbtest.FreeAddress(t)
		text := snippet(t, "haproxy.cfg", "\tbind :::443 v6only ssl crt /etc/haproxy/certificates/ alpn h2,http/1.1\n", "",
			"bind :443 ssl crt /etc/haproxy/certificates/ alpn h2,http/1.1", "bind "+addr,
			"127.0.0.1:3000", w.pages, "server stats stats.example.com:443", "server stats "+w.secure,
			"/etc/ssl/certs/ca-certificates.crt", w.roots)
		return runProxy(t, addr, exec.Command(program, "-db", "-f", writeFile(t, dir, "haproxy.cfg", "global\n\tmaxconn 500\n"+text)))
	},

	"apache": func(w *website, t *testing.T) string {
		program, dir, addr := requireTool(t, "apache2"), t.TempDir(), dbtest.FreeAddress(t)
		modules := ""
		for _, name := range []string{"mpm_event", "authz_core", "proxy", "proxy_http", "headers", "ssl"} {
			modules += "LoadModule " + name + "_module /usr/lib/apache2/modules/mod_" + name + ".so\n"
		}
		text := snippet(t, "apache.conf", "https://stats.example.com", "http://"+w.plain, "/etc/ssl/certs/ca-certificates.crt", w.roots)
		config := writeFile(t, dir, "apache.conf", modules+"ServerRoot "+dir+"\nPidFile "+dir+"/pid\nMutex file:"+dir+" default\n"+
			"ServerName "+websiteHost+"\nErrorLog "+dir+"/error.log\nListen "+addr+"\n<VirtualHost *:*>\n"+text+
			"\nProxyPass / http://"+w.pages+"/\n</VirtualHost>\n")
		return runProxy(t, addr, exec.Command(program, "-f", config, "-DFOREGROUND"))
	},

	"traefik": func(w *website, t *testing.T) string {
		program, dir, addr := requireTool(t, "traefik"), t.TempDir(), dbtest.FreeAddress(t)
		text := snippet(t, "traefik.yaml", "shop.example.com", websiteHost, "      tls: {}\n", "", "https://stats.example.com", "http://"+w.plain)
		text = strings.Replace(text, "  routers:\n", "  routers:\n    website:\n      rule: PathPrefix(`/`)\n      entryPoints: [websecure]\n"+
			"      service: website\n", 1) + "    website:\n      loadBalancer:\n        servers: [{url: \"http://" + w.pages + "\"}]\n"
		return runProxy(t, addr, exec.Command(program, "--providers.file.filename="+writeFile(t, dir, "traefik.yaml", text),
			"--entrypoints.websecure.address="+addr, "--global.checknewversion=false", "--global.sendanonymoususage=false"))
	},

	// The handlers of the platforms run in Node, with what the platforms give them.
	"cloudflare": func(w *website, t *testing.T) string { return w.edge(t, "cloudflare.mjs") },
	"netlify":    func(w *website, t *testing.T) string { return w.edge(t, "netlify.mjs") },
	"vercel":     func(w *website, t *testing.T) string { return w.edge(t, "vercel.mjs") },

	"workerd": func(w *website, t *testing.T) string {
		addr := dbtest.FreeAddress(t)
		dir := w.edgeFiles(t)
		linkModules(t, dir)
		run := writeFile(t, dir, "run.mjs", `import { Miniflare } from 'miniflare';
new Miniflare({ modules: true, modulesRoot: '.', scriptPath: 'cloudflare.mjs', modulesRules: [{ type: 'ESModule', include: ['**/*.mjs'] }],
  compatibilityDate: '2026-01-01', host: '127.0.0.1', port: `+portOf(addr)+` });`)
		cmd := exec.Command("node", run)
		cmd.Dir = dir
		return w.front(t, runProxy(t, addr, cmd), "CF-Connecting-IP")
	},

	"next": func(w *website, t *testing.T) string {
		addr, dir := dbtest.FreeAddress(t), t.TempDir()
		linkModules(t, dir)
		writeFile(t, dir, "package.json", `{"type": "module"}`)
		writeFile(t, dir, "proxy.js", snippet(t, "next.mjs"))
		writeFile(t, dir, "forward.mjs", snippet(t, "forward.mjs", "https://stats.example.com", "http://"+w.plain))
		testkit.NoError(t, os.Mkdir(filepath.Join(dir, "app"), 0o700))
		writeFile(t, filepath.Join(dir, "app"), "layout.jsx", `export default ({ children }) => <html lang="en"><body>{children}</body></html>;`)
		writeFile(t, filepath.Join(dir, "app"), "page.jsx", `export default () => <p>Shop</p>;`)

		next := filepath.Join(dir, "node_modules/next/dist/bin/next")
		build := exec.Command("node", next, "build", "--webpack") // Turbopack refuses linked packages
		build.Dir, build.Env = dir, append(os.Environ(), "NEXT_TELEMETRY_DISABLED=1")
		if out, err := build.CombinedOutput(); err != nil {
			t.Fatalf("next build: %v\n%s", err, out)
		}
		serve := exec.Command("node", next, "start", "-H", "127.0.0.1", "-p", portOf(addr))
		serve.Dir, serve.Env = dir, build.Env
		return w.front(t, runProxy(t, addr, serve), "X-Forwarded-For")
	},
}

// front is what stands in front of a Worker or of Next.js: it names the visitor in a header, and
// sends only paths below /x/ to the program.
func (w *website) front(t *testing.T, program, header string) (origin string) {
	t.Helper()
	server := httptest.NewServer(&httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		to := &url.URL{Scheme: "http", Host: w.pages}
		if strings.HasPrefix(r.In.URL.Path, "/x/") {
			to.Host = strings.TrimPrefix(program, "http://")
		}
		r.SetURL(to)
		visitor, _, _ := net.SplitHostPort(r.In.RemoteAddr)
		r.Out.Header.Set(header, visitor)
	}})
	t.Cleanup(server.Close)
	return server.URL
}

// modulesFolder names a folder with the npm packages next, react, react-dom and miniflare, which
// are too large for every machine.
const modulesFolder = "TALLYGATE_TEST_NODE_MODULES"

// isAbsent reports whether a proxy that neither Debian nor "make setup" has is not on this machine.
func isAbsent(proxy string) bool {
	switch proxy {
	case "traefik":
		_, err := exec.LookPath(proxy)
		return err != nil
	case "next":
		return !hasModule("next")
	case "workerd":
		return !hasModule("miniflare")
	}
	return false
}

// hasModule reports whether the folder of npm packages has a package.
func hasModule(name string) bool {
	modules := os.Getenv(modulesFolder)
	_, err := os.Stat(filepath.Join(modules, name))
	return modules != "" && err == nil
}

// linkModules lets the programs of a folder import npm packages.
func linkModules(t *testing.T, dir string) {
	t.Helper()
	testkit.NoError(t, os.Symlink(os.Getenv(modulesFolder), filepath.Join(dir, "node_modules")))
}

// edgeFiles writes the handlers of the platforms to a folder, with the test's server.
func (w *website) edgeFiles(t *testing.T) (dir string) {
	t.Helper()
	dir = t.TempDir()
	for _, name := range []string{"cloudflare.mjs", "netlify.mjs", "vercel.mjs"} {
		writeFile(t, dir, name, snippet(t, name))
	}
	writeFile(t, dir, "forward.mjs", snippet(t, "forward.mjs", "https://stats.example.com", "http://"+w.plain))
	return dir
}

// edge runs the handler of a platform in Node.
func (w *website) edge(t *testing.T, name string) (origin string) {
	t.Helper()
	program, addr := requireTool(t, "node"), dbtest.FreeAddress(t)
	return runProxy(t, addr, exec.Command(program, "testdata/edge.mjs", filepath.Join(w.edgeFiles(t), name), addr, "http://"+w.pages))
}

func portOf(addr string) string {
	_, port, _ := net.SplitHostPort(addr)
	return port
}

// visitorFrom is a visitor with an address of this machine, who sends what browsers and attackers
// send.
func visitorFrom(t *testing.T, address string) *http.Client {
	t.Helper()
	transport := transportFrom(address)
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: patience, CheckRedirect: noRedirect}
}

// evaluated are headers of a browser that the server evaluates, and that arrive unchanged.
var evaluated = map[string]string{
	"User-Agent":         firefox,
	"Accept-Language":    "de-AT, de;q=0.7",
	"Sec-Ch-Ua":          `"Chromium";v="145", "Vivaldi";v="7.6"`,
	"Sec-Ch-Ua-Mobile":   "?0",
	"Sec-Ch-Ua-Platform": `"Linux"`,
}

// call sends a request with the headers that a browser adds on a page of the website.
func call(t *testing.T, client *http.Client, method, address, origin, body string) (status int, header http.Header, answer string) {
	t.Helper()
	to, err := url.Parse(address)
	testkit.NoError(t, err)
	sends := map[string]string{
		"Host":            websiteHost + ":" + to.Port(),
		"Cookie":          "session=secret-of-the-shop",
		"Authorization":   "Basic c2hvcDpzZWNyZXQ=",
		"Referer":         "http://" + websiteHost + "/reset?token=secret-of-the-page",
		"X-Forwarded-For": "203.0.113.9",
	}
	maps.Copy(sends, evaluated)
	if origin != "" {
		sends["Origin"], sends["Content-Type"] = origin, "text/plain;charset=UTF-8"
	}
	response, answer := exchange(t, client, method, address, body, sends)
	return response.StatusCode, response.Header, answer
}

// TestDeployFirstParty runs each proxy with its file of deploy/first-party in front of pages of a
// website: scripts arrive unchanged under their new names, hits with the visitors' addresses and
// without the website's cookies, and pages of other websites are refused. In a browser, a page view
// is stored and the captcha's token is genuine.
func TestDeployFirstParty(t *testing.T) {
	testkit.SkipLong(t, "the proxies of deploy/first-party")
	t.Parallel()
	w := openWebsite(t)

	for name, run := range firstPartyProxies {
		if isAbsent(name) {
			t.Logf("not run: %s", name)
			continue
		}
		t.Run(name, func(t *testing.T) {
			origin := run(w, t)
			w.wantScripts(t, origin)
			w.wantVisitors(t, origin, "/"+name)
			w.wantBrowser(t, origin, "/browser-"+name)
			for _, script := range []string{"/x/app.js", "/x/form.js"} {
				if findings, status := examineSite(t, w.p.addr["data"], origin+script); len(findings) > 0 || status != 0 {
					t.Errorf("doctor --site %s: status %d, %v", script, status, findings)
				}
			}
		})
	}
}

// wantScripts compares the files below /x/ with the server's files.
func (w *website) wantScripts(t *testing.T, origin string) {
	t.Helper()
	client := visitorFrom(t, "127.0.0.1")
	for path, file := range map[string]string{
		"/x/app.js": "/svc.js", "/x/form.js": "/captcha.js", "/x/svc.js": "/svc.js", "/x/captcha.js?v=1": "/captcha.js",
		"/x/captcha-worker.js": "/captcha-worker.js", "/x/captcha.wasm": "/captcha.wasm", "/x/captcha-scalar.wasm": "/captcha-scalar.wasm",
	} {
		_, want := get(t, "http://"+w.p.addr["data"]+file)
		status, header, got := call(t, client, http.MethodGet, origin+path, "", "")
		if status != http.StatusOK || got != want || header.Get("X-Content-Type-Options") != "nosniff" ||
			header.Get("Cache-Control") != "public, max-age=3600" {
			t.Errorf("%s: %d, %d bytes of %d, %v", path, status, len(got), len(want), header)
		}
		if header.Get("Strict-Transport-Security") != "" || header.Get("Set-Cookie") != "" {
			t.Errorf("%s has headers of another host: %v", path, header)
		}
	}
}

// wantVisitors sends page views of two visitors, and one of another website.
func (w *website) wantVisitors(t *testing.T, origin, path string) {
	t.Helper()
	w.arrivals.take()
	body := fmt.Sprintf(`{"k":"%s","t":"pageview","p":"%s"}`, w.site.SiteKey, path)

	for _, address := range []string{"127.0.0.2", "127.0.0.3"} {
		client := visitorFrom(t, address)
		if status, header, text := call(t, client, http.MethodPost, origin+"/x/collect.php", "http://"+websiteHost, body); status != 204 ||
			header.Get("Access-Control-Allow-Origin") != "http://"+websiteHost {
			t.Errorf("a page view from %s: %d %s %v", address, status, text, header)
		}

		headers, hosts := w.arrivals.take()
		for i, header := range headers {
			hops := strings.Split(strings.Join(header["X-Forwarded-For"], ","), ",")
			if last := strings.TrimSpace(hops[len(hops)-1]); last != address {
				t.Errorf("X-Forwarded-For of the visitor at %s is %q", address, header["X-Forwarded-For"])
			}
			for _, secret := range []string{"Cookie", "Authorization", "Referer"} {
				testkit.Equal(t, header.Get(secret), "", "the server receives %s", secret)
			}
			for name, want := range evaluated {
				if got := header.Values(name); len(got) != 1 || got[0] != want {
					t.Errorf("the server receives %s: %q, want %q", name, got, want)
				}
			}
			if hosts[i] != "stats.example.com" && hosts[i] != w.plain {
				t.Errorf("the server is called as %s", hosts[i])
			}
		}
		testkit.Equal(t, len(headers), 1, "calls have arrived")
	}

	client := visitorFrom(t, "127.0.0.4")
	status, _, text := call(t, client, http.MethodPost, origin+"/x/collect.php", "http://other.localhost", body)
	if status != http.StatusForbidden || !strings.Contains(text, "domain_not_allowed") {
		t.Errorf("a page view of another website: %d %s", status, text)
	}
	if status, _, text := call(t, client, http.MethodGet, origin+"/x/collect.php", "", ""); status != 405 ||
		!strings.Contains(text, "method_not_allowed") {
		t.Errorf("a GET of collect.php: %d %s", status, text)
	}

	var visitors []any
	for _, row := range w.owner.export(w.site.ID) {
		if row["path"] == path {
			visitors = append(visitors, row["visitor_id"])
		}
	}
	if len(visitors) != 2 || visitors[0] == visitors[1] {
		t.Errorf("stored page views of the visitors %v, want two", visitors)
	}
}

// wantBrowser opens a page of the website, and sends its form.
func (w *website) wantBrowser(t *testing.T, origin, path string) {
	t.Helper()
	browser := browsertest.New(t, browsertest.Host(websiteHost, origin))
	page := browser.Open(strings.Replace(origin, "127.0.0.1", websiteHost, 1) + path)
	page.WaitFor(sent + " >= 1")
	page.WaitFor(`document.querySelector('.service-captcha.is-idle')`)
	page.Click("textarea")
	page.WaitFor(`document.querySelector('.service-captcha.is-done')`)

	var loaded []string
	page.Eval(`performance.getEntriesByType('resource').map((r) => r.name).filter((name) => new URL(name).origin !== location.origin)`, &loaded)
	if loaded = slices.DeleteFunc(loaded,
		func(name string) bool { return strings.HasPrefix(name, "data:") || strings.HasPrefix(name, "blob:") }); len(loaded) > 0 {
		t.Errorf("the page loads %v from other hosts", loaded)
	}
	wantQuietConsole(t, page)
	page.Click("form button:not([role])")
	page.WaitFor(`location.pathname === '/contact' && document.body.textContent === 'accepted'`)

	stored := slices.ContainsFunc(w.owner.export(w.site.ID), func(row map[string]any) bool { return row["path"] == path })
	if !stored {
		t.Errorf("the page view of %s is not stored", path)
	}
}

// websiteProxy is the address of a website's proxy that calls Tallygate's own proxy. The document
// names another one.
const websiteProxy, websiteProxyInDocument = "127.0.0.7", "198.51.100.7"

// addedLine returns a line that docs/owner/first-party.md adds to the proxy in front of Tallygate, for
// the test's address.
func addedLine(t *testing.T, line string) string {
	t.Helper()
	if !strings.Contains(readFile(t, "../../../docs/owner/first-party.md"), "`"+line+"`") {
		t.Fatalf("the document has no %q", line)
	}
	return strings.ReplaceAll(line, websiteProxyInDocument, websiteProxy)
}

// TestProxyKeepsAddressesOfWebsites: with the lines of docs/owner/first-party.md, the shipped proxies in
// front of Tallygate pass on the address that a website's proxy names, and no address that a
// visitor claims.
func TestProxyKeepsAddressesOfWebsites(t *testing.T) {
	testkit.SkipLong(t, "proxies")
	t.Parallel()

	for name, additions := range map[string]func() []string{
		"nginx": func() []string {
			const line = "\tproxy_set_header X-Forwarded-For $remote_addr;\n"
			return []string{
				line,
				addedLine(t, "set_real_ip_from 198.51.100.7;") + "\n" + addedLine(t, "real_ip_header X-Forwarded-For;") + "\n" + line,
			}
		},
		"haproxy": func() []string {
			const line = "http-request set-header X-Forwarded-For %[src]\n"
			return []string{line, strings.TrimSuffix(line, "\n") + " " + addedLine(t, "unless { src 198.51.100.7 }") + "\n"}
		},
	} {
		t.Run(name, func(t *testing.T) {
			var requests sync.Map
			balancer, shipped := loadBalancers[name], loadBalancers[name].test
			balancer.test = func(dir string) []string { return append(additions(), shipped(dir)...) }
			node := recorder(t, "node", &requests)
			addr, roots, _ := balancer.start(t, map[string]string{
				"10.0.0.11:8081": node, "10.0.0.12:8081": node, "10.0.0.11:8080": node, "10.0.0.12:8080": node,
			})
			for from, want := range map[string]string{websiteProxy: "203.0.113.9", "127.0.0.6": "127.0.0.6"} {
				if got := forwardedBy(t, clientTo(t, addr, roots, from), "https://stats.example.com", &requests); got != want {
					t.Errorf("from %s: X-Forwarded-For %q, want %q", from, got, want)
				}
			}
		})
	}

	t.Run("caddy", func(t *testing.T) {
		var requests sync.Map
		program, dir, addr := requireTool(t, "caddy"), t.TempDir(), dbtest.FreeAddress(t)
		config := writeFile(t, dir, "Caddyfile", "{\nadmin off\n}\nhttp://:"+portOf(addr)+" {\nbind 127.0.0.1\nreverse_proxy "+
			recorder(t, "node", &requests)+" {\n"+addedLine(t, "trusted_proxies 198.51.100.7")+"\n}\n}\n")
		origin := runProxy(t, addr, caddyCommand(program, dir, config))

		// Caddy adds the address that connects, so Tallygate must trust the website's proxy, too.
		for from, want := range map[string]string{websiteProxy: "203.0.113.9, " + websiteProxy, "127.0.0.6": "127.0.0.6"} {
			testkit.Equal(t, forwardedBy(t, visitorFrom(t, from), origin, &requests), want, "from %s: X-Forwarded-For", from)
		}
	})
}

// forwardedBy returns the X-Forwarded-For that arrives behind a proxy if the client sends
// 203.0.113.9.
func forwardedBy(t *testing.T, client *http.Client, origin string, requests *sync.Map) string {
	t.Helper()
	response, _ := exchange(t, client, http.MethodPost, origin+"/collect.php", "{}",
		map[string]string{"X-Id": "1", "X-Forwarded-For": "203.0.113.9", "Origin": "https://shop.example.com"})
	found, ok := requests.LoadAndDelete("1")
	if !ok || response.StatusCode != http.StatusNoContent {
		t.Fatalf("status %d, and the call has reached the node: %t", response.StatusCode, ok)
	}
	return found.(seen).address
}
