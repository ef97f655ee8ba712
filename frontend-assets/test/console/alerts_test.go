package console_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/tools/dbtest"
	"github.com/tallygate/tallygate/tools/testkit"
)

// TestAlertsChromium adds a channel of a site, whose receiver first fails and then gets a signed
// test, changes it, and deletes it with the keyboard.
func TestAlertsChromium(t *testing.T) {
	t.Parallel()

	hook := newReceiver(t)
	s := start(t, map[string]string{"WEBHOOK_CA_FILE": hook.caFile})
	s.signUp()
	id, _ := s.createSite("shop.localhost", "Kettle shop")

	p := s.openSignedIn("/sites/" + id + "/alerts")
	p.see("Be alerted when traffic stops")
	p.look("alerts-empty")

	// A button opens the form, which proposes a name and the useful events. A channel without
	// events is refused at their first switch.
	p.press("Add a channel")
	p.WaitFor("document.activeElement.name === 'address'")
	p.press("Slack")
	p.fill("URL", hook.URL+"/silent")
	p.WaitFor("document.querySelector('[name=name]').value === 'Slack'")
	p.fill("Name", "silent")
	for _, event := range []string{"Traffic drop", "No traffic", "Refused calls", "Quota"} {
		p.check(event)
	}
	p.press("Add channel")
	p.see("Choose at least one event, summary or threshold")
	p.WaitFor(`document.activeElement.name === 'TRAFFIC_SPIKE' && document.activeElement.ariaInvalid === 'true'`)
	if channels := s.channels(id); len(channels) != 0 {
		t.Fatalf("a channel without events: %+v", channels)
	}

	// The form refuses one time without the other, and a URL without https, and keeps its values.
	p.press("JSON")
	p.fill("Name", "ops")
	p.fill("URL", "http://127.0.0.1/alerts")
	p.WaitFor("document.querySelector('[name=name]').value === 'ops'")
	p.check("Traffic drop")
	p.press("Quiet hours: none")
	p.fill("From", "22:00")
	p.press("Add channel")
	p.see("Enter both times, or neither.")
	p.WaitFor(`document.activeElement.name === 'to' && document.activeElement.ariaInvalid === 'true'`)
	p.fill("Until", "22:00")
	p.fill("Time zone", "Europe/Berlin")
	p.press("Add channel")
	p.WaitFor(`document.activeElement.ariaInvalid === 'true'`)
	if channels := s.channels(id); len(channels) != 0 {
		t.Fatalf("a refused form made %+v", channels)
	}
	p.fill("Until", "06:30")
	p.fill("URL", hook.URL+"/alerts?key=0123456789abcdef")
	p.Eval(`document.querySelector('dialog [name=language]').value = 'DE'`, nil)
	p.look("alerts-new")
	p.press("Add channel")

	// The secret is shown once.
	p.see("it is shown only this once")
	secret := p.Text(`document.querySelector('pre[aria-label="Secret"]').textContent`)
	p.look("alerts-secret")
	p.press("I have copied it")
	p.WaitFor(`!document.body.innerText.includes('whsec_')`)
	p.see("…cdef")
	p.see("22:00 – 06:30 (Europe/Berlin)")
	p.see("Calls are signed")
	want := channel{
		Name: "ops", Events: []string{"TRAFFIC_DROP"}, Signed: true, Language: "DE",
		QuietHours: &quietHours{From: 22 * 60, To: 6*60 + 30, TimeZone: "Europe/Berlin"},
	}
	s.wantChannel(id, want)

	// A test that fails is explained, and arrives when it is sent again. Quiet hours do not delay
	// it.
	p.press("Actions of ops")
	p.press("Send a test to ops")
	p.WaitFor(state("Failed"))
	p.see("The server failed (5xx)")
	p.click(`document.querySelector('.deliveries summary')`)
	p.WaitFor(`document.querySelector('.deliveries table')?.textContent.includes('500')`)
	p.look("alerts")
	p.takePicture("list", 980)
	hook.works.Store(true)
	p.press("Send again")
	p.WaitFor(state("Delivered"))
	p.WaitFor(`document.querySelectorAll('.deliveries tbody tr').length === 2`)
	hook.wantTest(t, secret)

	// A change leaves the other settings as they are.
	p.press("Actions of ops")
	p.press("Edit ops")
	p.WaitFor(`document.querySelector('dialog[open] [name=name]')?.value === 'ops'`)
	p.look("alerts-edit")
	p.enter(`document.querySelector('dialog [name=name]')`, "on duty")
	p.click(`document.querySelector('dialog [name=weekly]')`)
	p.click(`document.querySelector('dialog [name=QUOTA]')`)
	p.press("Save")
	p.WaitFor(`!document.querySelector('dialog') && document.activeElement.textContent === 'Edit'`)
	p.see("Traffic drop, Quota, Summary of the week")
	want.Name, want.Weekly, want.Events = "on duty", true, []string{"TRAFFIC_DROP", "QUOTA"}
	s.wantChannel(id, want)

	// With keys alone: no quiet hours and no signature.
	k := keyboard{p}
	k.keys(kb.Tab)        // a focus that a click has set is not shown
	k.use("Edit on duty") // the menu is still open
	k.WaitFor(`document.querySelector('dialog[open] [name=secret]')`)
	k.choose(`document.querySelector('dialog [name=secret]')`, "none")
	for _, name := range []string{"from", "to"} {
		p.setDate(fmt.Sprintf("document.querySelector('dialog [name=%s]')", name), "")
	}
	k.reach(button("Save"))
	k.keys(kb.Enter)
	k.WaitFor(`!document.querySelector('dialog')`)
	k.see("Calls are not signed")
	want.Signed, want.QuietHours = false, nil
	s.wantChannel(id, want)

	// Escape deletes nothing.
	k.use("Delete on duty")
	k.WaitFor("document.querySelector('dialog[open]')")
	k.keys(kb.Escape)
	k.WaitFor(`!document.querySelector('dialog') && document.activeElement.ariaLabel === 'Delete on duty'`)
	s.wantChannel(id, want)
	k.keys(kb.Enter)
	k.use("Delete")
	k.see("Be alerted when traffic stops")
	k.WaitFor("document.activeElement.tagName === 'H1'")
	if channels := s.channels(id); len(channels) != 0 {
		t.Errorf("after the deletion there are %+v", channels)
	}
	p.clean(s)
}

// TestOwnMailsChromium chooses mails about a site, sees that they were stopped, and resumes them in
// German.
func TestOwnMailsChromium(t *testing.T) {
	t.Parallel()

	s := start(t, map[string]string{"ROLES": "control,data"})
	s.signUp()
	id, _ := s.createSite("shop.localhost", "Kettle shop")
	own := func() (mails struct {
		Events     []string
		Weekly     bool
		SpikeAbove int
		State      string
	}) {
		var data struct{ Site struct{ OwnAlertChannel any } }
		data.Site.OwnAlertChannel = &mails
		s.Do(`query ($id: ID!) { site(id: $id) { ownAlertChannel { events weekly spikeAbove state } } }`, map[string]any{"id": id}, &data)
		return mails
	}

	p := s.openSignedIn("/sites/" + id + "/alerts")
	p.see("Mails to you")
	p.press("Choose mails")
	p.WaitFor("document.querySelector('dialog[open] [name=weekly]')")
	for _, name := range []string{"weekly", "QUOTA"} {
		p.click("document.querySelector('dialog [name=" + name + "]')")
	}
	p.press("Fixed thresholds: none")
	p.enter("document.querySelector('dialog [name=spikeAbove]')", "1500")
	p.look("mails-edit")
	p.press("Save")
	p.WaitFor("!document.querySelector('dialog')")
	p.see("Quota, Summary of the week, More than 1,500 visitors at once")
	if got := own(); !got.Weekly || got.SpikeAbove != 1500 || len(got.Events) != 1 || got.State != "ACTIVE" {
		t.Errorf("the mails are %+v", got)
	}

	d := dbtest.Open(t, db.EmbeddedURL(s.dir))
	testkit.NoError(t, dbtest.Exec(d, "UPDATE alert_channels SET stopped_at = 1, stop_reason = 'recipient'"))
	p.reload()
	p.see("You have stopped these mails.")
	p.clean(s)

	german := s.openInGerman("/sites/" + id + "/alerts")
	german.see("Sie haben diese E-Mails abbestellt.")
	german.press("E-Mails wählen")
	german.WaitFor("document.querySelector('dialog[open] [name=weekly]')?.checked")
	german.fitsNarrow()
	german.look("mails-edit-german")
	german.press("Speichern")
	german.WaitFor("!document.querySelector('dialog') && !document.querySelector('.notice')?.textContent.includes('abbestellt')")
	if got := own(); !got.Weekly || got.State != "ACTIVE" {
		t.Errorf("the resumed mails are %+v", got)
	}
	german.clean(s)
}

// TestAccountAlertsChromium reaches the channels of an account from its page and its members, adds
// a channel of an address, which the recipient confirms in a browser without a session, and opens
// all pages in German.
func TestAccountAlertsChromium(t *testing.T) {
	t.Parallel()

	// Without a worker, the mail keeps its link.
	s := start(t, map[string]string{"ROLES": "control,data"})
	s.signUp()
	id, _ := s.createSite("shop.localhost", "Kettle shop")

	p := s.openSignedIn("/members")
	p.press("Alerts")
	p.WaitFor("location.pathname === '/alerts'")
	p.see("Be alerted when traffic stops")

	// The first user operates the installation, and can want its events.
	p.press("Add a channel")
	p.fill("E-mail address", "duty@shop.example.test")
	p.fill("Name", "on duty")
	p.check("New sign-in")
	p.check("Failed tasks of the installation")
	p.press("Add channel")
	p.see("The recipient has not opened the link in the mail yet.")
	p.WaitFor("document.querySelector('.state').textContent === 'Not confirmed' && !" + button("Send a test to on duty"))
	p.look("alerts-unconfirmed")

	// A wrong link is refused. The right one works without a session.
	recipient := s.open("/confirm-alerts#tgc_unknown")
	recipient.press("Get these alerts")
	recipient.WaitFor("document.querySelector('[role=alert]')")
	recipient = s.open(strings.TrimPrefix(s.mailTo("duty@%"), s.Origin))
	recipient.look("alerts-confirm")
	recipient.press("Get these alerts")
	recipient.see("The address is confirmed.")
	recipient.look("alerts-confirmed")
	recipient.clean(s)

	p.reload()
	p.WaitFor("document.querySelector('.state')?.textContent === 'Active'")
	p.press("Actions of on duty")
	p.press("Send a test to on duty")
	p.WaitFor("document.querySelector('.deliveries summary')?.textContent.includes('Test')")
	p.press("Edit on duty")
	p.see("The address cannot be changed.")
	p.look("alerts-account-edit")
	p.clean(s)

	german := s.openInGerman("/alerts")
	german.see("Diese Kanäle erhalten Meldungen zum Konto")
	german.see("Fehlgeschlagene Aufgaben der Installation")
	german.fitsNarrow()
	german.press("Kanal hinzufügen")
	german.WaitFor("document.querySelector('dialog [name=address]')")
	german.fitsNarrow()
	german.look("alerts-german")
	german.press("Schließen")
	german.press("Aktionen für on duty")
	german.press("on duty bearbeiten")
	german.see("Die Adresse lässt sich nicht ändern.")
	german.fitsNarrow()
	german.look("alerts-edit-german")
	german.Goto(s.Origin + "/sites/" + id + "/alerts")
	german.see("Erfahren, wenn der Traffic ausbleibt")
	german.fitsNarrow()
	german.Goto(s.Origin + "/confirm-alerts#tgc_unknown")
	german.press("Diese Meldungen erhalten")
	german.WaitFor("document.querySelector('[role=alert]')")
	german.fitsNarrow()
	german.look("alerts-confirm-german")
	german.clean(s)
}

// state is a JavaScript expression for whether the newest message has a state.
func state(text string) string {
	return `document.querySelector('.deliveries .state')?.textContent === '` + text + `'`
}

// fitsNarrow checks that the page does not scroll sideways in the narrowest window.
func (p *tab) fitsNarrow() {
	p.t.Helper()
	p.Do(chromedp.EmulateViewport(320, 800))
	p.WaitFor("innerWidth === 320")
	p.staysWithin(p.Text("location.pathname"))
}

// quietHours and channel are the settings of a channel in the API.
type quietHours struct {
	From, To int
	TimeZone string
}

type channel struct {
	Name, Language  string
	Events          []string
	Signed          bool
	Weekly, Monthly bool
	QuietHours      *quietHours
}

// channels returns the channels of a site.
func (s *service) channels(site string) []channel {
	s.TB.Helper()
	var data struct {
		Site struct{ AlertChannels []channel }
	}
	s.Do(`query ($id: ID!) { site(id: $id) { alertChannels {
		name language events signed weekly monthly quietHours { from to timeZone }
	} } }`, map[string]any{"id": site}, &data)
	return data.Site.AlertChannels
}

// wantChannel fails the test unless a site has one channel with these settings.
func (s *service) wantChannel(site string, want channel) {
	s.TB.Helper()
	got, _ := json.Marshal(s.channels(site))
	if wanted, _ := json.Marshal([]channel{want}); string(got) != string(wanted) {
		s.TB.Errorf("the site has the channels %s, want %s", got, wanted)
	}
}

// wantTest fails the test unless the receiver has got one test, sent twice and signed with a
// secret.
func (r *receiver) wantTest(t *testing.T, secret string) {
	t.Helper()

	key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, "whsec_"))
	if err != nil || len(key) != 24 {
		t.Fatalf("the secret is %q: %v", secret, err)
	}

	calls := r.received()
	if len(calls) != 2 || calls[0].header.Get("webhook-id") != calls[1].header.Get("webhook-id") {
		t.Fatalf("the receiver got %+v, want one message twice", calls)
	}
	for _, c := range calls {
		signature := hmac.New(sha256.New, key)
		signature.Write([]byte(c.header.Get("webhook-id") + "." + c.header.Get("webhook-timestamp") + "." + string(c.body)))
		if got, want := c.header.Get("webhook-signature"), "v1,"+base64.StdEncoding.EncodeToString(signature.Sum(nil)); got != want {
			t.Errorf("the signature is %q, want %q", got, want)
		}

		var body struct{ Type, Event string }
		if err := json.Unmarshal(c.body, &body); err != nil || body.Type != "test" || body.Event != "test" {
			t.Errorf("the body is %s: %v", c.body, err)
		}
	}
}
