package audit_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/audit"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/nodeid"
	"github.com/tallygate/tallygate/tools/dbtest"
	"github.com/tallygate/tallygate/tools/testkit"
	"github.com/tallygate/tallygate/tools/world"
)

func write(t *testing.T, d *db.DB, ctx context.Context, change audit.Change) {
	t.Helper()
	err := d.InTx(ctx, func(ctx context.Context, tx *db.Tx) error { return audit.Write(ctx, tx, change) })
	testkit.NoError(t, err)
}

func entries(t *testing.T, d *db.DB, accountID model.AccountID, filter audit.Filter) []*audit.Entry {
	t.Helper()
	list, err := audit.New(d).Entries(t.Context(), accountID, filter, 0, 100)
	testkit.NoError(t, err)
	return list
}

func TestWrite(t *testing.T) {
	dbtest.Parallel(t, func(t *testing.T, d *db.DB) {
		user := world.New(t, d).User("owner@example.com")
		other := &model.User{ID: user.ID + 1, Email: "other@example.com"}
		// After the entry of the sign-up, which has the machine's time.
		at := model.At(time.Date(2090, 1, 1, 0, 0, 0, 0, time.UTC))
		object := audit.Object{Kind: nodeid.Site, ID: 7, Name: "example.com"}
		as := func(kind audit.Kind) context.Context {
			return audit.WithActor(t.Context(), audit.Actor{Kind: kind, UserID: user.ID, Email: user.Email, Action: "act", At: at})
		}

		for _, step := range []struct {
			as     audit.Kind
			change audit.Change
			want   string
		}{
			{audit.User, audit.Change{}, "USER owner@example.com"},
			{audit.User, audit.Change{ByOperator: true}, "OPERATOR owner@example.com"},
			{audit.APIToken, audit.Change{}, "API_TOKEN owner@example.com"},
			{audit.CommandLine, audit.Change{ByOperator: true}, "COMMAND_LINE owner@example.com"},
			{audit.CommandLine, audit.Change{By: other}, "COMMAND_LINE owner@example.com"},
			{audit.User, audit.Change{By: other}, "USER other@example.com"},
			{audit.Unauthenticated, audit.Change{By: other}, "USER other@example.com"},
		} {
			step.change.AccountID, step.change.Object = user.AccountID, object
			write(t, d, as(step.as), step.change)

			newest := entries(t, d, user.AccountID, audit.Filter{})[0]
			if got := fmt.Sprint(newest.Actor.Kind, " ", newest.Actor.Email); got != step.want || newest.Actor.At != at ||
				newest.Actor.Action != "act" || newest.Object != object {
				t.Errorf("%+v by %s is written as %+v, want %s", step.change, step.as, newest, step.want)
			}
		}

		testkit.Equal(t, len(entries(t, d, user.AccountID, audit.Filter{Since: at})), 7, "entries")

		// Without an actor, the service itself makes the change, now.
		write(t, d, t.Context(), audit.Change{AccountID: user.AccountID, Object: object})
		if actor := entries(t, d, user.AccountID, audit.Filter{Actions: []string{"system"}, Until: at})[0].Actor; actor.Kind != audit.System ||
			actor.At >= at {
			t.Errorf("the actor is %+v", actor)
		}

		write(t, d, as(audit.User), audit.Change{AccountID: user.AccountID + 100, Object: object})
		if n := len(entries(t, d, user.AccountID+100, audit.Filter{})); n != 0 {
			t.Errorf("an unknown account has %d entries", n)
		}
	})
}

// TestValuesAreBounded: large values are cut and marked, and stay JSON.
func TestValuesAreBounded(t *testing.T) {
	t.Parallel()
	many := make([]string, 200)
	for i := range many {
		many[i] = fmt.Sprintf("192.0.2.%d/32", i)
	}

	wide := audit.Values{}
	for i := range 50 {
		wide[fmt.Sprintf("setting%02d", i)] = strings.Repeat("é", 200)
	}

	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		user := world.New(t, d).User("owner@example.com")
		for name, values := range map[string]audit.Values{
			"none": nil, "empty": {}, "small": {"name": "a", "volume": int64(1) << 53, "list": []string{"a"}},
			"list": {"addresses": many, "name": "a"}, "text": {"text": strings.Repeat("x", 5000)}, "wide": wide,
			"objects": {"filters": []any{map[string]any{"values": many}}},
		} {
			write(t, d, t.Context(), audit.Change{AccountID: user.AccountID, Before: values,
				Object: audit.Object{Kind: nodeid.Site, ID: 1, Name: name}})
			rows, err := dbtest.Rows[struct{ Before string }](d, "SELECT before FROM audit_log WHERE object_name = ?", name)
			if err != nil || len(rows) != 1 {
				t.Fatal(rows, err)
			}

			text := rows[0].Before
			if len(text) > 2048 || text != "" && !json.Valid([]byte(text)) {
				t.Errorf("%s has %d bytes: %s", name, len(text), text)
			}

			cut := name != "none" && name != "empty" && name != "small"
			testkit.Equal(t, strings.Contains(text, "…"), cut, "%s: %s", name, text)
			if name == "list" && !strings.Contains(text, `"… and 190 more"`) {
				t.Errorf("the list is cut to %s", text)
			}
		}

		small := entries(t, d, user.AccountID, audit.Filter{ObjectKind: nodeid.Site, ObjectID: 1})
		for _, entry := range small {
			if entry.Object.Name == "small" && fmt.Sprint(entry.Before["volume"]) != "9007199254740992" {
				t.Errorf("the volume is %v", entry.Before["volume"])
			}
		}
	})
}
