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
	"github.com/tallygate/tallygate/tools/testkit"
)

// The locales of times, as JavaScript expressions.
const (
	englishTimes = "navigator.languages[0]" // the browser's variant
	germanTimes  = "'de'"
)

// written returns a placeholder of a JavaScript template for a time as the console writes it in a
// locale.
func written(locale string, at model.Instant) string {
	return fmt.Sprintf(`${new Date(%d).toLocaleString(%s, {dateStyle: 'medium', timeStyle: 'medium'})}`,
		at.Time().UnixMilli(), locale)
}

// seeCertificates waits for the section of certificates with this title, and the texts of its rows
// and of its lines about late certificates. The texts are JavaScript templates.
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

// TestCertificatesChromium shows operators the certificates that a process with TALLYGATE_TLS=auto
// has recorded, and which ones are late, in English, in German and in 320 pixels, and nothing on an
// installation without them.
func TestCertificatesChromium(t *testing.T) {
	t.Parallel()

	s := start(t, map[string]string{"ROLES": "control,data"})
	s.signUp()
	p := s.openSignedIn("/operator")
	p.see("1 account")
	p.WaitFor(`!document.body.innerText.includes('Certificates')`)

	// A long name breaks, so that it fits in the narrowest window.
	const long = "a-long-name-of-a-host.with-many-labels.of-the-installation.statistics.shop.example"
	const day = 24 * time.Hour
	now := model.At(time.Now().Truncate(time.Second))
	expires, expired := now.Add(90*day), now.Add(-time.Second)
	store := certificates.New(dbtest.Open(t, db.EmbeddedURL(s.dir)))
	see := func(host string, issued, expires model.Instant) {
		t.Helper()
		testkit.NoError(t, store.See(t.Context(), certificates.Host{Host: host, IssuedAt: issued, ExpiresAt: expires}, now))
	}
	see(long, 0, 0)
	see("app.example.com", now, expires)
	see("old.example.com", expired.Add(-90*day), expired)

	p.reload()
	p.seeCertificates("Certificates", []string{
		long + " | Not obtained yet",
		"old.example.com | " + written(englishTimes, expired) + ", expired",
		"app.example.com | " + written(englishTimes, expires),
	}, []string{
		long + ": the certificate is missing or expires soon. The log of the service has the reason; run tallygate doctor.",
		"old.example.com: the certificate is missing or expires soon. The log of the service has the reason; run tallygate doctor.",
	})
	p.look("certificates")
	p.fitsNarrow()
	p.clean(s)

	g := s.openInGerman("/operator")
	g.seeCertificates("Zertifikate", []string{
		long + " | Noch nicht ausgestellt",
		"old.example.com | " + written(germanTimes, expired) + ", abgelaufen",
		"app.example.com | " + written(germanTimes, expires),
	}, []string{
		long + ": Das Zertifikat fehlt oder läuft bald ab. Das Protokoll des Dienstes nennt den Grund; führen Sie tallygate doctor aus.",
		"old.example.com: Das Zertifikat fehlt oder läuft bald ab. Das Protokoll des Dienstes nennt den Grund; " +
			"führen Sie tallygate doctor aus.",
	})
	g.look("certificates-german")
	g.fitsNarrow()
	g.clean(s)

	// Once all certificates are valid, none is marked.
	for _, host := range []string{long, "old.example.com"} {
		see(host, now, expires)
	}
	g.reload()
	g.seeCertificates("Zertifikate", []string{
		long + " | " + written(germanTimes, expires), "app.example.com | " + written(germanTimes, expires),
		"old.example.com | " + written(germanTimes, expires),
	}, nil)
}
