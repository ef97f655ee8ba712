package assets

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/tallygate/tallygate/tools/testkit"
)

// getConsole requests a path of the console as a browser would.
func getConsole(t *testing.T, method, path string) *http.Response {
	t.Helper()
	mux := http.NewServeMux()
	MountConsole(mux, "https://captcha.example.test", func(_ context.Context, linkID string) ([]string, error) {
		switch linkID {
		case "sharedlink_x":
			return []string{"http://localhost:3000", "https://www.example.org"}, nil
		case "sharedlink_away":
			return nil, errors.New("the database is not there")
		}
		return nil, nil
	})
	w := httptest.NewRecorder()
	mux.ServeHTTP(w, httptest.NewRequest(method, path, nil))
	return w.Result()
}

func TestFavicon(t *testing.T) {
	r := getConsole(t, "GET", "/favicon.ico")
	if r.StatusCode != http.StatusOK || r.Header.Get("Content-Type") != "image/svg+xml" {
		t.Errorf("%s, %s", r.Status, r.Header.Get("Content-Type"))
	}
}

func TestConsolePages(t *testing.T) {
	for path, status := range map[string]int{
		"/": 200, "/sign-in": 200, "/reset-password": 200, "/sites/new": 200, "/sites/site_x/events": 200, "/captcha": 200,
		"/captcha/key_x": 200, "/tokens": 200, "/share": 200, "/share/tgl_x": 404, "/embed/sharedlink_y": 200, "/embed/": 404, "/embed": 404,
		"/embed/sharedlink_away": 503, "/operator": 200, "/deleted": 200, "/nothing": 404, "/sites/site_x/nothing": 404, "/sign-in/": 404, "/console/": 404,
		"/console/000000000000/main.js": 404, consoleVersion + "other.js": 404, consoleVersion: 404,
	} {
		r := getConsole(t, "GET", path)
		testkit.Equal(t, r.StatusCode, status, "%s: status", path)
		if strings.HasPrefix(path, consolePrefix) {
			continue
		}

		policy := r.Header.Get("Content-Security-Policy")
		if strings.Contains(policy, "unsafe") || !strings.Contains(policy, "require-trusted-types-for 'script'") ||
			r.Header.Get("X-Robots-Tag") != "noindex" || !strings.Contains(policy, "frame-ancestors 'none'") || r.Header.Get("X-Frame-Options") != "DENY" {
			t.Errorf("%s: headers %v", path, r.Header)
		}
	}

	if r := getConsole(t, "POST", "/"); r.StatusCode != http.StatusNotFound || strings.Contains(r.Header.Get("Content-Type"), "html") {
		t.Errorf("POST: status %d, headers %v", r.StatusCode, r.Header)
	}
}

// TestFramedReport checks that only the page of a link with origins can be framed, and only by
// them.
func TestFramedReport(t *testing.T) {
	r := getConsole(t, "GET", "/embed/sharedlink_x")
	policy := r.Header.Get("Content-Security-Policy")
	if r.StatusCode != http.StatusOK || !strings.Contains(policy, "; frame-ancestors http://localhost:3000 https://www.example.org; ") ||
		strings.Contains(policy, "unsafe") || !strings.Contains(policy, "require-trusted-types-for 'script'") {
		t.Errorf("status %d, policy %s", r.StatusCode, policy)
	}
	if r.Header.Get("X-Frame-Options") != "" || r.Header.Get("X-Robots-Tag") != "noindex" {
		t.Errorf("headers %v", r.Header)
	}
}

// TestConsolePathsOfRouter compares the paths that the server knows with the pages of the console's
// router.
func TestConsolePathsOfRouter(t *testing.T) {
	source, err := os.ReadFile("src/console/main.tsx")
	testkit.NoError(t, err)

	pages := map[string]bool{}
	for _, path := range regexp.MustCompile(`'(/[a-z:/-]*)'`).FindAllStringSubmatch(string(source), -1) {
		pages[regexp.MustCompile(`:([a-z]+)`).ReplaceAllString(path[1], "{$1}")] = true
	}
	served := map[string]bool{framedReport: true}
	for _, pattern := range consolePaths {
		served[strings.TrimSuffix(pattern, "{$}")] = true
	}
	if !maps.Equal(pages, served) || len(pages) < 30 {
		t.Errorf("the router has the pages\n%q, the server\n%q", slices.Sorted(maps.Keys(pages)), slices.Sorted(maps.Keys(served)))
	}
}

// TestConsoleFilesAreCachedForever checks each file that the page and its modules load.
func TestConsoleFilesAreCachedForever(t *testing.T) {
	addresses := regexp.MustCompile(`(?:href|src)="(/[^"]*)"`).FindAllStringSubmatch(string(consolePage), -1)
	testkit.Require(t, len(addresses), 2, "the page loads %v", addresses)

	paths := []string{addresses[0][1], addresses[1][1]}
	for name := range consoleFiles {
		paths = append(paths, consoleVersion+name)
	}

	for _, path := range paths {
		r := getConsole(t, "GET", path)
		if r.StatusCode != 200 || r.Header.Get("Cache-Control") != cacheForever ||
			r.Header.Get("Cross-Origin-Resource-Policy") != "same-origin" {
			t.Errorf("%s: status %d, headers %v", path, r.StatusCode, r.Header)
		}
	}
}

func TestCaptchaPreview(t *testing.T) {
	const key = "svck_abcdefghijklmnopqrstuvwx"
	for query, status := range map[string]int{
		"sitekey=" + key: 200, "sitekey=" + key + "&lang=de&theme=dark": 200, "": 400, "sitekey=x": 400,
		"sitekey=" + key + "%22%3E%3Cscript%3E": 400, "sitekey=" + key + "&lang=%22": 400, "sitekey=" + key + "&theme=red": 400,
	} {
		r := getConsole(t, "GET", "/captcha-preview?"+query)
		testkit.Equal(t, r.StatusCode, status, "%s: status", query)
		policy := r.Header.Get("Content-Security-Policy")
		if status == 200 && (!strings.Contains(policy, "script-src https://captcha.example.test") ||
			!strings.Contains(policy, "frame-ancestors 'self'")) {
			t.Errorf("%s: policy %s", query, policy)
		}
	}
}
