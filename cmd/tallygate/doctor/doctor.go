// Package doctor checks a whole configuration against the machine, the database and the servers that it
// names, and returns what an operator should change. Its checks are those of the packages that use the
// settings; it starts nothing and stores nothing but the row of the readiness check.
package doctor

import (
	"context"
	"fmt"
	"slices"
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

	UnknownVariables []string // messages about variables that look like settings and are none
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

// areaTimeout bounds the checks of one area, such as a server that accepts connections and does not
// answer.
const areaTimeout = 15 * time.Second

// Examine runs all checks. It takes some seconds, and longer if servers do not answer.
func Examine(ctx context.Context, o Options) *Report {
	e := &examination{Options: o, c: o.Config}
	e.report = Report{Findings: []health.Finding{}, Checked: []string{}, Skipped: []string{}}

	for _, area := range []struct {
		name  string
		check func(context.Context) (done bool)
	}{
		{"settings", e.checkSettings},
		{"machine", e.checkMachine},
		{"data folder", e.checkFolder},
		{"countries and lists", e.checkFiles},
		{"listeners", e.checkListeners},
		{"database", e.checkDatabase},
		{"Redis", e.checkRedis},
		{"public addresses", e.checkOrigins},
		{"TLS", e.checkTLS},
		{"mail server", e.checkMail},
		{"OpenID Connect provider", e.checkProvider},
	} {
		ctx, cancel := context.WithTimeout(ctx, areaTimeout)
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

// fault adds an error.
func (e *examination) fault(check, action, format string, args ...any) {
	e.report.Findings = append(e.report.Findings, health.Finding{Level: health.Error, Check: check, Problem: fmt.Sprintf(format, args...), Action: action})
}

// warn adds a warning.
func (e *examination) warn(check, action, format string, args ...any) {
	e.report.Findings = append(e.report.Findings, health.Finding{Level: health.Warning, Check: check, Problem: fmt.Sprintf(format, args...), Action: action})
}
