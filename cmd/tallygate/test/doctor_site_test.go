package test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/tallygate/tallygate/cmd/tallygate/doctor"
)

// examineSite runs the doctor on a website's script, and returns its findings as "level check".
func examineSite(t *testing.T, data, script string) (findings []string, status int) {
	t.Helper()
	status, out, logged := tallygate(t, map[string]string{"TALLYGATE_DATA_DIR": t.TempDir(), "TALLYGATE_ANALYTICS_URL": "http://" + data},
		"doctor", "--json", "--site", script)
	var report doctor.Report
	if err := json.Unmarshal([]byte(out), &report); err != nil {
		t.Fatalf("status %d, %v: %s\n%s", status, err, out, logged)
	}
	for _, f := range report.Findings {
		findings = append(findings, string(f.Level)+" "+f.Check)
		if f.Problem == "" || f.Action == "" {
			t.Errorf("finding %+v", f)
		}
		t.Logf("%s: %s\n    %s", f.Check, f.Problem, f.Action)
	}
	if len(report.Checked) == 0 {
		t.Errorf("report %+v", report)
	}
	slices.Sort(findings)
	return slices.Compact(findings), status
}

// faultyProxy is a proxy of a website. Without faults it does all that it should.
type faultyProxy struct {
	from     string // address that it connects from
	request  func(out *http.Request)
	response func(r *http.Response) error
	handle   func(w http.ResponseWriter, r *http.Request) (done bool)
}

// serve returns the origin of a proxy in front of Tallygate's data listener.
func (p faultyProxy) serve(t *testing.T, data string) (origin string) {
	t.Helper()
	if p.from == "" {
		p.from = hopAddress
	}
	transport := transportFrom(p.from)
	t.Cleanup(transport.CloseIdleConnections)

	proxy := &httputil.ReverseProxy{
		Transport: transport,
		Rewrite: func(r *httputil.ProxyRequest) {
			out := r.Out
			out.URL = &url.URL{Scheme: "http", Host: data, Path: strings.TrimPrefix(r.In.URL.Path, "/x")}
			switch out.URL.Path {
			case "/app.js":
				out.URL.Path = "/svc.js"
			case "/form.js":
				out.URL.Path = "/captcha.js"
			}
			out.Header.Del("Cookie")
			out.Header.Del("Authorization")
			out.Header.Del("Referer")
			out.Header.Set("X-Forwarded-For", strings.Split(r.In.RemoteAddr, ":")[0])
			if p.request != nil {
				p.request(out)
			}
			if given := r.In.Header["X-Forwarded-For"]; out.Header.Get("X-Forwarded-For") == "given" {
				out.Header.Set("X-Forwarded-For", append(given, strings.Split(r.In.RemoteAddr, ":")[0])[0])
			}
			for _, name := range []string{"Cookie", "Authorization", "Referer"} {
				if out.Header.Get(name) == "given" {
					out.Header[name] = r.In.Header[name]
				}
			}
		},
		ModifyResponse: p.response,
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if p.handle == nil || !p.handle(w, r) {
			proxy.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// answerAt returns a handler that answers calls of paths with this end.
func answerAt(end string, status int, header, value, body string) func(http.ResponseWriter, *http.Request) bool {
	return func(w http.ResponseWriter, r *http.Request) bool {
		if !strings.HasSuffix(r.URL.Path, end) {
			return false
		}
		w.Header().Set(header, value)
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
		return true
	}
}

// cached answers repeated calls with the first answer.
func cached() func(r *http.Response) error {
	var mu sync.Mutex
	first := make(map[string]http.Header)
	return func(r *http.Response) error {
		mu.Lock()
		defer mu.Unlock()
		key := r.Request.Method + r.Request.URL.Path
		if before := first[key]; before != nil {
			r.Header = before.Clone()
		}
		first[key] = r.Header.Clone()
		return nil
	}
}

// TestDoctorSite: the doctor names each fault of a website's proxy, and no fault of a right one.
func TestDoctorSite(t *testing.T) {
	t.Parallel()
	p := start(t, map[string]string{"TALLYGATE_DATA_DIR": t.TempDir(), "TALLYGATE_TRUSTED_PROXIES": hopAddress}, []string{"control", "data"})
	data := p.addr["data"]

	set := func(name, value string) func(*http.Request) {
		return func(out *http.Request) { out.Header.Set(name, value) }
	}
	remove := func(name string) func(*http.Request) {
		return func(out *http.Request) { out.Header[name] = nil }
	}
	without := func(names ...string) func(*http.Response) error {
		return func(r *http.Response) error {
			for _, name := range names {
				r.Header.Del(name)
			}
			return nil
		}
	}
	const script, widget, face = "/x/app.js", "/x/form.js", "/x/script.js"

	// A page of the website with a tag of the script in Umami's place.
	page := func(src, id string) faultyProxy {
		return faultyProxy{handle: answerAt("/", 200, "Content-Type", "text/html", `<script src="`+src+`" data-website-id="`+id+`"></script>`)}
	}
	key := newOwner(t, p).signUp("shop.example").SiteKey

	for name, c := range map[string]struct {
		proxy  faultyProxy
		script string
		want   []string
	}{
		"right":                   {script: script},
		"right, with the widget":  {script: widget},
		"right, with a query":     {script: script + "?v=1/2"},
		"right, in Umami's place": {script: face},
		"a face's calls are missing": {
			proxy: faultyProxy{handle: answerAt("api/send", 404, "Content-Type", "text/html", "")}, script: face,
			want: []string{"error site-not-mapped"},
		},
		"a face's calls have cookies": {faultyProxy{request: set("Cookie", "given")}, face, []string{"error site-cookies"}},
		"a face, an unknown key":      {script: "/x/0123456789abcdef0123456789abcdef/script.js", want: []string{"error site-key"}},
		"a page without a tag": {faultyProxy{handle: answerAt("/", 200, "Content-Type", "text/html", "")}, "/",
			[]string{"error site-script-missing"}},
		"a page, a face without a key":   {page("http://"+data+"/script.js", "1"), "/", []string{"error site-key"}},
		"a page, a face with a key":      {page("http://"+data+"/"+key+"/script.js", "1"), "/", []string{"error site-domain"}},
		"a page, a face through a proxy": {page(face, key), "", []string{"error site-domain"}},
		"the script is a page": {
			proxy: faultyProxy{handle: answerAt("app.js", 200, "Content-Type", "text/html", "<p>Shop")}, script: script,
			want: []string{"error site-script-missing"},
		},
		"the script is missing": {
			proxy: faultyProxy{handle: answerAt("app.js", 404, "Content-Type", "text/html", "")}, script: script,
			want: []string{"error site-script-missing"},
		},
		"the script is redirected": {faultyProxy{handle: answerAt("app.js", 302, "Location", "/", "")}, script, []string{"error site-redirect"}},
		"the script is changed":    {faultyProxy{response: appendToScripts}, script, []string{"error site-script-changed"}},
		"the type is changed": {
			proxy:  faultyProxy{response: func(r *http.Response) error { r.Header.Set("Content-Type", "text/plain"); return nil }},
			script: script, want: []string{"error site-content-type", "error site-not-mapped"},
		},
		"the cache time is changed": {faultyProxy{response: cacheForAYear}, script, []string{"warning site-cache-control"}},
		"headers are removed":       {faultyProxy{response: without("X-Content-Type-Options")}, script, []string{"warning site-headers-removed"}},
		"CORS is removed": {
			proxy: faultyProxy{response: without("Access-Control-Allow-Origin")}, script: script,
			want: []string{"warning site-headers-removed"},
		},
		"collect is a page": {
			proxy:  faultyProxy{handle: answerAt("collect.php", 200, "Content-Type", "text/html", "<p>Shop")},
			script: script, want: []string{"error site-not-mapped"},
		},
		"collect is missing": {
			proxy: faultyProxy{handle: answerAt("collect.php", 404, "Content-Type", "text/html", "")}, script: script,
			want: []string{"error site-not-mapped"},
		},
		"collect is the website's": {
			proxy:  faultyProxy{handle: answerAt("collect.php", 404, "Content-Type", "application/json", `{"error":"no such page"}`)},
			script: script, want: []string{"error site-not-mapped"},
		},
		"collect leads elsewhere": {faultyProxy{request: func(out *http.Request) {
			out.URL.Path = strings.Replace(out.URL.Path, "/collect.php", "/x/collect.php", 1)
		}}, script, []string{"error site-not-mapped"}},
		"collect is redirected": {
			proxy: faultyProxy{handle: answerAt("collect.php", 301, "Location", "/x/collect.php/", "")}, script: script,
			want: []string{"error site-redirect"},
		},
		"POST is refused": {
			proxy: faultyProxy{handle: answerAt("collect.php", 405, "Content-Type", "text/html", "")}, script: script,
			want: []string{"error site-method"},
		},
		"POST becomes GET": {
			proxy:  faultyProxy{request: func(out *http.Request) { out.Method, out.Body, out.ContentLength = "GET", nil, 0 }},
			script: script, want: []string{"error site-method"},
		},
		"the body is missing": {
			proxy:  faultyProxy{request: func(out *http.Request) { out.Body, out.ContentLength = io.NopCloser(strings.NewReader("")), 0 }},
			script: script, want: []string{"error site-body"},
		},
		"the server is not there": {
			proxy: faultyProxy{handle: answerAt("collect.php", 502, "Content-Type", "text/html", "")}, script: script,
			want: []string{"error site-server"},
		},
		"collect is cached":        {faultyProxy{response: cached()}, script, []string{"error site-cached"}},
		"no X-Forwarded-For":       {faultyProxy{request: remove("X-Forwarded-For")}, script, []string{"error site-visitor-address"}},
		"an unknown proxy":         {faultyProxy{from: "127.0.0.9"}, script, []string{"error site-visitor-address"}},
		"a hop hides visitors":     {faultyProxy{request: set("X-Forwarded-For", hopAddress)}, script, []string{"error site-visitor-address"}},
		"another hop's address":    {faultyProxy{request: set("X-Forwarded-For", "127.0.0.77")}, script, []string{"error site-visitor-address"}},
		"visitors claim addresses": {faultyProxy{request: set("X-Forwarded-For", "given")}, script, []string{"error site-claimed-address"}},
		"cookies":                  {faultyProxy{request: set("Cookie", "given")}, script, []string{"error site-cookies"}},
		"passwords":                {faultyProxy{request: set("Authorization", "given")}, script, []string{"error site-authorization"}},
		"no language":              {faultyProxy{request: remove("Accept-Language")}, script, []string{"warning site-browser-headers"}},
		"another language":         {faultyProxy{request: set("Accept-Language", "*")}, widget, []string{"warning site-browser-headers"}},
		"no brands":                {faultyProxy{request: remove("Sec-Ch-Ua")}, script, []string{"warning site-browser-headers"}},
		"no kind of device":        {faultyProxy{request: remove("Sec-Ch-Ua-Mobile")}, script, []string{"warning site-browser-headers"}},
		"no system":                {faultyProxy{request: remove("Sec-Ch-Ua-Platform")}, script, []string{"warning site-browser-headers"}},
		"addresses of pages":       {faultyProxy{request: set("Referer", "given")}, script, []string{"warning site-referer"}},
		"no Origin": {
			proxy: faultyProxy{request: remove("Origin")}, script: script,
			want: []string{"error site-origin", "warning site-headers-removed"},
		},
		"another user agent":      {faultyProxy{request: set("User-Agent", "proxy/1.0")}, script, []string{"error site-user-agent"}},
		"the question is removed": {faultyProxy{request: remove("Tallygate-Probe")}, script, []string{"warning site-headers-removed"}},
		"the answer is removed":   {faultyProxy{response: without("Tallygate-Probe")}, script, []string{"warning site-headers-removed"}},
		"the worker is missing": {
			proxy:  faultyProxy{handle: answerAt("captcha-worker.js", 404, "Content-Type", "text/html", "")},
			script: widget, want: []string{"error site-script-missing"},
		},
		"verify is missing": {
			proxy: faultyProxy{handle: answerAt("pow/verify", 404, "Content-Type", "text/html", "")}, script: widget,
			want: []string{"error site-not-mapped"},
		},
		"the widget's body is missing": {
			proxy:  faultyProxy{request: func(out *http.Request) { out.Body, out.ContentLength = io.NopCloser(strings.NewReader("")), 0 }},
			script: widget, want: []string{"error site-body"},
		},
		"a loader for reCAPTCHA":       {script: "/x/recaptcha/api.js", want: []string{"error site-drop-in"}},
		"a loader for hCaptcha":        {script: "/x/1/api.js?render=explicit", want: []string{"error site-drop-in"}},
		"a loader for Turnstile":       {script: "/x/turnstile/v0/api.js", want: []string{"error site-drop-in"}},
		"the widget sends cookies":     {faultyProxy{request: set("Cookie", "given")}, widget, []string{"error site-cookies"}},
		"the widget's challenge waits": {faultyProxy{response: cached()}, widget, []string{"error site-cached"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			findings, status := examineSite(t, data, c.proxy.serve(t, data)+c.script)
			want := 0
			if len(c.want) > 0 {
				want = 3
			}
			if slices.ContainsFunc(c.want, func(finding string) bool { return strings.HasPrefix(finding, "error") }) {
				want = 1
			}
			if !slices.Equal(findings, c.want) || status != want {
				t.Errorf("findings %q, status %d, want %q, status %d", findings, status, c.want, want)
			}
		})
	}
}

// appendToScripts is what an optimiser of pages does.
func appendToScripts(r *http.Response) error {
	body, err := io.ReadAll(r.Body)
	if err != nil || r.Request.Method != http.MethodGet {
		r.Body = io.NopCloser(bytes.NewReader(body))
		return err
	}
	body = append(body, "\n//"...)
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	r.Header.Del("Content-Length")
	return nil
}

// cacheForAYear is what hosts do to scripts.
func cacheForAYear(r *http.Response) error {
	if r.Request.Method == http.MethodGet {
		r.Header.Set("Cache-Control", "public, max-age=31536000")
	}
	return nil
}

// TestDoctorSiteOnTheServer: a proxy that is in order is no finding where the doctor's own address
// is a proxy's.
func TestDoctorSiteOnTheServer(t *testing.T) {
	t.Parallel()
	settings := map[string]string{"TALLYGATE_DATA_DIR": t.TempDir(), "TALLYGATE_TRUSTED_PROXIES": "127.0.0.0/24"}
	p := start(t, settings, []string{"control", "data"})
	settings["TALLYGATE_ANALYTICS_URL"] = "http://" + p.addr["data"]

	status, out, logged := tallygate(t, settings, "doctor", "--site", faultyProxy{}.serve(t, p.addr["data"])+"/x/app.js")
	if status != 0 || !strings.Contains(out, "Not checked: visitor's address (run this from another machine") {
		t.Errorf("status %d, %q, %q", status, out, logged)
	}
}

// TestDoctorSiteRefuses: addresses that are not a website's script are refused, before any request.
func TestDoctorSiteRefuses(t *testing.T) {
	t.Parallel()
	settings := map[string]string{"TALLYGATE_DATA_DIR": t.TempDir(), "TALLYGATE_ANALYTICS_URL": "https://stats.example.com"}
	for _, script := range []string{
		"shop.example.com/x/app.js", "/x/app.js", "ftp://shop.example.com/x/app.js",
		"https://user:secret@shop.example.com/x/app.js", "https:///x/app.js", "https://shop.example.com:port/x/app.js",
		"https://stats.example.com/svc.js",
	} {
		status, out, logged := tallygate(t, settings, "doctor", "--site", script)
		if status != 1 && status != 2 || out != "" || !strings.Contains(logged, "--site: ") || strings.Count(strings.TrimSpace(logged), "\n") > 0 {
			t.Errorf("%s: status %d, %q, %q", script, status, out, logged)
		}
	}
}
