package captcha_test

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/tallygate/tallygate/tools/testkit"
)

// program is a library of another language for reCAPTCHA, as Debian packages it.
type program struct {
	name string
	// interpreter is Debian's, which finds Debian's packages: another one may stand before it on
	// the PATH.
	interpreter, file string
	check             string // fails without the library
}

var programs = []program{
	{"Ruby's recaptcha", "/usr/bin/ruby", "recaptcha.rb", `require "recaptcha"`},
	{"Flask-WTF", "/usr/bin/python3", "flask_form.py", "import flask_wtf"},
}

// run runs the program's page with further settings, and returns what it prints.
func (p program) run(t *testing.T, settings []string, arguments ...string) string {
	t.Helper()

	command := exec.CommandContext(t.Context(), p.interpreter, append([]string{"../dropin/programs/" + p.file}, arguments...)...)
	command.Env = append(append(os.Environ(), "CAPTCHA="+captchaOrigin), settings...)
	var errors strings.Builder
	command.Stderr = &errors
	out, err := command.Output()
	if err != nil {
		t.Fatalf("%s: %v\n%s", p.name, err, &errors)
	}
	return strings.TrimSpace(string(out))
}

// isInstalled reports whether Debian's package is there.
func (p program) isInstalled(t *testing.T) bool {
	t.Helper()
	flag := map[bool]string{true: "-c", false: "-e"}[strings.HasSuffix(p.file, ".py")]
	return exec.CommandContext(t.Context(), p.interpreter, flag, p.check).Run() == nil
}

// TestChromiumDropinLanguages runs the libraries of other languages, unchanged but for their two
// addresses: the browser sends the form with the library's tags, and the library verifies the token
// once.
func TestChromiumDropinLanguages(t *testing.T) {
	const form = `<title>Form</title><script>window.onToken = () => document.forms.form.requestSubmit()</script>
		<form id="form" action="/submit" method="post"><label>E-mail <input name="email"></label>%s</form>`
	pages := map[string]string{}
	for _, p := range programs {
		if !p.isInstalled(t) {
			testkit.Missing(t, p.name+" is not installed: make setup does that")
		}
		rendered := []string{"SITEKEY=SITEKEY", "SECRET=", "VERIFY="}
		pages["/"+p.file] = fmt.Sprintf(form, p.run(t, rendered)+`<button id="send">Send</button>`)
		if p.file == "recaptcha.rb" {
			pages["/invisible/"+p.file] = fmt.Sprintf(form, p.run(t, append(rendered, "INVISIBLE=1")))
		}
	}

	s := newCaptchaSite(t, pages)
	tab := s.browser.NewPage()
	for _, p := range programs {
		verify := func(token string) string {
			return p.run(t, []string{"SITEKEY=" + s.key.sitekey, "SECRET=" + s.key.secret, "VERIFY=" + s.URL}, token)
		}
		for _, path := range []string{"/" + p.file, "/invisible/" + p.file} {
			if pages[path] == "" {
				continue
			}
			tab.Goto("http://www.shop.test" + path)
			tab.WaitFor(`document.querySelector('textarea[name=g-recaptcha-response]')`)
			tab.Click("input[name=email]")
			if path == "/"+p.file {
				tab.WaitFor(`document.querySelector('textarea[name=g-recaptcha-response]').value`)
			}
			tab.Click("#send")

			sent := <-s.submitted
			tokens := sent["g-recaptcha-response"]
			testkit.Require(t, len(tokens), 1, "%s sent %v", path, sent)
			if first, again := verify(tokens[0]), verify(tokens[0]); first != "true" || again != "false" {
				t.Errorf("%s: the token is %s, again %s", path, first, again)
			}
		}
		testkit.Equal(t, verify("no-token"), "false", "%s: another text", p.name)
	}
}
