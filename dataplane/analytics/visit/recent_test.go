package visit_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/tallygate/tallygate/dataplane/analytics/visit"
	"github.com/tallygate/tallygate/db/model"
)

func TestRepeats(t *testing.T) {
	noon := model.At(time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC))
	type view struct {
		path  string
		after time.Duration
	}

	for _, test := range []struct {
		name      string
		automatic []view
		manual    view
		want      bool
	}{
		{name: "nothing before", manual: view{"/a", 0}},
		{name: "at the same time", automatic: []view{{"/a", 0}}, manual: view{"/a", 0}, want: true},
		{name: "one second after", automatic: []view{{"/a", 0}}, manual: view{"/a", time.Second}, want: true},
		{name: "more than a second after", automatic: []view{{"/a", 0}}, manual: view{"/a", time.Second + time.Microsecond}},
		{name: "one second before, by a clock that stepped back", automatic: []view{{"/a", time.Second}}, manual: view{"/a", 0}, want: true},
		{name: "another path", automatic: []view{{"/a", 0}}, manual: view{"/b", 0}},
		{
			name: "the one before the last", automatic: []view{{"/a", 0}, {"/b", 500 * time.Millisecond}},
			manual: view{"/a", 900 * time.Millisecond}, want: true,
		},
		{name: "one outside the window", automatic: []view{{"/a", 0}, {"/b", 1100 * time.Millisecond}}, manual: view{"/a", 1200 * time.Millisecond}},
		{
			name: "again on the same path", automatic: []view{{"/a", 0}, {"/a", 2 * time.Second}},
			manual: view{"/a", 2500 * time.Millisecond}, want: true,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			var v model.Visit
			for _, a := range test.automatic {
				visit.Remember(&v, a.path, noon.Add(a.after))
			}
			if got := visit.Repeats(&v, test.manual.path, noon.Add(test.manual.after)); got != test.want {
				t.Errorf("automatic %v, manual %v: repeats %v, want %v", test.automatic, test.manual, got, test.want)
			}
		})
	}
}

// TestRememberIsBounded checks that at most 8 page views are kept, and always the newest one,
// however many arrive within a second and whatever the clock does.
func TestRememberIsBounded(t *testing.T) {
	const longest = 8
	random := rand.New(rand.NewPCG(1, 2))
	at := model.At(time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC))

	var v model.Visit
	for i := range 10_000 {
		at = at.Add(time.Duration(random.Int64N(int64(time.Second))) - time.Duration(random.Int64N(int64(700*time.Millisecond))))
		path := fmt.Sprint("/", i)
		before := v.Recent
		visit.Remember(&v, path, at)

		if len(v.Recent) > longest || !visit.Repeats(&v, path, at) {
			t.Fatalf("page view %d: %d are kept, found %v", i, len(v.Recent), visit.Repeats(&v, path, at))
		}
		if len(before) > 0 && len(v.Recent) > 0 && &before[0] == &v.Recent[0] {
			t.Fatal("the views of the earlier visit were changed")
		}
	}
}
