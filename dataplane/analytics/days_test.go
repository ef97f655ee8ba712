package analytics

import (
	"context"
	"testing"

	"github.com/tallygate/tallygate/db/model"
)

// TestForgetDays: the keys of yesterday, today and tomorrow stay in memory. Those of other days go, also those that a clock
// asked for that was ahead.
func TestForgetDays(t *testing.T) {
	const today = model.Day(20_777)
	reads := 0
	d := newDayKeys(func(context.Context, model.Day) ([]byte, error) { reads++; return make([]byte, 32), nil }, []byte("secret"))
	for _, test := range []struct {
		day  model.Day
		kept bool
	}{{today - 400, false}, {today - 2, false}, {today - 1, true}, {today, true}, {today + 1, true}, {today + 2, false}, {today + 400, false}} {
		if _, err := d.get(t.Context(), test.day); err != nil {
			t.Fatal(err)
		}
		d.forget(today)
		before := reads
		if _, err := d.get(t.Context(), test.day); err != nil {
			t.Fatal(err)
		}
		if kept := reads == before; kept != test.kept {
			t.Errorf("day %+d: kept %v, want %v", test.day-today, kept, test.kept)
		}
	}
}
