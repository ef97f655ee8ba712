package captcha_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// captchaLanguages lists the contract's languages (section 2) with their labels of idle and done.
var captchaLanguages = map[string][2]string{
	"cs": {"Jsem člověk", "Ověřeno"},
	"da": {"Jeg er et menneske", "Bekræftet"},
	"de": {"Ich bin ein Mensch", "Bestätigt"},
	"en": {"I am human", "Verified"},
	"es": {"Soy una persona", "Verificado"},
	"et": {"Olen inimene", "Kinnitatud"},
	"fi": {"Olen ihminen", "Tarkistettu"},
	"fr": {"Je suis un être humain", "Vérifié"},
	"it": {"Sono una persona", "Verificato"},
	"nl": {"Ik ben een mens", "Geverifieerd"},
	"no": {"Jeg er et menneske", "Verifisert"},
	"pl": {"Jestem człowiekiem", "Zweryfikowano"},
	"pt": {"Sou uma pessoa", "Verificado"},
	"ro": {"Sunt o persoană", "Verificat"},
	"sv": {"Jag är en människa", "Verifierad"},
	"uk": {"Я людина", "Перевірено"},
}

func TestChromiumCaptchaLanguages(t *testing.T) {
	// The language by data-lang.
	tags := map[string]string{
		"nb": "no", "nb-NO": "no", "nn": "no", "nn-NO": "no", "NB_no": "no", "no-NO": "no", "pt-BR": "pt", "EN-gb": "en", "uk-UA": "uk",
		"DE": "de", " sv ": "sv",
		"": "fr", " ": "fr", // the page's language
		"xx": "en", "nnn": "en", "e": "en", "constructor": "en", "deu": "en", "-de": "en", "kr": "en",
	}
	for code := range captchaLanguages {
		tags[code] = code
	}

	var widgets strings.Builder
	for tag := range tags {
		fmt.Fprintf(&widgets, `<div class="service-captcha" data-sitekey="SITEKEY" data-lang="%s"></div>`, tag)
	}

	s := newCaptchaSite(t, map[string]string{
		"/data": `<html lang="fr-CA"><form><input name="q">` + widgets.String() + `</form>` + captchaScript,
		"/page": `<html lang="LANG"><form><input name="q"><div class="service-captcha" data-sitekey="SITEKEY"></div></form>` + captchaScript,
	})

	page := s.browser.Open("http://www.shop.test/data")
	page.WaitFor(fmt.Sprintf(`document.querySelectorAll('.service-captcha.is-idle').length === %d`, len(tags)))

	check := func(state int) {
		t.Helper()
		for tag, language := range tags {
			var seen []string
			page.Eval(fmt.Sprintf(`((element) => [element.querySelector('button').getAttribute('aria-label'), element.querySelector('button').textContent,
				element.querySelector('[lang]').lang])(document.querySelector('[data-lang=%q]'))`, tag), &seen)

			label := captchaLanguages[language][state]
			if want := []string{label, label, language}; !slices.Equal(seen, want) {
				t.Errorf("data-lang %q: %q, want %q", tag, seen, want)
			}
		}
	}

	check(0)
	page.Eval(`document.querySelector('[name=q]').focus()`, nil)
	page.WaitFor(fmt.Sprintf(`document.querySelectorAll('.service-captcha.is-done').length === %d`, len(tags)))
	check(1)

	for _, test := range []struct{ page, browser, want string }{
		{"de-AT", `['sv']`, "de"},
		{"", `['sv', 'fi']`, "sv"},
		{"", `['ja-JP', 'zh', 'nb-NO', 'de']`, "no"}, // the first supported language
		{"", `['ja-JP', 'zh']`, "en"},
		{"", `[]`, "en"},
		{"", `['ja-JP', 'nn-NO', 'de']`, "no"},
		{"ja", `['sv']`, "en"}, // the page's language decides, even if it is unknown
	} {
		s.pages["/now"] = strings.ReplaceAll(s.pages["/page"], "LANG", test.page)
		remove := page.Before(`Object.defineProperty(navigator, 'languages', {value: ` + test.browser + `})`)
		page.Goto("http://www.shop.test/now")
		s.is(page, "idle")

		if got := page.Text(`document.querySelector('.service-captcha [lang]').lang`); got != test.want {
			t.Errorf("page %q, browser %s: %s, want %s", test.page, test.browser, got, test.want)
		}

		remove()
	}
}
