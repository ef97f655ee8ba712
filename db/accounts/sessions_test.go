package accounts_test

import (
	"errors"
	"testing"
	"time"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/accounts"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/tools/dbtest"
	"github.com/tallygate/tallygate/tools/testkit"
	"github.com/tallygate/tallygate/tools/world"
)

func newSession(t *testing.T, d *db.DB, user *model.User, token string, at model.Instant) []byte {
	t.Helper()
	hash := model.HashToken(token)
	start := accounts.SessionStart{
		Session: model.Session{IDHash: hash, UserID: user.ID, CreatedAt: at}, PasswordHash: user.PasswordHash,
	}
	testkit.NoError(t, accounts.New(d).Sessions.Create(t.Context(), start))
	return hash
}

// sessionLives reports whether the session is found at the given time. Finding it counts as use.
func sessionLives(t *testing.T, d *db.DB, hash []byte, at model.Instant) bool {
	t.Helper()
	user, err := accounts.New(d).Sessions.User(t.Context(), hash, at)
	if err != nil && !errors.Is(err, model.ErrNotFound) {
		t.Fatal(err)
	}
	return user != nil
}

func TestSessionFindsItsUser(t *testing.T) {
	dbtest.Parallel(t, func(t *testing.T, d *db.DB) {
		world.New(t, d).User("other@example.com")
		owner := world.New(t, d).User("owner@example.com")
		hash := newSession(t, d, owner, "token", dbtest.Start)
		got, err := accounts.New(d).Sessions.User(t.Context(), hash, dbtest.Start)
		if err != nil || got.ID != owner.ID || got.Account == nil || got.Account.ID != owner.AccountID {
			t.Fatalf("got %+v, error %v; want %+v", got, err, owner)
		}
		if sessionLives(t, d, model.HashToken("another token"), dbtest.Start) {
			t.Error("an unknown session was found")
		}
	})
}

// TestSessionOfAnEarlierPassword checks that no session is created when the password has changed or
// the user was deleted; the session that it would replace stays.
func TestSessionOfAnEarlierPassword(t *testing.T) {
	dbtest.Parallel(t, func(t *testing.T, d *db.DB) {
		user := world.New(t, d).User("owner@example.com")
		old := newSession(t, d, user, "old", dbtest.Start)
		for userID, hash := range map[model.UserID]string{user.ID: "an earlier hash", user.ID + 100: "hash"} {
			err := accounts.New(d).Sessions.Create(t.Context(), accounts.SessionStart{
				Session:      model.Session{IDHash: model.HashToken("new"), UserID: userID, CreatedAt: dbtest.Start},
				PasswordHash: hash, Replaced: old,
			})
			if !errors.Is(err, model.ErrStale) || sessionLives(t, d, model.HashToken("new"), dbtest.Start) ||
				!sessionLives(t, d, old, dbtest.Start) {
				t.Errorf("user %d with %q: %v, or the sessions have changed", userID, hash, err)
			}
		}
	})
}

func TestSessionLifetimes(t *testing.T) {
	t.Parallel()
	const tick = time.Microsecond
	tests := []struct {
		name string
		uses []time.Duration // after its start; each must find the session
		dead time.Duration
	}{
		{"never used", nil, model.SessionIdle},
		{"last instant", []time.Duration{model.SessionIdle - tick}, 2*model.SessionIdle - tick},
		{"used within a minute is not written", []time.Duration{time.Minute - tick}, model.SessionIdle},
		{"used after a minute", []time.Duration{time.Minute}, model.SessionIdle + time.Minute},
		{"clock stepped back", []time.Duration{time.Hour, -time.Hour}, model.SessionIdle + time.Hour},
		{"used every ten days", days(10, 20, 30, 40, 50, 60, 70, 80), model.SessionLifetime},
	}

	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		user := world.New(t, d).User("owner@example.com")
		for _, test := range tests {
			hash := newSession(t, d, user, test.name, dbtest.Start)
			for _, use := range test.uses {
				if !sessionLives(t, d, hash, dbtest.Start.Add(use)) {
					t.Errorf("%s: deleted %v after its start", test.name, use)
				}
			}

			if sessionLives(t, d, hash, dbtest.Start.Add(test.dead)) {
				t.Errorf("%s: still valid %v after its start", test.name, test.dead)
			}
			if !sessionLives(t, d, hash, dbtest.Start.Add(test.dead-tick)) {
				t.Errorf("%s: deleted before %v after its start", test.name, test.dead)
			}
		}
	})
}

func days(n ...int) []time.Duration {
	durations := make([]time.Duration, len(n))
	for i := range n {
		durations[i] = time.Duration(n[i]) * 24 * time.Hour
	}
	return durations
}

func TestSessionsAreDeleted(t *testing.T) {
	dbtest.Parallel(t, func(t *testing.T, d *db.DB) {
		ctx := t.Context()
		owner, other := world.New(t, d).User("owner@example.com"), world.New(t, d).User("other@example.com")

		hashes := map[string][]byte{}
		for name, user := range map[string]*model.User{"a": owner, "b": owner, "c": owner, "other": other} {
			hashes[name] = newSession(t, d, user, name, dbtest.Start)
		}

		alive := func(want ...string) {
			t.Helper()
			for name, hash := range hashes {
				wanted := false
				for _, w := range want {
					wanted = wanted || w == name
				}

				testkit.Equal(t, sessionLives(t, d, hash, dbtest.Start), wanted, "session %s alive: %v", name, !wanted)
			}
		}

		testkit.NoError(t, accounts.New(d).Sessions.Delete(ctx, hashes["a"]))
		if err := accounts.New(d).Sessions.Delete(ctx, hashes["a"]); err != nil {
			t.Fatalf("deleting a session twice: %v", err)
		}

		alive("b", "c", "other")

		testkit.NoError(t, accounts.New(d).Sessions.Create(ctx, accounts.SessionStart{
			Session:      model.Session{IDHash: hashes["a"], UserID: owner.ID, CreatedAt: dbtest.Start},
			PasswordHash: owner.PasswordHash, Replaced: hashes["b"],
		}))

		alive("a", "c", "other")

		if n, err := accounts.New(d).Sessions.EndAll(ctx, owner.ID); err != nil || n != 2 {
			t.Fatalf("deleted %d sessions of the owner, error %v; want 2", n, err)
		}

		alive("other")
	})
}

func TestExpiredSessionsAreCleanedUp(t *testing.T) {
	dbtest.Parallel(t, func(t *testing.T, d *db.DB) {
		user := world.New(t, d).User("owner@example.com")
		old := newSession(t, d, user, "old", dbtest.Start)
		young := newSession(t, d, user, "young", dbtest.Start.Add(time.Microsecond))

		now := dbtest.Start.Add(model.SessionIdle)
		if n, err := accounts.New(d).Sessions.DeleteExpired(t.Context(), now); err != nil || n != 1 {
			t.Fatalf("deleted %d, error %v; want 1", n, err)
		}
		if sessionLives(t, d, old, dbtest.Start) || !sessionLives(t, d, young, now) {
			t.Error("the wrong session was deleted")
		}
	})
}

// TestNewSignInAlert checks which sign-ins are alerts, and of which accounts: those of a browser
// that shows no session of the same user, in the accounts of the user with a channel for them.
func TestNewSignInAlert(t *testing.T) {
	dbtest.Parallel(t, func(t *testing.T, d *db.DB) {
		user, other := world.New(t, d).User("owner@example.com"), world.New(t, d).User("other@example.com")
		unwanted, guest, foreign := world.New(t, d).Account("unwanted"), world.New(t, d).Account("guest"), world.New(t, d).Account("foreign")
		for statement, args := range map[string][]any{
			"INSERT INTO memberships (user_id, account_id, role, created_at) VALUES (?, ?, 'owner', 1)": {user.ID, unwanted},
			"INSERT INTO guests (user_id, account_id, site_ids, created_at) VALUES (?, ?, '[1]', 1)":    {user.ID, guest},
		} {
			testkit.NoError(t, dbtest.Exec(d, statement, args...))
		}
		for account, event := range map[model.AccountID]model.AlertEvent{
			user.AccountID: model.AlertNewSignIn, guest: model.AlertNewSignIn, foreign: model.AlertNewSignIn, unwanted: model.AlertQuota,
		} {
			channel := model.AlertChannel{
				AccountID: account, Kind: model.ChannelWebhook, Name: "ops", Language: model.English, Address: []byte{1},
				Events: []model.AlertEvent{event}, ConfirmedAt: 1, CreatedAt: 1,
			}
			if _, err := d.Write.NewInsert().Model(&channel).Exec(t.Context()); err != nil {
				t.Fatal(err)
			}
		}

		owners := newSession(t, d, user, "owner's", dbtest.Start)
		others := newSession(t, d, other, "other's", dbtest.Start)
		for i, step := range []struct {
			name     string
			replaced []byte
			signIn   bool
			hash     string
			alerts   int
		}{
			{"a part of another change", nil, false, user.PasswordHash, 0},
			{"an earlier password", nil, true, "an earlier hash", 0},
			{"another browser", nil, true, user.PasswordHash, 2},
			{"a browser with a session that has ended", model.HashToken("unknown"), true, user.PasswordHash, 2},
			{"a browser of another user", others, true, user.PasswordHash, 2},
			{"the same browser", owners, true, user.PasswordHash, 0},
		} {
			before, err := dbtest.Count(d, "alerts")
			testkit.NoError(t, err)
			err = accounts.New(d).Sessions.Create(t.Context(), accounts.SessionStart{
				Session: model.Session{
					IDHash: model.HashToken(step.name), UserID: user.ID, CreatedAt: dbtest.Start + model.Instant(i),
				},
				PasswordHash: step.hash, Replaced: step.replaced, SignIn: step.signIn,
			})
			if wrong := step.hash != user.PasswordHash; wrong != errors.Is(err, model.ErrStale) {
				t.Fatalf("%s: %v", step.name, err)
			}
			after, err := dbtest.Count(d, "alerts")
			if err != nil || after-before != step.alerts {
				t.Errorf("%s: %d alerts, want %d, %v", step.name, after-before, step.alerts, err)
			}
		}

		var alert model.Alert
		err := d.Read.NewSelect().Model(&alert).Where("account_id = ?", user.AccountID).Order("id").Limit(1).Scan(t.Context())
		if at := dbtest.Start + 2; err != nil || alert.Event != model.AlertNewSignIn || alert.Subject != user.Email ||
			alert.BeganAt != at || alert.EndedAt != at {
			t.Errorf("the alert is %+v, %v", alert, err)
		}
		messages, err := dbtest.Count(d, "alert_messages")
		if err != nil || messages != 6 {
			t.Errorf("%d messages, want 6, %v", messages, err)
		}
	})
}
