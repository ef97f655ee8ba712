package mail

import (
	"context"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/nodeid"
	"github.com/tallygate/tallygate/db/outbox"
	"github.com/tallygate/tallygate/jobs/mail/text"
	"github.com/tallygate/tallygate/tools/testkit"
)

var update = flag.Bool("update", false, "write the golden files")

// examples are data of every kind. A name is the kind and, after a slash, a variant.
var examples = map[string]string{
	"quota_80":          `{"product":"analytics","siteId":7,"site":"shop.example","month":"2026-11","quota":10000}`,
	"quota_80/captcha":  `{"product":"captcha","month":"2026-11","quota":1000000}`,
	"quota_100":         `{"product":"analytics","siteId":7,"site":"shop.example","month":"2026-11","quota":10000}`,
	"quota_100/captcha": `{"product":"captcha","month":"2026-03","quota":100000}`,
	"delivery_failed": `{"siteId":7,"site":"shop.example","kind":"conversion","event":"purchase","attempts":5,
		"error":"timeout"}`,
	"delivery_failed/export": `{"siteId":7,"site":"shop.example","kind":"daily_export","event":"2026-11-19","attempts":1,
		"error":"gone"}`,
	"invitation": `{"url":"https://stats.example/accept-invitation#tgi_secret","by":"owner@shop.example","to":"guest@shop.example","role":"VIEWER"}`,
	"invitation/guest": `{"url":"https://stats.example/accept-invitation#tgi_secret","by":"owner@shop.example",
		"to":"guest@shop.example","role":"VIEWER","sites":1}`,
	"invitation/guest_of_several": `{"url":"https://stats.example/accept-invitation#tgi_secret","by":"owner@shop.example",
		"to":"guest@shop.example","role":"VIEWER","sites":3}`,
	"password_reset":  `{"url":"https://stats.example/reset-password#tgr_secret"}`,
	"sign_up":         `{"url":"https://stats.example/confirm-sign-up#tgs_secret"}`,
	"sign_up_known":   `{"url":"https://stats.example/sign-in"}`,
	"email_change":    `{"url":"https://stats.example/confirm-email#tge_secret"}`,
	"email_known":     `{"url":"https://stats.example/sign-in"}`,
	"email_requested": `{"at":1795168800000000}`,
	"email_changed":   `{"at":1795168800000000}`,
	"webhook_changed": `{"siteId":7,"site":"shop.example","kind":"conversion","by":"me@example.com","at":1795168800000000,
		"new":"new.example"}`,
	"webhook_changed/token": `{"siteId":7,"site":"shop.example","kind":"daily_export","by":"me@example.com","token":"ci",
		"at":1795168800000000,"old":"old.example","new":"new.example","last":true}`,
	"webhook_changed/operator": `{"siteId":7,"site":"shop.example","kind":"conversion","operator":true,"at":1795168800000000,
		"old":"old.example"}`,
	"token_expires":           `{"name":"ci","hint":"wxyz","at":1795168800000000}`,
	"password_changed":        `{"at":1795168800000000}`,
	"password_changed/tokens": `{"at":1795168800000000,"tokens":["\"ci\" (READ, …wxyz)","\"backup\" (EXPORT, …abcd)"]}`,
	"own_alert": `{"siteId":7,"site":"shop.example","channelId":3,"confirmedAt":1795168800000000,"event":"weekly","phase":"once",
		"from":"2026-11-16","to":"2026-11-22","figures":{},"summary":{
		"figures":{"visitors":1500,"visits":1,"pageviews":30},"previous":{"visitors":2000,"pageviews":30},
		"pages":[{"value":"/","visitors":1200},{"value":"/basket?step=2","visitors":3}],"sources":[{"value":"","visitors":3}]}}`,
	"own_alert/monthly": `{"siteId":7,"site":"shop.example","channelId":3,"confirmedAt":1795168800000000,"event":"monthly",
		"phase":"once","from":"2026-02-01","to":"2026-02-28","figures":{},
		"summary":{"figures":{"visitors":3,"visits":4,"pageviews":1234567},"previous":{"visitors":2,"visits":4,"pageviews":1}}}`,
	"own_alert/spike": `{"siteId":7,"site":"shop.example","channelId":3,"confirmedAt":1795168800000000,"event":"visitors_above",
		"phase":"once","figures":{"value":1200,"threshold":1000}}`,
	"own_alert/drop": `{"siteId":7,"site":"shop.example","channelId":3,"confirmedAt":1795168800000000,"event":"visitors_below",
		"phase":"once","from":"2026-11-20","to":"2026-11-20","figures":{"value":1,"threshold":2000}}`,
	"second_factor":          `{"at":1795168800000000,"added":true}`,
	"second_factor/passkey":  `{"at":1795168800000000,"passkey":"Laptop"}`,
	"second_factor/operator": `{"at":1795168800000000,"operator":true}`,
	"recovery_code":          `{"at":1795168800000000,"left":1}`,
	"operator_link":          `{}`,
	"account_suspended":      `{"at":1795168800000000,"reason":"Spam was sent to 3 visitors."}`,
	"account_resumed":        `{}`,
	"captcha_attack":         `{"sitekey":"Contact","at":1795168800000000,"networks":1812,"challenges":2040,"refused":12,"usual":37,"factor":4}`,
	"captcha_attack/off":     `{"sitekey":"Contact","at":1795168800000000,"networks":402,"challenges":402,"usual":37,"factor":2,"isOff":true}`,
	"test":                   `{}`,
	"alert": `{"siteId":7,"site":"shop.example","channelId":3,"confirmedAt":1795168800000000,"channel":"ops","event":"traffic_drop",
		"phase":"begun","account":"Shop Ltd","beganAt":1795168800000000,"figures":{"value":3,"usual":1200,"percent":0,"change":{"metric":"PAGEVIEWS","before":1200,"after":3,
		"causes":[{"names":[{"by":"COUNTRY","value":"DE"}],"difference":-800}],"gap":{"from":"2026-11-20 09:40","to":"2026-11-20 10:40"}}}}`,
	"alert/ended": `{"channelId":3,"confirmedAt":1795168800000000,"channel":"ops","event":"captcha_attack","phase":"ended",
		"sitekey":"Contact","sitekeyId":4,"beganAt":1795168800000000,"endedAt":1795170000000000,"figures":{"value":1812,"usual":37}}`,
	"alert/summary": `{"siteId":7,"site":"shop.example","channelId":3,"confirmedAt":1795168800000000,"channel":"ops","event":"weekly",
		"phase":"once","from":"2026-11-16","to":"2026-11-22","figures":{"change":{"metric":"VISITS","before":3,"after":1600,"causes":[
		{"names":[{"by":"CHANNEL","value":"paid search"},{"by":"UTM_CAMPAIGN","value":"spring-sale"}],"difference":1200},
		{"names":[{"by":"ENTRY_PAGE","value":"/sale"}],"difference":970}]}},"summary":{"figures":{"visitors":1500,"visits":1600,"pageviews":30},
		"previous":{"visitors":2000,"visits":3,"pageviews":30},"pages":[{"value":"/","visitors":1200}],"sources":[{"value":"","visitors":3}]}}`,
	"alert_confirm":      `{"url":"https://stats.example/confirm-alerts#tgc_secret","by":"owner@shop.example"}`,
	"alert_confirm/site": `{"url":"https://stats.example/confirm-alerts#tgc_secret","siteId":7,"site":"shop.example"}`,
}

// withoutAccount are the kinds of mails that belong to no account.
var withoutAccount = map[string]bool{model.MailSignUp: true, model.MailSignUpKnown: true, model.MailTest: true}

func fixedIDs(context.Context) (*nodeid.IDs, error) {
	return nodeid.New(strings.Repeat("0123456789abcdef", 4))
}

func newComposer() *composer { return &composer{baseURL: "https://stats.example", ids: fixedIDs} }

// exampleOf returns the mail of an example.
func exampleOf(name string, language model.Language) *model.Mail {
	kind, _, _ := strings.Cut(name, "/")
	stored := &model.Mail{
		ID: 1, Recipient: "reader@example.com", Kind: kind, Language: language, Data: examples[name], CreatedAt: noon,
	}
	if !withoutAccount[kind] {
		stored.Account = "Shop Ltd"
	}
	return stored
}

// TestGolden compares each kind in each language, as plain text and as HTML, with files.
func TestGolden(t *testing.T) {
	seen := map[string]bool{}
	for name := range examples {
		kind, _, _ := strings.Cut(name, "/")
		seen[kind] = true

		for _, language := range model.Languages {
			got, err := newComposer().compose(t.Context(), exampleOf(name, language))
			if err != nil {
				t.Errorf("%s in %s: %v", name, language, err)
				continue
			}

			file := filepath.Join("testdata", strings.ReplaceAll(name, "/", "_")+"."+string(language))
			compare(t, file+".txt", "Subject: "+got.Subject+"\n\n"+got.Text)
			compare(t, file+".html", got.HTML)
		}
	}

	for kind := range outbox.MailKinds {
		if !seen[kind] {
			t.Errorf("there is no example of the kind %s: add it", kind)
		}
	}
}

func compare(t *testing.T, file, got string) {
	t.Helper()

	if *update {
		testkit.NoError(t, os.WriteFile(file, []byte(got), 0o644))
		return
	}

	want, err := os.ReadFile(file)
	if err != nil || string(want) != got {
		t.Errorf("%s, %v: got\n%s", file, err, got)
	}
}

// TestMailsNameAndLink checks that a mail names product, installation, account and site, has
// exactly one link to a page of the installation in addition to the link that stops it, and loads
// nothing.
func TestMailsNameAndLink(t *testing.T) {
	link := regexp.MustCompile(`href="([^"]*)"`)
	loads := regexp.MustCompile(`(?i)<(img|link|script|iframe|video|audio|object|svg)|url\(|@import|src=`)
	address := regexp.MustCompile(`https://\S+`)

	for name := range examples {
		for _, language := range model.Languages {
			stored := exampleOf(name, language)
			got, err := newComposer().compose(t.Context(), stored)
			if err != nil {
				t.Fatalf("%s in %s: %v", name, language, err)
			}

			for _, text := range []string{got.Text, got.HTML} {
				named := []string{"Tallygate", "stats.example", stored.Account}
				if strings.Contains(stored.Data, `"site"`) {
					named = append(named, "shop.example")
				}
				for _, want := range named {
					if !strings.Contains(text, want) {
						t.Errorf("%s in %s does not name %s:\n%s", name, language, want, text)
					}
				}
			}

			links := 1
			if got.StopURL != "" {
				links = 2
			}
			if n := len(link.FindAllString(got.HTML, -1)); n != links {
				t.Errorf("%s in %s has %d links, want %d", name, language, n, links)
			}

			// The last line of the text names the installation.
			if n := len(address.FindAllString(got.Text, -1)); n != links+1 {
				t.Errorf("%s in %s has %d addresses, want %d:\n%s", name, language, n, links+1, got.Text)
			}
			for _, found := range address.FindAllString(got.Text, -1) {
				if !strings.HasPrefix(found, "https://stats.example") {
					t.Errorf("%s in %s leads to %s", name, language, found)
				}
			}

			if loads.MatchString(got.HTML) || len(got.HTML) > 100<<10 {
				t.Errorf("%s in %s loads something, or is long:\n%s", name, language, got.HTML)
			}
			for _, text := range []string{got.Subject, got.Text, got.HTML} {
				if strings.Contains(text, "<no value>") || strings.Contains(text, "ZgotmplZ") || strings.Contains(text, "{{") {
					t.Errorf("%s in %s is incomplete:\n%s", name, language, text)
				}
			}
		}
	}
}

// TestInjection: names and values can neither add markup, lines, headers or links, nor change the
// direction of the text.
func TestInjection(t *testing.T) {
	const evil = `</p><script>x</script>\r\nBcc: x@evil.example\n\n| https://evil.example \t& \"q\" \u202egnp\u2028{{.Data}}`
	breaks := regexp.MustCompile("[\u202e\u2028\t]")

	for name, data := range map[string]string{
		"quota_80":        `{"product":"analytics","siteId":7,"site":"` + evil + `","month":"` + evil + `","quota":10000}`,
		"delivery_failed": `{"siteId":7,"site":"` + evil + `","kind":"conversion","event":"` + evil + `","attempts":5,"error":"` + evil + `"}`,
		"invitation":      `{"url":"javascript:alert(1)//` + evil + `","by":"` + evil + `","to":"` + evil + `"}`,
		"webhook_changed": `{"siteId":7,"site":"shop.example","kind":"conversion","by":"` + evil + `","token":"` + evil + `","old":"` + evil +
			`","new":"` + evil + `"}`,
		"second_factor":    `{"at":1795168800000000,"passkey":"` + evil + `"}`,
		"password_changed": `{"at":1795168800000000,"tokens":["` + evil + `"]}`,
		"token_expires":    `{"name":"` + evil + `","hint":"` + evil + `","at":1795168800000000}`,
		"own_alert": `{"siteId":7,"site":"shop.example","channelId":3,"event":"weekly","from":"` + evil + `","to":"` + evil + `",
			"summary":{"pages":[{"value":"` + evil + `","visitors":1}],"sources":[{"value":"` + evil + `","visitors":1}]}}`,
		"alert": `{"siteId":7,"site":"` + evil + `","channelId":3,"channel":"` + evil + `","event":"visitors_below","from":"` + evil + `"}`,
	} {
		for _, language := range model.Languages {
			got, err := newComposer().compose(t.Context(), &model.Mail{
				ID: 1, Kind: name, Language: language, Data: data,
				Account: "A</p><script>\r\nBcc: x@evil.example https://evil.example www.evil.example",
			})
			if err != nil {
				t.Errorf("%s: %v", name, err)
				continue
			}

			if strings.ContainsAny(got.Subject, "\r\n") || breaks.MatchString(got.Subject+got.Text+got.HTML) ||
				strings.Contains(got.Text, "\nBcc:") || strings.Contains(got.Text, "\n| ") || strings.Contains(got.Text, "\r") {
				t.Errorf("%s in %s: %q\n%q", name, language, got.Subject, got.Text)
			}
			if strings.Contains(got.HTML, "<script") || strings.Contains(got.HTML, "javascript:") ||
				strings.Count(got.HTML, "<h1") != 1 || strings.Contains(got.HTML, `href="https://evil`) {
				t.Errorf("%s in %s: %s", name, language, got.HTML)
			}

			// In the name of the account, mail programs find nothing to link.
			account, _, _ := strings.Cut(got.Text[strings.Index(got.Text, "\n")+1:], "\n")
			if strings.Contains(account, "://") || strings.Contains(account, "www.evil") || strings.Contains(account, "@") {
				t.Errorf("%s in %s: %q", name, language, account)
			}
		}
	}
}

// TestNumbers: numbers and dates have the form of the language.
func TestNumbers(t *testing.T) {
	for language, want := range map[model.Language]string{
		model.English: "1,234,567 999 80% Friday, 20 November 2026 March 2026 20 November 2026, 10:00:00 UTC 1 visitor “x”",
		model.German:  "1.234.567 999 80\u00a0% Freitag, 20. November 2026 März 2026 20. November 2026, 10:00:00 UTC 1 visitor „x“",
	} {
		l := text.Locales[language]
		million := l.Number(1_234_567)
		small := l.Number(999)
		one := l.Count(1, "visitor", "visitors")
		percent := l.Percent(80)
		got := strings.Join([]string{
			million, small, percent, l.Day("2026-11-20"), l.Month("2026-03"), l.Time(1795168800000000), one, l.Quote("x"),
		}, " ")
		testkit.Equal(t, got, want, "%s", language)
		if l.Day("x") != "x" || l.Month("x") != "x" {
			t.Errorf("%s: text that is no date is changed", language)
		}
	}
}
