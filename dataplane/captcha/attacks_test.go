package captcha

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/tallygate/tallygate/db/model"
)

// TestWhichAttacksAreStored: an attack is stored when it begins, when its level rises or has fallen
// to the one that is seen, and once a minute; a lower one is not, however often it is seen.
func TestWhichAttacksAreStored(t *testing.T) {
	at := model.At(time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC))
	for _, test := range []struct {
		name        string
		storedLevel int
		after       time.Duration // since the stored one was seen
		seen        int
		want        bool
	}{
		{"none", 0, 0, 0, false},
		{"first", 0, 0, 1, true},
		{"again", 2, 59 * time.Second, 2, false},
		{"after a minute", 2, time.Minute, 2, true},
		{"rising", 2, time.Second, 3, true},
		{"lower", 2, 5 * time.Minute, 1, false},
		{"lower, after the level has fallen by one", 3, 10 * time.Minute, 1, false},
		{"equal, after the level has fallen", 3, 10 * time.Minute, 2, true},
		{"after the end", 1, 10 * time.Minute, 1, true},
	} {
		stored := 0
		a := newAttacks(func(context.Context, model.AccountID, model.SitekeyID, model.CaptchaAttack) error {
			stored++
			return nil
		}, slog.New(slog.DiscardHandler))
		key := &sitekey{id: 1, attack: model.CaptchaAttack{Level: test.storedLevel, Seen: at}}

		for range 3 {
			a.add(key, model.CaptchaAttack{Level: test.seen, Seen: at.Add(test.after)})
		}
		a.flush(t.Context())
		if want := map[bool]int{true: 1}[test.want]; stored != want {
			t.Errorf("%s: stored %d times, want %d", test.name, stored, want)
		}
	}
}
