package main

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tallygate/tallygate/tools/loadgen/instance"
	"github.com/tallygate/tallygate/tools/loadgen/load"
	"github.com/tallygate/tallygate/tools/loadgen/report"
	"github.com/tallygate/tallygate/tools/loadgen/target"
	"github.com/tallygate/tallygate/tools/loadgen/traffic"
	"github.com/tallygate/tallygate/tools/loadgen/verify"
	"github.com/tallygate/tallygate/tools/testkit"
)

// shortRun is a short run with hits of every kind.
var shortRun = traffic.Flags{Mix: "realistic", Sites: 4, Visitors: 300, Seed: 7}

// TestRunAndVerify drives the program and verifies every hit. Then it changes rows and counters in
// the database, and checks that verify reports each fault by its kind.
func TestRunAndVerify(t *testing.T) {
	eachInstance(t, func(t *testing.T, b *instance.Instance) {
		mustStart(t, b)
		s := newTestSession(t, b, shortRun)
		journal := filepath.Join(b.Dir, "journal")
		r, err := s.Drive(t.Context(), journal, load.Load{Connections: 16, Warmup: 100 * time.Millisecond,
			Duration: 300 * time.Millisecond, MinAnswers: 2000, Watched: []int{b.Server.Pid()}})
		testkit.NoError(t, err)

		if r.Answers["204"] == 0 || r.Answers[load.NoAnswer] != 0 || r.Answers["400 bad_json"] == 0 ||
			r.Answers["404 unknown_site_key"] == 0 ||
			r.Answers["403 domain_not_allowed"] == 0 || r.Answers["400 unknown_event"] == 0 ||
			len(s.Unexpected.Counts) != 0 {
			t.Errorf("answers %v, unexpected %v", r.Answers, s.Unexpected.Counts)
		}

		if r.Cost.CPU <= 0 || r.Cost.PeakMemory < 1<<20 || r.Throughput() <= 0 {
			t.Errorf("cost %+v, throughput %f", r.Cost, r.Throughput())
		}

		v := mustVerify(t, s.Account, journal)
		if !v.OK() || v.Acknowledged < 100 || v.Stored < v.Acknowledged/2 {
			t.Fatalf("verdict %+v", v)
		}
		if status := execute(t.Context(), []string{"verify", "--json", journal}, quiet()); status != 0 {
			t.Errorf("the command's exit status is %d without a fault", status)
		}

		t.Logf("%d acknowledged, %d stored", v.Acknowledged, v.Stored)
		negative(t, b, s.Account, journal)
	})
}

// negative makes one fault after the other, and checks how each is counted.
func negative(t *testing.T, b *instance.Instance, a *target.Account, journal string) {
	onPageview := `(site_id, at, id) IN (SELECT site_id, at, id FROM pageviews WHERE NOT manual ORDER BY at LIMIT 1)`
	columns := `visitor, n, width_range, manual, path, language`
	for _, fault := range []struct {
		name, make, undo     string
		lost, doubled, wrong bool
	}{
		{name: "a counter is too high", make: `UPDATE site_usage SET used = used + 1`,
			undo: `UPDATE site_usage SET used = used - 1`, wrong: true},
		{name: "a visit counts too much", make: `UPDATE visits SET pageviews = pageviews + 1`,
			undo: `UPDATE visits SET pageviews = pageviews - 1`, wrong: true},
		{name: "a report counts twice", make: `UPDATE engagement SET ms = 2 * ms WHERE ms > 0`,
			undo: `UPDATE engagement SET ms = ms / 2 WHERE ms > 0`, doubled: true},
		{name: "a report counts wrongly", make: `UPDATE engagement SET ms = -ms WHERE ms > 0`,
			undo: `UPDATE engagement SET ms = -ms WHERE ms < 0`, wrong: true},
		{name: "a report is lost",
			make: `UPDATE engagement SET day = day + 100`,
			undo: `UPDATE engagement SET day = day - 100`, lost: true},
		{name: "a page view is stored twice", make: `INSERT INTO pageviews (site_id, at, id, ` + columns + `)
			SELECT site_id, at + 1, id, ` + columns + ` FROM pageviews WHERE ` + onPageview,
			undo: `DELETE FROM pageviews WHERE (site_id, at, id) IN (SELECT p.site_id, p.at, p.id FROM pageviews p JOIN pageviews o
			  ON o.site_id = p.site_id AND o.id = p.id AND o.at = p.at - 1)`, doubled: true, wrong: true},
		{name: "an unexpected row", make: `INSERT INTO events (site_id, at, id, visitor, n, name, path)
			SELECT site_id, at + 1, 1, visitor, n, 'scroll', '/made/up' FROM pageviews WHERE ` + onPageview,
			undo: `DELETE FROM events WHERE path = '/made/up'`, wrong: true},
		{name: "deliveries are for other events", make: `UPDATE deliveries SET event = '#' || event`,
			undo: `UPDATE deliveries SET event = substr(event, 2)`, wrong: true},
		{name: "deliveries are lost", make: `UPDATE deliveries SET kind = 'test' WHERE event = 'purchase'`,
			undo: `UPDATE deliveries SET kind = 'conversion'`, wrong: true},
		// Lost rows are moved to a time before the run, so that they can be restored.
		{name: "a purchase is lost", make: `UPDATE events SET at = at - 3600000000 WHERE name = 'purchase'`,
			undo: `UPDATE events SET at = at + 3600000000 WHERE name = 'purchase'`, lost: true, wrong: true},
		{name: "a manual page view is lost", make: `UPDATE pageviews SET at = at - 3600000000 WHERE manual`,
			undo: `UPDATE pageviews SET at = at + 3600000000 WHERE manual`, lost: true, wrong: true},
		{name: "page views are lost", make: `UPDATE pageviews SET at = at - 3600000000 WHERE NOT manual`,
			undo: `UPDATE pageviews SET at = at + 3600000000 WHERE NOT manual`, lost: true, wrong: true},
	} {
		execSQL(t, b, fault.make)
		v := mustVerify(t, a, journal)
		if v.Lost > 0 != fault.lost || v.Duplicated > 0 != fault.doubled || v.Wrong > 0 != fault.wrong ||
			len(v.Details) == 0 {
			t.Errorf("%s: %+v", fault.name, v)
		}

		execSQL(t, b, fault.undo)
	}

	if v := mustVerify(t, a, journal); !v.OK() {
		t.Errorf("after undoing all faults: %+v", v)
	}

	execSQL(t, b, `DELETE FROM pageviews WHERE `+onPageview)
	var out strings.Builder
	if status := execute(t.Context(), []string{"verify", journal},
		report.Terminal{Out: &out, Log: &out}); status != 1 || !strings.Contains(out.String(), "fault: ") {
		t.Errorf("the command's exit status is %d:\n%s", status, out.String())
	}
}

func mustVerify(t *testing.T, a *target.Account, journal string) *verify.Verdict {
	t.Helper()
	v, err := verify.JournalAs(t.Context(), a, journal)
	testkit.NoError(t, err)
	return v
}

// TestOwnSession checks that a refused feature is noted with any server, and an error with a
// private server.
func TestOwnSession(t *testing.T) {
	testkit.SkipLong(t, "a load")
	t.Parallel()

	b := sqliteInstance(t)
	b.Server.Env["TALLYGATE_SIGNUPS"] = "open"

	// A process with the worker role knows that no mail is sent, so that sign-ups need no
	// verification.
	b.Server.Env["TALLYGATE_ROLES"] = "control,data,worker"
	mustStart(t, b)

	// The first account is the operator's.
	newTestSession(t, b, shortRun)

	if s, err := traffic.NewSession(t.Context(), b.Server.Target(), &shortRun); err != nil ||
		len(s.Account.Notes) != 1 || !strings.Contains(s.Account.Notes[0], "setSitePlan") {
		t.Errorf("%+v, %v", s, err)
	}
	if _, err := traffic.NewOwnSession(t.Context(), b.Server.Target(), &shortRun); err == nil ||
		!strings.Contains(err.Error(), "setSitePlan") {
		t.Errorf("set up without plans: %v", err)
	}
}

// TestFixedRate checks that hits are not sent faster than requested.
func TestFixedRate(t *testing.T) {
	testkit.SkipLong(t, "a load")
	t.Parallel()

	noop, err := instance.StartNoop(t.Context())
	testkit.NoError(t, err)
	defer noop.Kill()

	sent := traffic.Traffic{Host: noop.Data, Mix: traffic.Mixes["realistic"],
		Sites: []target.Site{{Key: "k", Domain: "a.example"}, {Key: "l", Domain: "b.example"}}, Visitors: 10}
	l := load.Load{Addr: noop.Data, Connections: 4, Rate: 200, Duration: 500 * time.Millisecond}
	r := l.Run(t.Context(),
		func(connection int) load.Source { return &traffic.Visitors{Mixer: traffic.NewMixer(&sent, connection)} })

	// Each connection may start with one extra hit.
	if r.Sent() > 100+4 || r.Sent() == 0 {
		t.Errorf("%d answers in half a second at 200 a second", r.Sent())
	}
	if len(r.Answers) != 1 || r.Answers["204"] != r.Sent() {
		t.Errorf("the empty handler answers %v", r.Answers)
	}
}
