// Package doctor checks a whole configuration against the machine, the database and the servers
// that it names, and returns what an operator should change. Its checks are those of the packages
// that use the settings; it starts nothing and stores nothing but the row of the readiness check.
package doctor

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tallygate/tallygate/cmd/tallygate/config"
	"github.com/tallygate/tallygate/db/health"
)

// Report is the outcome of all checks.
type Report struct {
	Findings []health.Finding `json:"findings"`
	Checked  []string         `json:"checked"` // areas, such as "database"
	Skipped  []string         `json:"skipped"` // areas that are not configured or could not be reached
}

// Worst returns the worst level of the findings; "" without any.
func (r *Report) Worst() health.Level {
	worst := health.Level("")
	for _, f := range r.Findings {
		if f.Level == health.Error {
			return f.Level
		}
		worst = f.Level
	}
	return worst
}

// Options are what the checks need. Config and Now are required.
type Options struct {
	Config *config.Config
	Now    func() time.Time
	Nodes  int // services with these settings that share the database, at least 1

	UnknownVariables []string     // messages about variables that look like settings and are none
	Progress         func(string) // gets a sentence before a check that takes long
}

// examination is a run of the checks.
type examination struct {
	Options
	report Report
	c      *config.Config

	isRunning    bool             // the service runs on this machine with these addresses
	ofService    []health.Finding // of the running service
	mayNotChange bool             // the role of the database may not change tables
}

const (
	// areaTimeout bounds the checks of one area, such as a server that accepts connections and does
	// not answer, and each check of the database.
	areaTimeout = 15 * time.Second

	// databaseTimeout bounds all checks of the database.
	databaseTimeout = integrityTimeout + 10*areaTimeout
)

// Examine runs all checks. It takes some seconds, and longer if servers do not answer or the
// database is large.
func Examine(ctx context.Context, o Options) *Report {
	e := &examination{Options: o, c: o.Config}
	e.report = Report{Findings: []health.Finding{}, Checked: []string{}, Skipped: []string{}}

	for _, area := range []struct {
		name    string
		check   func(context.Context) (done bool)
		timeout time.Duration
	}{
		{"settings", e.checkSettings, areaTimeout},
		{"machine", e.checkMachine, areaTimeout},
		{"data folder", e.checkFolder, areaTimeout},
		{"countries and lists", e.checkFiles, areaTimeout},
		{"listeners", e.checkListeners, areaTimeout},
		{"database", e.checkDatabase, databaseTimeout},
		{"Redis", e.checkRedis, areaTimeout},
		{"public addresses", e.checkOrigins, areaTimeout},
		{"TLS", e.checkTLS, areaTimeout},
		{"mail server", e.checkMail, areaTimeout},
		{"OpenID Connect provider", e.checkProvider, areaTimeout},
	} {
		ctx, cancel := context.WithTimeout(ctx, area.timeout)
		if area.check(ctx) {
			e.report.Checked = append(e.report.Checked, area.name)
		} else {
			e.report.Skipped = append(e.report.Skipped, area.name)
		}
		cancel()
	}

	e.addOfService()
	return &e.report
}

// addOfService adds the findings of the running service whose checks have found nothing here.
func (e *examination) addOfService() {
	own := e.report.Findings
	for _, f := range e.ofService {
		if !slices.ContainsFunc(own, func(o health.Finding) bool { return o.Check == f.Check }) {
			e.report.Findings = append(e.report.Findings, f)
		}
	}
}

// lacksCertificate reports whether the certificate of a host was found to be missing or expired.
func (e *examination) lacksCertificate(host string) bool {
	return slices.ContainsFunc(e.report.Findings, func(f health.Finding) bool {
		return f.Check == "tls-certificate" && f.Level == health.Error && slices.Contains(strings.Fields(f.Problem), host)
	})
}

// fault adds an error.
func (e *examination) fault(check, action, format string, args ...any) {
	e.report.Findings = append(e.report.Findings, health.Finding{Level: health.Error, Check: check, Problem: fmt.Sprintf(format, args...), Action: action})
}

// warn adds a warning.
func (e *examination) warn(check, action, format string, args ...any) {
	e.report.Findings = append(e.report.Findings, health.Finding{Level: health.Warning, Check: check, Problem: fmt.Sprintf(format, args...), Action: action})
}
