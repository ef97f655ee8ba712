package console_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/sites"
	"github.com/tallygate/tallygate/tools/dbtest"
	"github.com/tallygate/tallygate/tools/testkit"
)

// TestCaptchaChromium makes a sitekey, watches its widget solve a challenge, and deletes it.
func TestCaptchaChromium(t *testing.T) {
	t.Parallel()

	s := start(t, map[string]string{"CAPTCHA_DIFFICULTY": "1024"})
	s.signUp()
	p := s.openSignedIn("/captcha")
	p.see("No sitekeys yet")
	p.look("captcha-empty")
	p.press("New sitekey")
	p.fill("Name", "Contact form")
	p.fill("Domains", "not a domain")
	p.press("Create the sitekey")
	p.WaitFor("document.activeElement.name === 'domains' && document.activeElement.ariaInvalid === 'true'")
	p.look("captcha-new")
	p.fill("Domains", "")
	p.press("Create the sitekey")
	p.see("it is shown only this once")
	p.WaitFor(`document.querySelector('.notice code').textContent.length > 20`)
	secret := p.Text(`document.querySelector('.notice code').textContent`)

	// The widget in the frame gets a token from the data plane of another origin.
	p.WaitFor(`document.querySelector('iframe').contentDocument.querySelector('.service-captcha.is-done')`)
	p.look("captcha-sitekey")

	// The notice that goes leaves the focus where the user has moved it meanwhile.
	var focused string
	p.Eval(fmt.Sprintf(`((hide, field) => {
		hide.click();
		field.focus();
		return new Promise(done => setTimeout(() => done(document.activeElement.tagName + ' ' + document.activeElement.textContent)));
	})(%s, %s)`, button("I have copied it"), button("Turnstile")), &focused)
	if focused != "BUTTON Turnstile" {
		t.Errorf("the focus is at %q after the secret was hidden, want the button of another captcha", focused)
	}

	// The code for another captcha's pages has two other addresses.
	p.press("Turnstile")
	p.see("/turnstile/v0/api.js")
	p.see("/turnstile/v0/siteverify")
	p.look("captcha-drop-in")

	// A level of protection sets the values.
	p.press("Protection")
	p.WaitFor("document.querySelector('[name=level]:checked').value === 'usual'")
	p.look("captcha-protection")
	p.check("Strict")
	p.press("Save protection")
	p.see("Saved")
	p.press("Advanced")
	p.WaitFor(labelled("Normal solving time (seconds)") + ".value === '1' && " + labelled("Declared bots") + ".value === 'LIMIT'")

	// A wrong policy names its field; a valid one is in force for the next challenge.
	p.fill("Normal solving time (seconds)", "2")
	p.fill("Longest solving time (seconds)", "1")
	p.press("Save protection")
	p.WaitFor("document.activeElement.name === 'maxSeconds' && document.activeElement.ariaInvalid === 'true'")
	p.fill("Normal solving time (seconds)", "0.002")
	p.fill("Longest solving time (seconds)", "0.5")
	p.fill("Declared bots", "ALLOW")
	p.press("Save protection")
	p.see("Now 6,000 hashes")
	p.see("Now 1,500,000 hashes")
	p.WaitFor("!document.querySelector('[name=level]:checked')")
	p.see("A million solutions on a graphics card")
	p.look("captcha-policy")

	// An attack is shown with its figures.
	seen := model.CaptchaAttack{Level: 2, Seen: model.At(time.Now()), Networks: 1812, Challenges: 2040, Refused: 12, Usual: 37}
	testkit.NoError(t, sites.New(dbtest.Open(t, db.EmbeddedURL(s.dir))).Sitekeys.SawAttack(t.Context(), 1, 1, seen))
	p.Goto(s.Origin + p.Text("location.pathname"))
	p.see("solving takes everyone 4 times as long now.")
	p.see("2,040 challenges from 1,812 networks (37 are usual), and 12 refused tokens.")
	p.see("Solving them costs an attacker < 0.01 $ on rented cores, or < 0.01 $ on a graphics card.")
	p.look("captcha-attack")

	// A sitekey for other domains explains why it has no preview.
	p.wantFocusAtOnce("Edit", "name")
	p.fill("Domains", "shop.example.test")
	p.press("Save")
	p.press("Integration")
	p.see("The widget cannot be shown here, because 127.0.0.1")
	p.WaitFor("!document.querySelector('iframe') && !" + button("Allow 127.0.0.1")) // an address cannot be a domain

	p.press("Replace the secret")
	p.fill("To confirm, type Contact form", "Contact form")
	p.fill("The current secret remains valid", "0")
	p.press("Replace the secret")
	p.WaitFor(`(e => e && e.textContent !== '` + secret + `')(document.querySelector('.notice.good code'))`)

	p.press("Captcha")
	p.see("1 sitekey")
	p.look("captcha")
	p.press("Contact form")
	p.press("Delete")
	p.fill("To confirm, type Contact form", "Contact form")
	p.press("Delete")
	p.see("No sitekeys yet")

	// The widget reports the refused domain in the console, but no policy may be violated.
	for _, m := range p.Console() {
		if strings.Contains(m.Text, "Content Security Policy") || strings.Contains(m.Text, "Trusted") {
			t.Errorf("the console shows %s: %s", m.Level, m.Text)
		}
	}
}

// wantFocusAtOnce presses a button, and checks that the field of a name has the focus as soon as
// its dialog is open. A field that took the focus later would get what is typed into another one.
func (p *tab) wantFocusAtOnce(text, field string) {
	p.t.Helper()
	p.WaitFor(button(text))
	var focused string
	p.Eval(`new Promise(done => {
		new MutationObserver((_, observer) => {
			if (!document.querySelector('dialog[open]')) return;
			observer.disconnect();
			done(document.activeElement.name ?? '');
		}).observe(document.body, {subtree: true, childList: true, attributes: true});
		`+button(text)+`.click();
	})`, &focused)
	testkit.Equal(p.t, focused, field, "focus of the dialog %s", text)
}
