package scenario

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/tallygate/tallygate/graph/client"
)

// attack is a row of the table of attacks. Its functions run in the order of the fields; the first
// ones may be nil.
type attack struct {
	name     string
	groups   string // of commands, separated by spaces
	attacker string
	price    string // that the attacker pays
	victim   string
	bound    bound

	prepare func(*player, context.Context) error
	ready   func(*player, context.Context, *attackMeasure) error // just before the attack, without load
	run     func(*player, context.Context, *attackMeasure) error // sets what the attacker got
}

// in reports whether the attack belongs to a group.
func (a *attack) in(group string) bool { return slices.Contains(strings.Fields(a.groups), group) }

// bound is what an attack must not exceed. No attack may refuse a hit of other sites or terminate
// the process.
type bound struct {
	hits    bool          // the p99 of hits is at most slowdown times the calm one
	reports bool          // likewise the p95 of reports, in addition to the attacker's longest one
	memory  int64         // above the calm memory; 0: unbounded
	peak    int64         // of the process; 0: unbounded
	after   time.Duration // processor time in a calm after the client has left; 0: unbounded
}

const (
	slowdown     = 2
	reportMemory = 200 << 20
	dayMemory    = 256 << 20

	// leftTime is the accuracy of the measurement.
	leftTime = 250 * time.Millisecond
)

// The attackers, and the victims.
const (
	anonymous  = "anonymous client"
	freeOwner  = "owner of a FREE account"
	linkReader = "reader of a shared link"

	otherHits = "hits of other sites"
	otherWork = "hits of other sites, reports of another account, memory"
)

// hitsBound is the bound of attacks on hits, reportBound of attacks by reports.
var (
	hitsBound   = bound{hits: true}
	reportBound = bound{hits: true, reports: true, memory: reportMemory}
	leftBound   = bound{hits: true, reports: true, memory: reportMemory, after: leftTime}
)

// attacks returns all attacks on an installation, in the order in which they are played. Attack captcha
// has its own, which need no server.
func attacks() []attack {
	return []attack{
		{"manual", "visitor", anonymous, "manual page views, each with a new campaign", otherHits, bound{}, nil, nil, visits(0, true)},
		{"campaigns", "visitor", anonymous, "automatic page views, each with a new campaign", otherHits, bound{}, nil, nil, visits(0, false)},
		{"exhausted", "visitor", anonymous, "page views of a site with a used quota", otherHits, bound{}, (*player).exhaust, nil, visits(1, true)},

		{"reports", "neighbours", freeOwner, "10 connections, 10 filtered breakdowns by property", otherHits, hitsBound,
			(*player).useEvents, nil, asksOver(10, question{fields: breakdowns(10, 10), filtered: true})},
		{"worker", "neighbours report", freeOwner, "a day of large events, built by the worker", otherWork,
			bound{hits: true, reports: true, peak: dayMemory}, (*player).join, (*player).storeDay, (*player).awaitBuild},
		{"import", "neighbours", freeOwner, "an export of Umami", otherHits, hitsBound, (*player).makeExport, nil, (*player).runImport},
		{"directory", "neighbours", freeOwner, "an archive that is only a list of files", otherHits, hitsBound,
			(*player).makeDirectory, nil, (*player).runImport},
		{"tools", "neighbours", freeOwner, "8 connections, lists of tools with an API token", otherHits, hitsBound,
			createToken(client.ApiTokenScopeRead), nil, (*player).listTools},
		{"tools-link", "neighbours", linkReader, "8 connections, lists of tools", otherHits, hitsBound, (*player).createLink, nil, (*player).listTools},
		{"sign-in", "neighbours", anonymous, "20 sign-ins a second by password, from many networks", otherHits, hitsBound,
			(*player).signUp, nil, (*player).signIn},
		{"settings", "neighbours", freeOwner, "200 connections, changes of 10 times 200 excluded addresses", otherHits, hitsBound,
			createToken(client.ApiTokenScopeWrite), nil, (*player).changeSettings},

		{"events", "report", freeOwner, "events with as many properties as fit", otherWork, reportBound, (*player).joinWithSecret, nil, (*player).runEvents},
		asks("totals", question{fields: totals}),
		asks("breakdowns", question{fields: propertyBreakdowns}),
		asks("names", question{fields: propertyNames}),
		asksByLink("totals-link", question{fields: totals}),
		asksByLink("breakdowns-link", question{fields: propertyBreakdowns}),
		asksByLink("names-link", question{fields: propertyNames}),
		{"patterns", "report", freeOwner, "reports with many asterisks, left after a second", otherWork, leftBound,
			(*player).usePaths, (*player).askAndLeave, (*player).keepLeaving},
		{"patterns-link", "report", linkReader, "reports with many asterisks, left after a second", otherWork, leftBound,
			(*player).useSharedPaths, (*player).askAndLeave, (*player).keepLeaving},
		{"turns", "report", freeOwner, "8 connections, the report that takes longest alone", otherWork, reportBound,
			(*player).findLongest, nil, (*player).askLongest},
	}
}

// asks is the attack of the owner who asks for a report of large events again and again.
func asks(name string, q question) attack {
	return attack{name, "report", freeOwner, "1 connection, reports of large events", otherWork, reportBound,
		(*player).useEvents, nil, asksOver(1, q)}
}

// asksByLink is the same attack of the reader of a shared link.
func asksByLink(name string, q question) attack {
	a := asks(name, q)
	a.attacker, a.prepare = linkReader, (*player).useSharedEvents
	return a
}
