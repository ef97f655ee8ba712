package outbox_test

import (
	"bufio"
	"context"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/alerts"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/outbox"
	"github.com/tallygate/tallygate/tools/dbtest"
	"github.com/tallygate/tallygate/tools/testkit"
	"github.com/tallygate/tallygate/tools/world"
)

// outgoing is a kind of rows, as the tests of the machine use it.
type outgoing struct {
	name string
	most int32 // attempts of the schedule

	queue func(t *testing.T, at model.Instant) (id int64) // stores a due row
	// lease leases a row and returns the number of its attempt, 0 if it is not due, and what
	// records the outcome.
	lease func(ctx context.Context, id int64, now model.Instant) (int32, func(now model.Instant, class string) error, error)
	row   string // selects the row, by its id
}

// progress are the columns that the machine writes.
type progress struct {
	State           string
	Scheduled, Sent int32
	Leased, Next    model.Instant
}

func (o *outgoing) progress(t *testing.T, d *db.DB, id int64) progress {
	t.Helper()
	found, err := dbtest.Rows[progress](d, o.row, id)
	if err != nil || len(found) != 1 {
		t.Fatalf("%s %d: %v, %v", o.name, id, found, err)
	}
	return found[0]
}

// take is lease without an error.
func (o *outgoing) take(t *testing.T, id int64, now model.Instant) (int32, func(model.Instant, string)) {
	t.Helper()
	n, record, err := o.lease(t.Context(), id, now)
	if err != nil {
		t.Fatalf("lease %s %d: %v", o.name, id, err)
	}
	return n, func(now model.Instant, class string) {
		t.Helper()
		if err := record(now, class); err != nil {
			t.Fatalf("record %s %d: %v", o.name, id, err)
		}
	}
}

// lanes leases the rows of one lane: another row of the lane must not be due.
func lanes(d *db.DB, lane model.Lane) func(context.Context, int64, model.Instant) (int32, func(model.Instant, string) error, error) {
	return func(ctx context.Context, id int64, now model.Instant) (int32, func(model.Instant, string) error, error) {
		leased, err := outbox.New(d).LeaseDelivery(ctx, lane, nil, now, lease)
		if leased == nil || err != nil {
			return 0, nil, err
		}
		if leased.ID != id {
			return 0, nil, fmt.Errorf("leased %d instead of %d", leased.ID, id)
		}
		return leased.Attempts, func(now model.Instant, class string) error {
			return outbox.New(d).FinishAttempt(ctx, leased, outbox.AttemptResult{Error: class}, now)
		}, nil
	}
}

// leaseMail is lanes for mails. Package jobs/mail decides what follows a failure.
func leaseMail(d *db.DB) func(context.Context, int64, model.Instant) (int32, func(model.Instant, string) error, error) {
	return func(ctx context.Context, id int64, now model.Instant) (int32, func(model.Instant, string) error, error) {
		mail, err := outbox.New(d).LeaseMail(ctx, id, now, lease)
		if mail == nil || err != nil {
			return 0, nil, err
		}
		return mail.Attempts, func(now model.Instant, class string) error {
			switch {
			case class == "":
				mail.State = model.MailSent
			case mail.Attempts >= model.MaxMailAttempts:
				mail.State = model.MailFailed
			default:
				mail.NextAttemptAt = now.Add(model.MailRetryDelay(mail.Attempts))
			}
			return outbox.New(d).FinishMail(ctx, mail)
		}, nil
	}
}

// kindsOf returns the three kinds of rows of a site, and of a channel of its account.
func kindsOf(t *testing.T, d *db.DB, site *model.Site, channel int64) []outgoing {
	const counts = "state, attempts AS scheduled, tries AS sent, claimed_until AS leased, next_attempt_at AS next "
	insert := func(t *testing.T, statement string, args ...any) (id int64) {
		t.Helper()
		testkit.NoError(t, d.Write.NewRaw(statement, args...).Scan(t.Context(), &id))
		return id
	}

	return []outgoing{
		{
			name: "delivery", most: model.MaxAttempts, lease: lanes(d, conversions(site)),
			queue: func(t *testing.T, at model.Instant) int64 {
				return pending(t, d, site.ID, model.DeliveryConversion, at)
			},
			row: "SELECT " + counts + "FROM deliveries WHERE id = ?",
		},
		{
			name: "message", most: model.MaxAttempts, lease: lanes(d, model.Lane{Kind: model.DeliveryAlert, ChannelID: int64(channel)}),
			queue: func(t *testing.T, at model.Instant) int64 {
				return insert(t, `
INSERT INTO alert_messages
  (channel_id, event, phase, data, state, attempts, tries, claimed_until, fallback, created_at, next_attempt_at)
VALUES (?, 'traffic_drop', 'begun', '{}', 'pending', 0, 0, 0, '', ?, ?) RETURNING id`, channel, at, at)
			},
			row: "SELECT " + counts + "FROM alert_messages WHERE id = ?",
		},
		{
			name: "mail", most: model.MaxMailAttempts, lease: leaseMail(d),
			queue: func(t *testing.T, at model.Instant) int64 {
				return insert(t, `INSERT INTO mails (account_id, recipient, kind, data, state, attempts, created_at, next_attempt_at)
VALUES (?, 'owner@shop.example', 'test', '{"a": 1}', 'pending', 0, ?, ?) RETURNING id`, site.AccountID, at, at)
			},
			row: "SELECT state, attempts AS scheduled, attempts AS sent, 0 AS leased, next_attempt_at AS next FROM mails WHERE id = ?",
		},
	}
}

// TestMachine checks the attempts of each kind of rows: leases, their ends, counts, late results,
// and the end of the schedule.
func TestMachine(t *testing.T) {
	dbtest.Parallel(t, func(t *testing.T, d *db.DB) {
		site := world.New(t, d).Site("shop.example", world.Webhook)
		channel := insertChannel(t, d, site, func(*model.AlertChannel) {})
		for _, kind := range kindsOf(t, d, site, channel) {
			t.Run(kind.name, func(t *testing.T) {
				now := dbtest.Noon
				id := kind.queue(t, now)
				if n, _ := kind.take(t, id, now-1); n != 0 {
					t.Error("leased before it was due")
				}

				// The first worker dies; the second fails, and the first one's result comes last.
				n, late := kind.take(t, id, now)
				if p := kind.progress(t, d, id); n != 1 || p.State != "pending" || p.Sent != 1 || p.Next != now.Add(lease) {
					t.Errorf("attempt %d: %+v", n, p)
				}
				if n, _ := kind.take(t, id, now.Add(lease)-1); n != 0 {
					t.Error("leased again during the lease")
				}
				now = now.Add(lease)
				n, record := kind.take(t, id, now)
				if n != 2 {
					t.Errorf("attempt %d after the end of the lease, want 2", n)
				}
				record(now, model.AttemptServerError)
				failed := kind.progress(t, d, id)
				if failed.State != "pending" || failed.Scheduled != 2 || failed.Leased != 0 || failed.Next <= now {
					t.Errorf("after a failure %+v", failed)
				}
				late(now.Add(time.Second), model.AttemptServerError)
				if p := kind.progress(t, d, id); p != failed {
					t.Errorf("a late failure leaves %+v, was %+v", p, failed)
				}

				for want := int32(3); want <= kind.most; want++ {
					now = kind.progress(t, d, id).Next
					n, record := kind.take(t, id, now)
					testkit.Require(t, n, want, "attempt")
					record(now, model.AttemptServerError)
				}
				if p := kind.progress(t, d, id); p.State != "failed" || p.Scheduled != kind.most || p.Sent != kind.most {
					t.Errorf("after the last attempt %+v", p)
				}
				if n, _ := kind.take(t, id, now.Add(1000*time.Hour)); n != 0 {
					t.Errorf("attempt %d after the last one", n)
				}

				// The last worker dies.
				id = kind.queue(t, now)
				for range kind.most {
					if n, _ := kind.take(t, id, now); n == 0 {
						t.Fatal("not leased after the end of a lease")
					}
					now = now.Add(lease)
				}
				if n, _ := kind.take(t, id, now); n != 0 {
					t.Errorf("attempt %d, want none", n)
				}
				if p := kind.progress(t, d, id); p.State != "failed" || p.Sent != kind.most || p.Leased != 0 {
					t.Errorf("after the last worker's death %+v", p)
				}
			})
		}
	})
}

// TestPostpone checks that a row that may not be sent yet keeps its counts.
func TestPostpone(t *testing.T) {
	dbtest.Parallel(t, func(t *testing.T, d *db.DB) {
		site, quiet := world.New(t, d).Site("shop.example", world.Webhook), model.QuietHours{From: 11 * 60, To: 13 * 60, Zone: "UTC"}
		channel := insertChannel(t, d, site, func(c *model.AlertChannel) { c.Quiet = quiet })
		kinds := kindsOf(t, d, site, channel)
		delivery, message := &kinds[0], &kinds[1]
		waiting, held := delivery.queue(t, dbtest.Noon), message.queue(t, dbtest.Noon)
		setAddress(t, d, site, "", dbtest.Noon)

		if n, _ := delivery.take(t, waiting, dbtest.Noon); n != 0 {
			t.Errorf("attempt %d without an address", n)
		}
		testkit.Equal(t, delivery.progress(t, d, waiting), (progress{State: "waiting", Next: dbtest.Noon}), "the delivery")
		setAddress(t, d, site, "https://shop.example/hook", dbtest.Noon)
		if n, _ := delivery.take(t, waiting, dbtest.Noon); n != 1 {
			t.Errorf("attempt %d with an address, want 1", n)
		}

		if n, _ := message.take(t, held, dbtest.Noon); n != 0 {
			t.Errorf("attempt %d in quiet hours", n)
		}
		testkit.Equal(t, message.progress(t, d, held), (progress{State: "pending", Next: dbtest.Noon.Add(time.Hour)}), "the message")
		if n, _ := message.take(t, held, dbtest.Noon.Add(time.Hour)); n != 1 {
			t.Errorf("attempt %d after quiet hours, want 1", n)
		}
	})
}

// TestRedeliverKinds checks that manual attempts have the same rules for deliveries and messages:
// none during an attempt, a limited number, and a failure leaves the state as it was.
func TestRedeliverKinds(t *testing.T) {
	dbtest.Parallel(t, func(t *testing.T, d *db.DB) {
		site := world.New(t, d).Site("shop.example", world.Webhook)
		channel := insertChannel(t, d, site, func(*model.AlertChannel) {})
		kinds := kindsOf(t, d, site, channel)
		for i, again := range []func(id int64, now model.Instant) error{
			func(id int64, now model.Instant) error {
				_, err := outbox.New(d).Redeliver(t.Context(), site.AccountID, site.ID, id, now)
				return err
			},
			func(id int64, now model.Instant) error {
				_, err := alerts.NewChannels(d).Redeliver(t.Context(), site.AccountID, int64(channel), id, now)
				return err
			},
		} {
			kind, field := kinds[i], []string{"deliveryId", "alertMessageId"}[i]
			t.Run(kind.name, func(t *testing.T) {
				now := dbtest.Noon
				id := kind.queue(t, now)
				_, record := kind.take(t, id, now)
				dbtest.WantCode(t, again(id, now), model.Conflict, "delivery_in_progress", field)
				record(now, model.AttemptGone)

				for n := range int32(model.MaxRedeliveries) {
					testkit.NoError(t, again(id, now))
					dbtest.WantCode(t, again(id, now), model.Conflict, "delivery_in_progress", field)
					_, record := kind.take(t, id, now)
					record(now, model.AttemptServerError)
					if p := kind.progress(t, d, id); p != (progress{State: "failed", Scheduled: 1, Sent: n + 2, Next: now}) {
						t.Errorf("after manual attempt %d: %+v", n+1, p)
					}
				}
				dbtest.WantCode(t, again(id, now), model.Conflict, "too_many_redeliveries", field)
			})
		}
	})
}

// TestListPages reads the lists of two owners of each kind page by page, in both directions.
func TestListPages(t *testing.T) {
	dbtest.Parallel(t, func(t *testing.T, d *db.DB) {
		const n = 5
		var owners [2][]int64 // of deliveries and of messages
		var want [2]map[int64][]int64
		want[0], want[1] = map[int64][]int64{}, map[int64][]int64{}
		for _, domain := range []string{"shop.example", "other.example"} {
			site := world.New(t, d).Site(domain, world.Webhook)
			channel := insertChannel(t, d, site, func(*model.AlertChannel) {})
			kinds := kindsOf(t, d, site, channel)
			for i, owner := range []int64{int64(site.ID), channel} {
				owners[i] = append(owners[i], owner)
				for row := range n {
					want[i][owner] = append(want[i][owner], kinds[i].queue(t, dbtest.Noon.Add(time.Duration(row)*time.Minute)))
				}
			}
		}

		lists := []func(page db.Page) map[int64][]int64{
			func(page db.Page) map[int64][]int64 {
				found, err := outbox.New(d).DeliveriesOfSites(t.Context(), siteIDs(owners[0]), outbox.DeliveryPage{Page: page})
				return idsOf(t, found, err)
			},
			func(page db.Page) map[int64][]int64 {
				found, err := alerts.NewChannels(d).Messages(t.Context(), owners[1], page)
				return idsOf(t, found, err)
			},
		}
		for i, list := range lists {
			for _, owner := range owners[i] {
				all := want[i][owner]
				for _, page := range []struct {
					page db.Page
					want []int64
				}{
					{db.Page{Limit: 2}, all[:2]},
					{db.Page{Limit: 2, After: all[1]}, all[2:4]},
					{db.Page{Limit: 2, After: all[3]}, all[4:]},
					{db.Page{Limit: 2, Before: all[3], Backward: true}, all[1:3]},
					{db.Page{Limit: 2, Descending: true}, []int64{all[4], all[3]}},
					{db.Page{Limit: 2, Descending: true, After: all[3]}, []int64{all[2], all[1]}},
					{db.Page{Limit: 9}, all},
				} {
					if got := list(page.page)[owner]; !reflect.DeepEqual(got, page.want) {
						t.Errorf("list %d, %+v: %v, want %v", i, page.page, got, page.want)
					}
				}
			}
		}
	})
}

// idsOf returns the ids of the rows of lists.
func idsOf[OwnerID ~int64, Row model.Delivery | model.AlertMessage](
	t *testing.T, lists map[OwnerID][]*Row, err error,
) map[int64][]int64 {
	t.Helper()
	testkit.NoError(t, err)
	ids := make(map[int64][]int64, len(lists))
	for owner, list := range lists {
		for _, row := range list {
			ids[int64(owner)] = append(ids[int64(owner)], reflect.ValueOf(row).Elem().FieldByName("ID").Int())
		}
	}
	return ids
}

func siteIDs(numbers []int64) []model.SiteID {
	ids := make([]model.SiteID, len(numbers))
	for i, n := range numbers {
		ids[i] = model.SiteID(n)
	}
	return ids
}

// victimVariable is set for a process of TestKillBetweenLeaseAndRecord to a URL of a database and
// the ids of a site, a channel, a row of each kind, and a time.
const victimVariable = "TALLYGATE_TEST_OUTBOX_VICTIM"

// runVictim leases a row of each kind, writes a line, and waits to be killed.
func runVictim(instruction string) error {
	var databaseURL string
	var site model.SiteID
	var channel int64
	var ids [3]int64
	var now model.Instant
	if _, err := fmt.Sscan(instruction, &databaseURL, &site, &channel, &ids[0], &ids[1], &ids[2], (*int64)(&now)); err != nil {
		return err
	}
	d, err := db.Open(databaseURL)
	if err != nil {
		return err
	}
	d.UseApplicationKey([]byte(dbtest.ApplicationKey))

	for i, lease := range []func(context.Context, int64, model.Instant) (int32, func(model.Instant, string) error, error){
		lanes(d, model.Lane{SiteID: site, Kind: model.DeliveryConversion}),
		lanes(d, model.Lane{Kind: model.DeliveryAlert, ChannelID: channel}), leaseMail(d),
	} {
		n, _, err := lease(context.Background(), ids[i], now)
		if err != nil || n == 0 {
			return fmt.Errorf("attempt %d of row %d, %w", n, ids[i], err)
		}
	}
	fmt.Println("leased")
	select {}
}

// TestKillBetweenLeaseAndRecord kills 12 workers, or 200 with TALLYGATE_TEST_WORST=all, that have
// leased a row of each kind and recorded nothing. Then each row is delivered, and all attempts are
// counted.
func TestKillBetweenLeaseAndRecord(t *testing.T) {
	t.Parallel()
	const kills = model.MaxAttempts - 1 // of one row
	rounds := 3
	if os.Getenv("TALLYGATE_TEST_WORST") == "all" {
		rounds = 200 / kills
	}

	dbtest.EachURL(t, func(t *testing.T, databaseURL string) {
		t.Parallel()
		d := dbtest.Open(t, databaseURL)
		site := world.New(t, d).Site("shop.example", world.Webhook)
		channel := insertChannel(t, d, site, func(*model.AlertChannel) {})
		kinds := kindsOf(t, d, site, channel)

		now := dbtest.Noon
		for range rounds {
			var ids [3]int64
			for i, kind := range kinds {
				ids[i] = kind.queue(t, now)
			}
			for range kills {
				kill(t, fmt.Sprintln(databaseURL, site.ID, channel, ids[0], ids[1], ids[2], int64(now)))
				for i, kind := range kinds {
					if n, _ := kind.take(t, ids[i], now.Add(lease)-1); n != 0 {
						t.Fatalf("%s leased before the lease of a killed worker ended", kind.name)
					}
				}
				now = now.Add(lease)
			}

			for i, kind := range kinds {
				n, record := kind.take(t, ids[i], now)
				if n != kills+1 {
					t.Fatalf("%s: attempt %d after %d killed workers", kind.name, n, kills)
				}
				record(now, "")
				p := kind.progress(t, d, ids[i])
				if p.State != "delivered" && p.State != "sent" || p.Scheduled != kills+1 || p.Sent != kills+1 || p.Leased != 0 {
					t.Errorf("%s after %d killed workers: %+v", kind.name, kills, p)
				}
			}
		}

		// Each attempt has a row, without an outcome if its worker was killed.
		for _, table := range []string{"delivery_attempts", "alert_attempts"} {
			var all, unfinished int
			err := dbtest.SitesCell(t, d).Read.NewRaw("SELECT count(*), sum(CASE WHEN error = 'unfinished' THEN 1 ELSE 0 END) FROM "+table).
				Scan(t.Context(), &all, &unfinished)
			if err != nil || all != rounds*(kills+1) || unfinished != rounds*kills {
				t.Errorf("%s: %d attempts, %d unfinished, %v; want %d and %d", table, all, unfinished, err, rounds*(kills+1), rounds*kills)
			}
		}
		for _, table := range []string{"deliveries", "alert_messages", "mails"} {
			lost, err := dbtest.Rows[int64](d, "SELECT id FROM "+table+" WHERE state NOT IN ('delivered', 'sent')")
			if err != nil || len(lost) > 0 {
				t.Errorf("%s: %v are not delivered, %v", table, lost, err)
			}
		}
	})
}

// kill starts a process that leases rows, and kills it before it records anything.
func kill(t *testing.T, instruction string) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), victimVariable+"="+instruction)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	testkit.NoError(t, err)
	testkit.NoError(t, dbtest.StartBound(cmd))

	line, err := bufio.NewReader(out).ReadString('\n')
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	if line != "leased\n" {
		t.Fatalf("a worker wrote %q, %v", line, err)
	}
}

// TestOneMachine checks that only machine.go changes the columns of leases and counts of the three
// tables.
func TestOneMachine(t *testing.T) {
	t.Parallel()
	root := filepath.Join("..", "..")
	changed, files := 0, 0
	err := filepath.WalkDir(root, func(path string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			if err == nil && entry.IsDir() && (entry.Name() == "node_modules" || entry.Name() == "tools") {
				return filepath.SkipDir
			}
			return err
		}
		files++

		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		found := leaseWrites(t, string(text))
		if filepath.Base(path) == "machine.go" && filepath.Base(filepath.Dir(path)) == "outbox" {
			changed = len(found)
			return nil
		}
		for _, statement := range found {
			t.Errorf("%s: %s belongs to machine.go", path, statement)
		}
		return nil
	})
	if err != nil || files < 300 || changed < 4 {
		t.Errorf("%d files, %d statements of the machine, %v", files, changed, err)
	}

	for text, want := range map[string]int{
		`package p; func f() { tx.NewUpdate().Table("mails").Set("next_attempt_at = ?", now).Where("id = ?", 1) }`:         1,
		`package p; func f() { tx.NewUpdate().Model(&m).Column("state", "claimed_until") }`:                                1,
		`package p; func f() { tx.ExecContext(ctx, "UPDATE deliveries SET state = 'pending', tries = tries + 1") }`:        1,
		`package p; func f() { tx.NewUpdate().Table("deliveries").Set("body = ''").Where("tries = 0 AND fallback = ''") }`: 0,
		`package p; func f() { tx.NewSelect().Column("next_attempt_at").Where("claimed_until = 0") }`:                      0,
	} {
		if got := leaseWrites(t, text); len(got) != want {
			t.Errorf("%s: found %q, want %d", text, got, want)
		}
	}
}

var (
	leaseColumn = regexp.MustCompile(`\b(claimed_until|fallback|tries|next_attempt_at)\b`)
	rawUpdate   = regexp.MustCompile(`(?is)\bUPDATE\s+(deliveries|alert_messages|mails)\b.*\bSET\b.*` +
		`\b(claimed_until|fallback|tries|attempts|next_attempt_at)\s*=`)
)

// leaseWrites returns what writes the columns of leases in a file: arguments of Set, of Column
// after NewUpdate, and raw statements.
func leaseWrites(t *testing.T, text string) (found []string) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "", text, 0)
	testkit.NoError(t, err)

	source := func(n ast.Node) string { return text[n.Pos()-1 : n.End()-1] }
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.BasicLit:
			if n.Kind == token.STRING && rawUpdate.MatchString(n.Value) {
				found = append(found, n.Value)
			}
		case *ast.CallExpr:
			s, ok := n.Fun.(*ast.SelectorExpr)
			if !ok || s.Sel.Name != "Set" && (s.Sel.Name != "Column" || !strings.Contains(source(s.X), "NewUpdate()")) {
				return true
			}
			for _, arg := range n.Args {
				literal, ok := arg.(*ast.BasicLit)
				sum, isSum := arg.(*ast.BinaryExpr)
				if isSum {
					literal, ok = sum.X.(*ast.BasicLit)
				}
				if ok && leaseColumn.MatchString(literal.Value) {
					found = append(found, source(n)[len(source(s.X)):])
					break
				}
			}
		}
		return true
	})
	return found
}
