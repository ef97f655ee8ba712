// Package doctor checks a whole configuration against the machine, the database and the servers that it
// names, and returns what an operator should change. Its checks are those of the packages that use the
// settings; it starts nothing and stores nothing but the row of the readiness check.
package doctor

import (
	"context"
	"fmt"
	"time"

	"github.com/tallygate/tallygate/cmd/tallygate/config"
)

// Level is how bad a finding is.
type Level string

// The levels. An error breaks a function of the service or loses acknowledged data; a warning will, or
// weakens it.
const (
	Error   Level = "error"
	Warning Level = "warning"
)

// Finding is one thing that an operator should change.
type Finding struct {
	Level   Level  `json:"level"`
	Check   string `json:"check"`   // stable name, such as "postgres-fsync"
	Problem string `json:"problem"` // one sentence, without secrets
	Action  string `json:"action"`  // what to do
}

// Report is the outcome of all checks.
type Report struct {
	Findings []Finding `json:"findings"`
	Checked  []string  `json:"checked"` // areas, such as "database"
	Skipped  []string  `json:"skipped"` // areas that are not configured or could not be reached
}

// Worst returns the worst level of the findings; "" without any.
func (r *Report) Worst() Level {
	worst := Level("")
	for _, f := range r.Findings {
		if f.Level == Error {
			return Error
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

	isRunning    bool // the service runs on this machine with these addresses
	mayNotChange bool // the role of the database may not change tables
}

// areaTimeout bounds the checks of one area, such as a server that accepts connections and does not
// answer.
const areaTimeout = 15 * time.Second

// Examine runs all checks. It takes some seconds, and longer if servers do not answer.
func Examine(ctx context.Context, o Options) *Report {
	e := &examination{Options: o, c: o.Config}
	e.report = Report{Findings: []Finding{}, Checked: []string{}, Skipped: []string{}}

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

	return &e.report
}

// fault adds an error.
func (e *examination) fault(check, action, format string, args ...any) {
	e.report.Findings = append(e.report.Findings, Finding{Error, check, fmt.Sprintf(format, args...), action})
}

// warn adds a warning.
func (e *examination) warn(check, action, format string, args ...any) {
	e.report.Findings = append(e.report.Findings, Finding{Warning, check, fmt.Sprintf(format, args...), action})
}
