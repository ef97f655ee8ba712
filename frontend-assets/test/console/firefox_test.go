package console_test

import (
	"bytes"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tallygate/tallygate/tools/browsertest"
	"github.com/tallygate/tallygate/tools/testkit"
)

// firefoxDriver makes an account and a site as a user would, reads the figures of the first day,
// imports an export, and opens a shared link. It posts "done" or what went wrong. No driver
// controls Firefox, so the script runs in the console's own pages; the page of the link is loaded
// again, and the script with it.
const firefoxDriver = `
const report = (text) => fetch('/driver-report', { method: 'POST', body: text });
addEventListener('securitypolicyviolation', (e) => report('policy: ' + e.violatedDirective + ' ' + e.blockedURI));
addEventListener('error', (e) => report('error: ' + e.message));

const wait = async (what, find) => {
  for (let i = 0; i < 600; i++) {
    const found = find();
    if (found) return found;

    // A busy machine may answer 503, as it would to a user.
    const again = [...document.querySelectorAll('button')].find((b) => b.textContent.startsWith('Try again'));
    if (i %% 20 === 19) again?.click();
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  throw new Error('no ' + what + ' in ' + document.body.innerText);
};
const fill = async (label, text) => {
  const labels = () => [...document.querySelectorAll('label')];
  const input = await wait(label, () => labels().find((l) => l.textContent === label)?.control);
  input.value = text;
  input.dispatchEvent(new Event('input', { bubbles: true }));
};
const press = async (text) => {
  const buttons = () => [...document.querySelectorAll('button, a')];
  (await wait(text, () => buttons().find((b) => b.textContent === text && !b.disabled))).click();
};
const see = (text) => wait(text, () => document.body.innerText.includes(text));

const hit = (key, origin, path) => fetch('/driver-hit?' + new URLSearchParams({ key, origin, path }));
const choose = async (value) => {
  const select = await wait(value, () => document.querySelector('option[value=' + value + ']')?.parentElement);
  select.value = value;
  select.dispatchEvent(new Event('change', { bubbles: true }));
};

const first = async () => {
  await fill('Account name', 'Kettle & Co');
  await fill('E-mail address', %q);
  await fill('Password', %q);
  await press('Create the account');
  await see('No sites yet');
  await press('New site');
  await fill('Domain', 'shop.localhost');
  await press('Create the site');
  await see('Waiting for a hit');

  const key = document.querySelector('code').textContent.match(/data-site="(\w+)"/)[1];
  await hit(key, 'http://copy.localhost', '/');
  await see('domain_not_allowed');
  await hit(key, 'http://shop.localhost', '/');
  await hit(key, 'http://shop.localhost', '/kettle');
  await see('It works.');

  await press('Open the report');
  await see('1 call was refused');
  await wait('report of the first day', () => document.getElementById('period')?.value === 'today');
  await wait('2 page views', () => document.querySelectorAll('.totals strong')[2]?.textContent === '2');
  await press('/kettle');
  await wait('filter', () => location.search === '?period=today&f=page:is:/kettle');
  document.getElementById('comparison').click();
  const entries = () => [...document.querySelectorAll('[role=menu] button')];
  (await wait('menu', () => entries().find((b) => b.textContent.startsWith('Previous period')))).click();
  await wait('comparison', () => location.search.includes('compare=previous') && document.querySelector('.totals .before'));

  await press('Settings');
  await press('Import');
  await see('This site has no imports.');
  await choose('UMAMI');
  await see('The table website_event as CSV.');
  const chosen = new DataTransfer();
  chosen.items.add(new File([await (await fetch('/driver-export')).blob()], 'umami.csv'));
  const input = await wait('file input', () => document.querySelector('input[type=file]'));
  input.files = chosen.files;
  for (const type of ['input', 'change']) input.dispatchEvent(new Event(type, { bubbles: true }));
  await press('Upload and check');
  await see('will be imported.');
  await press('Import these figures');
  await wait('import', () => document.querySelector('[aria-label=Imports] tbody')?.innerText.includes('Umami'));

  await press('Sharing');
  await press('New link');
  await fill('Name', 'For the bank');
  await press('Create the link');
  const address = () => [...document.querySelectorAll('code')].find((e) => e.textContent.includes('/share#'));
  location.assign('/share?period=today' + new URL((await wait('link', address)).textContent).hash);
};
const shared = async () => {
  await see('Shared report of shop.localhost');
  await wait('2 page views', () => document.querySelectorAll('.totals strong')[2]?.textContent === '2');
  await report('done');
};

(location.pathname === '/share' ? shared() : first()).catch((e) => report(String(e)));
`

// TestFirstSiteFirefox follows an owner from the sign-up by an import to a shared link in Firefox.
func TestFirstSiteFirefox(t *testing.T) {
	t.Parallel()

	s := start(t, nil)
	target, err := url.Parse(s.Origin)
	testkit.NoError(t, err)

	// The proxy adds the driver to the page, whose policy allows scripts of its own origin.
	proxy := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(target)
			r.Out.Host = target.Host
			r.Out.Header.Del("Accept-Encoding")
			r.Out.Header.Del("Referer")
			if r.Out.Header.Get("Origin") != "" {
				r.Out.Header.Set("Origin", s.Origin)
			}
		},
		ModifyResponse: addDriver,
		ErrorLog:       log.New(io.Discard, "", 0), // requests that end with the browser
	}

	reports := make(chan string, 100)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/driver.js":
			w.Header().Set("Content-Type", "text/javascript")
			fmt.Fprintf(w, firefoxDriver, ownerEmail, ownerPassword)
		case "/driver-hit":
			q := r.URL.Query()
			fmt.Fprint(w, s.hit(q.Get("key"), q.Get("origin"), q.Get("path"), ""))
		case "/driver-export":
			http.ServeFile(w, r, filepath.Join(importData, "umami.csv"))
		case "/driver-report":
			text, _ := io.ReadAll(r.Body)
			reports <- string(text)
		default:
			proxy.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(server.Close)

	browsertest.OpenFirefox(t, "http://console.example.test/", browsertest.Host("console.example.test", server.URL))
	select {
	case got := <-reports:
		if got != "done" {
			t.Error(got)
		}
	case <-time.After(2 * time.Minute):
		t.Error("Firefox reported nothing")
	}
}

// addDriver appends the driver's script to a page.
func addDriver(r *http.Response) error {
	if !strings.HasPrefix(r.Header.Get("Content-Type"), "text/html") {
		return nil
	}

	page, err := io.ReadAll(r.Body)
	if err != nil {
		return err
	}

	page = append(page, `<script type="module" src="/driver.js"></script>`...)
	r.Body = io.NopCloser(bytes.NewReader(page))
	r.ContentLength = int64(len(page))
	r.Header.Set("Content-Length", strconv.Itoa(len(page)))
	return nil
}
