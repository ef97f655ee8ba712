package browsertest_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"github.com/tallygate/tallygate/tools/browsertest"
)

// TestChromiumHelperStartsEmpty checks that a test whose process has served another test finds
// nothing of it: neither stored data nor hosts.
func TestChromiumHelperStartsEmpty(t *testing.T) {
	var visits atomic.Int64

	// The other processes stay available while one is in use.
	browsertest.New(t)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		visits.Add(1)
		w.Header().Set("Cache-Control", "max-age=3600")
		fmt.Fprint(w, `<!doctype html><link rel=icon href=data:,><title>here</title>`)
	}))

	t.Cleanup(server.Close)

	for i, name := range []string{"one.test", "two.test", "one.test"} {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			page := browsertest.New(t, browsertest.Host(name, server.URL)).Open("http://" + name + "/")

			if n := visits.Load(); n != int64(i+1) {
				t.Errorf("%d visits, want %d: the page belongs to another test", n, i+1)
			}

			var stored string
			page.Eval(`(localStorage.length + document.cookie + document.title + innerWidth) + [localStorage.x = 1, document.cookie = 'x=1'].fill('').join('')`, &stored)

			if stored != "0here1280" {
				t.Errorf("stored, title and width: %s", stored)
			}

			other := map[string]string{"one.test": "two.test", "two.test": "one.test"}[name]
			var answer string
			page.Eval(`fetch('http://`+other+`/', {mode: 'no-cors'}).then(() => 'an answer', () => 'none')`, &answer)

			if answer != "none" {
				t.Errorf("%s of another test gave %s", other, answer)
			}
		})
	}
}
