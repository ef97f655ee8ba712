package faces_test

import (
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/tallygate/tallygate/db/exports"
)

// TestEqualRowsChromium checks that the same visit of the same page stores the same rows with each
// face and with the browser script, but for ids and times.
func TestEqualRowsChromium(t *testing.T) {
	const link = `<a href="http://other.test/x?secret" onclick="return false">x</a>`

	var want string
	for _, test := range []struct{ name, tag, event, route string }{
		{"svc.js", svcTag, `svc("event", "signup")`, ""},
		{"Umami", umami(""), `umami.track("signup")`, ""},
		{"Plausible", plausible("script.js", ""), `plausible("signup")`, ""},
		{"GoatCounter", goatcounter(""), `goatcounter.count({path: "signup", event: true})`, ""},
		{"Matomo", matomo(trackPage), pushes(`["trackEvent", "signup"]`), pushes(`["setCustomUrl", "/next"], ["trackPageView"]`) + ", "},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := newShop(t)
			page := s.open(link+test.tag, `history.replaceState(0, "", "/page?utm_source=News&gclid=x&secret#secret")`)
			s.pause(3 * time.Second)
			page.Eval(test.event, nil)
			page.Click("a")
			s.pause(2 * time.Second)
			page.Eval(`history.pushState(0, "", "/next?secret")`, nil)
			page.Eval(test.route+"0", nil)
			s.pause(4 * time.Second)
			s.messages()

			got := s.rows()
			if want == "" {
				want = got
			}
			if got != want {
				t.Errorf("rows\n%s\nwant the rows of svc.js\n%s", got, want)
			}
		})
	}
}

// rows describes all stored page views and events without ids and times.
func (s *shop) rows() string {
	s.t.Helper()
	text := ""
	for _, view := range s.Views(s.site) {
		text += fmt.Sprintf("%+v\n", withoutIDs(view))
	}
	for _, event := range s.Events(s.site) {
		text += fmt.Sprintf("%+v\n", withoutIDs(event))
	}
	return text
}

// withoutIDs returns a row with what differs between two visits set to zero.
func withoutIDs[Row exports.Pageview | exports.Event](row Row) Row {
	fields := reflect.ValueOf(&row).Elem()
	for _, name := range []string{"ID", "Visitor", "At", "StartedAt", "LastPageviewAt"} {
		fields.FieldByName(name).SetZero()
	}
	return row
}
