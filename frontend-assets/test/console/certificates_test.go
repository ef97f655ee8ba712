package console_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/certificates"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/tools/dbtest"
)

// The locales of times, as JavaScript expressions.
const (
	englishTimes = "navigator.languages[0]" // the browser's variant
	germanTimes  = "'de'"
)

// written returns a placeholder of a JavaScript template for a time as the console writes it in a locale.
func written(locale string, at model.Instant) string {
	return fmt.Sprintf(`${new Date(%d).toLocaleString(%s, {dateStyle: 'medium', timeStyle: 'medium'})}`,
		at.Time().UnixMilli(), locale)
}

// clockOf is written for the hour and the minute.
func clockOf(locale string, at model.Instant) string {
	return fmt.Sprintf(`${new Date(%d).toLocaleTimeString(%s, {timeStyle: 'short'})}`, at.Time().UnixMilli(), locale)
}

// seeCertificates waits for the section of certificates with this title, and the texts of its rows and of its lines about
// failed orders. The texts are JavaScript templates.
func (p *tab) seeCertificates(title string, rows, lines []string) {
	p.t.Helper()
	p.WaitFor(fmt.Sprintf("(table => table && [...table.querySelectorAll('tbody tr')].map("+
		"row => [...row.cells].map(cell => cell.textContent).join(' | ')).join('\\n') === `%s`)(%s)",
		strings.Join(rows, "\n"), certificateTable(title)))
	p.WaitFor(fmt.Sprintf("(table => table && [...table.closest('section').querySelectorAll('.notice li')].map("+
		"line => line.textContent).join('\\n') === `%s`)(%s)",
		strings.Join(lines, "\n"), certificateTable(title)))
}

// certificateTable returns a JavaScript expression for the table with a label.
func certificateTable(label string) string {
	return fmt.Sprintf("document.querySelector('[role=group][aria-label=%q]')", label)
}

// TestCertificatesChromium shows operators the certificates that a process with TALLYGATE_TLS=auto has recorded and why
// orders failed, in English, in German and in 320 pixels, and nothing on an installation without them.
func TestCertificatesChromium(t *testing.T) {
	t.Parallel()

	s := start(t, map[string]string{"ROLES": "control,data"})
	s.signUp()
	p := s.openSignedIn("/operator")
	p.see("Worker last seen")
	p.see("1 account")
	p.WaitFor(`!document.body.innerText.includes('Certificates')`)

	// A long name breaks, so that it fits in the narrowest window.
	const long = "a-long-name-of-a-host.with-many-labels.of-the-installation.statistics.shop.example"
	const day = 24 * time.Hour
	now := model.At(time.Now().Truncate(time.Second))
	expires, expired, failed := now.Add(90*day), now.Add(-time.Second), now.Add(-2*time.Hour)
	store := certificates.New(dbtest.Open(t, db.EmbeddedURL(s.dir)))
	for _, err := range []error{
		store.See(t.Context(), []string{"new.example.com"}, now),
		store.Obtained(t.Context(), "app.example.com", now, expires, now),
		store.Obtained(t.Context(), "old.example.com", expired.Add(-90*day), expired, now),
		store.Failed(t.Context(), "old.example.com", certificates.FailureCAA, failed),
		store.Failed(t.Context(), long, certificates.FailureRefused, failed),
		store.Failed(t.Context(), long, certificates.FailureDNS, now),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}

	p.reload()
	p.seeCertificates("Certificates", []string{
		long + " | Not obtained yet",
		"old.example.com | " + written(englishTimes, expired) + ", expired",
		"app.example.com | " + written(englishTimes, expires),
		"new.example.com | Not obtained yet",
	}, []string{
		long + ": 2 orders in a row failed (the last one " + written(englishTimes, now) + "). The certificate authority finds no " +
			"address of this name: create its DNS records. The next order follows at " + clockOf(englishTimes, now.Add(time.Hour)) + ".",
		"old.example.com: the last order failed (" + written(englishTimes, failed) + "). A CAA record of the domain forbids this " +
			"certificate authority: add it to the record. The next order is due.",
	})
	p.look("certificates")
	p.fitsNarrow()
	p.clean(s)

	g := s.openInGerman("/operator")
	g.seeCertificates("Zertifikate", []string{
		long + " | Noch nicht ausgestellt",
		"old.example.com | " + written(germanTimes, expired) + ", abgelaufen",
		"app.example.com | " + written(germanTimes, expires),
		"new.example.com | Noch nicht ausgestellt",
	}, []string{
		long + ": 2 Bestellungen nacheinander sind fehlgeschlagen (zuletzt " + written(germanTimes, now) +
			"). Die Zertifizierungsstelle findet zu diesem Namen keine Adresse: Legen Sie seine DNS-Einträge an. " +
			"Die nächste Bestellung folgt um " + clockOf(germanTimes, now.Add(time.Hour)) + ".",
		"old.example.com: Die letzte Bestellung ist fehlgeschlagen (" + written(germanTimes, failed) +
			"). Ein CAA-Eintrag der Domain verbietet diese Zertifizierungsstelle: Nehmen Sie sie in den Eintrag auf. " +
			"Die nächste Bestellung ist fällig.",
	})
	g.look("certificates-german")
	g.fitsNarrow()
	g.clean(s)

	// Once all orders have succeeded, no failure is shown.
	for _, host := range []string{long, "old.example.com"} {
		if err := store.Obtained(t.Context(), host, now, expires, now); err != nil {
			t.Fatal(err)
		}
	}
	g.reload()
	g.seeCertificates("Zertifikate", []string{
		long + " | " + written(germanTimes, expires), "app.example.com | " + written(germanTimes, expires),
		"new.example.com | Noch nicht ausgestellt", "old.example.com | " + written(germanTimes, expires),
	}, nil)
}
