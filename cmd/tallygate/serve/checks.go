package serve

import (
	"github.com/tallygate/tallygate/db/health"
	"github.com/tallygate/tallygate/web"
)

// addChecks adds the checks of what this process notices itself. Open calls it before anything is
// served.
func (a *App) addChecks(clients *web.Clients) {
	a.check("key-replaced", `See docs/operator/incidents.md, "Change the application key".`, func() string {
		if a.keyReplaced.Load() {
			return keyReplacedMessage
		}
		return ""
	})
	a.check("common-away", "Start the database, or correct TALLYGATE_DATABASE_URL.", func() string {
		if a.commonAway.Load() {
			return commonAwayMessage
		}
		return ""
	})

	for _, file := range a.files.all {
		a.check("operator-file", "Correct the file.", func() string { return reloadWarning(file.State()) })
	}
	if a.hold != nil {
		a.check("log-lost", `See docs/operator/operations.md, "After a kill".`, a.hold.LogLost)
	}
	if a.child != nil {
		a.check("background-process", "See the log of the service.", a.child.Warning)
	}

	a.check("unknown-proxy", "Name the proxy in TALLYGATE_TRUSTED_PROXIES, and let it send X-Forwarded-For.", clients.Warning)
	a.check("hidden-clients", "Let each hop in front of the proxy pass the client's address on, and name proxies only in "+
		"TALLYGATE_TRUSTED_PROXIES.", clients.HiddenWarning)

	if a.analytics != nil {
		a.check("database-paused", "Look at the database's disk, at long transactions, and at what else runs on the machine.",
			a.analytics.PauseWarning)
	}
	if a.jobs != nil {
		a.check("clock-untrusted", health.CorrectClock, a.jobs.ClockWarning)
		a.check(health.QuotaCheck, health.SetPlan, a.jobs.QuotaWarning)
		a.check("redis-unreachable", "Start Redis, or correct TALLYGATE_REDIS_URL and its password.", a.jobs.QueueWarning)
	}
	if a.acme != nil {
		for _, host := range a.acme.Hosts {
			a.check("tls-certificate", health.SeeTLS, func() string { return a.acme.Problem(host) })
		}
	}
}

// check is a condition that this process notices. find returns one line of text while the condition
// lasts, else "". It is called concurrently on each request for /readyz, so it must not block.
type check struct {
	name, action string
	find         func() string
}

func (a *App) check(name, action string, find func() string) {
	a.checks = append(a.checks, check{name, action, find})
}

// findings returns the conditions that last.
func (a *App) findings() []health.Finding {
	var found []health.Finding
	for _, c := range a.checks {
		if problem := c.find(); problem != "" {
			found = append(found, health.Finding{Level: health.Warning, Check: c.name, Problem: problem, Action: c.action})
		}
	}
	return found
}
