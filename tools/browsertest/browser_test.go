package browsertest_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"

	"github.com/tallygate/tallygate/tools/browsertest"
)

func TestChromiumHelper(t *testing.T) {
	left := make(chan string, 1)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/left" {
			left <- r.Host
			return
		}
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprintf(w, `<link rel=icon href=data:,><title>%s</title><button onclick="document.title='clicked'">b</button>
			<script>console.log("host", location.hostname, 1); addEventListener("pagehide", () => navigator.sendBeacon("/left"))</script>`, r.Host)
	}))

	t.Cleanup(server.Close)
	tls := httptest.NewTLSServer(server.Config.Handler)
	t.Cleanup(tls.Close)
	b := browsertest.New(t, browsertest.Host("a.example.test", server.URL), browsertest.Host("*.b.example.test", server.URL),
		browsertest.Host("a.example.test", tls.URL), browsertest.Host("demo.localhost", server.URL))

	port := server.URL[strings.LastIndex(server.URL, ":"):]

	for address, host := range map[string]string{
		"http://a.example.test/":         "a.example.test",
		"https://a.example.test/":        "a.example.test",
		"http://a.example.test" + port:   "a.example.test" + port,
		"http://demo.localhost" + port:   "demo.localhost" + port,
		"http://deep.b.example.test/":    "deep.b.example.test",
		"http://x.b.example.test" + port: "x.b.example.test" + port,
		server.URL:                       strings.TrimPrefix(server.URL, "http://"),
	} {
		page := b.Open(address)
		page.WaitFor(fmt.Sprintf("document.title === %q", host))

		want := []browsertest.Message{{Level: "log", Text: "host " + strings.Split(host, ":")[0] + " 1"}}
		if got := page.Console(); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: console %v, want %v", address, got, want)
		}

		page.Close()

		if got := <-left; got != host {
			t.Errorf("%s: the closed page sent its last request to %s", address, got)
		}
	}

	page := b.NewPage()
	page.Before("window.early = true")
	page.Goto("http://a.example.test/")
	var got []any
	page.Eval("Promise.resolve([early, navigator.userAgent, document.visibilityState])", &got)

	if want := []any{true, browsertest.UserAgent, "visible"}; !reflect.DeepEqual(got, want) {
		t.Errorf("evaluated %v, want %v", got, want)
	}

	other := b.NewPage()
	page.WaitFor("document.hidden")
	page.Front()
	page.WaitFor("!document.hidden")
	other.WaitFor("document.hidden")
	page.Click("button")
	page.WaitFor(`document.title === "clicked"`)
	page.Eval(`fetch("http://elsewhere.example/").catch(() => document.title = "unreachable")`, nil)
	page.WaitFor(`document.title === "unreachable"`)
	page.Eval(`navigator.sendBeacon("/left", "body")`, nil)
	<-left

	last := page.Requests()[len(page.Requests())-1]
	if last.Method != "POST" || last.URL != "http://a.example.test/left" {
		t.Errorf("last request %+v", last)
	}
}
