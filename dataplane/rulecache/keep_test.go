package rulecache_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tallygate/tallygate/dataplane/rulecache"
)

// TestLostNotificationsAreLogged checks that the loss of notifications is logged once, their return
// once, and a watch that ends by itself as an error.
func TestLostNotificationsAreLogged(t *testing.T) {
	away := errors.New("connection refused")
	for _, test := range []struct {
		name  string
		calls []error // of synced
		end   error   // of the watch
		want  []string
	}{
		{"no loss", []error{nil}, context.Canceled, nil},
		{"never reached", []error{away}, context.Canceled, []string{"WARN"}},
		{"reached later", []error{away, nil}, context.Canceled, []string{"WARN", "INFO"}},
		{"lost and restored", []error{nil, away, nil, away, nil}, context.Canceled, []string{"WARN", "INFO", "WARN", "INFO"}},
		{"ended", []error{nil}, away, []string{"ERROR"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			var text bytes.Buffer
			watch := func(_ context.Context, _ func(int64), synced func(error)) error {
				for _, why := range test.calls {
					synced(why)
				}
				return test.end
			}

			_, c := newCache()
			rulecache.Keep(t.Context(), watch, slog.New(slog.NewTextHandler(&text, nil)), c)

			var levels []string
			for line := range strings.Lines(text.String()) {
				_, level, _ := strings.Cut(line, "level=")
				level, _, _ = strings.Cut(level, " ")
				levels = append(levels, level)
			}

			if !slices.Equal(levels, test.want) || len(test.want) > 0 && !strings.Contains(text.String(), away.Error()) {
				t.Errorf("logged\n%s, want levels %v and the reason", &text, test.want)
			}
		})
	}
}

// TestKeepInvalidatesAllCaches checks that all caches follow changes, gaps in the notifications,
// and the end of the watch.
func TestKeepInvalidatesAllCaches(t *testing.T) {
	s1, c1 := newCache()
	s2, c2 := newCache()
	both := func(value string, loads int64) {
		t.Helper()
		expect(t, s1, c1, "a", value, loads)
		expect(t, s2, c2, "a", value, loads)
	}

	set := func(value string) { s1.set("a", value); s2.set("a", value) }
	pass := func(d time.Duration) { s1.pass(d); s2.pass(d) }
	both("1", 1)
	watch := func(_ context.Context, changed func(int64), synced func(error)) error {
		synced(nil)
		both("1", 2)
		set("changed")
		both("1", 2)
		changed(1)
		both("changed", 3)
		set("changed unseen")
		synced(errors.New("away"))
		pass(500 * time.Millisecond)
		both("changed unseen", 4)
		set("changed in the gap")
		synced(nil)
		both("changed in the gap", 5)

		return errors.New("ended")
	}

	rulecache.Keep(t.Context(), watch, slog.New(slog.DiscardHandler), c1, c2)
	set("changed after the end")
	pass(500 * time.Millisecond)
	both("changed after the end", 6)
}
