package scenario

import (
	"archive/zip"
	"bytes"
	"encoding/csv"
	"testing"
	"time"

	"github.com/tallygate/tallygate/tools/loadgen/load"
	"github.com/tallygate/tallygate/tools/loadgen/report"
)

// TestListOfFiles checks that a reader of ZIP archives finds all entries of the archive, and no
// file.
func TestListOfFiles(t *testing.T) {
	const size = 4 << 20
	archive := listOfFiles(size)
	if len(archive) > size || len(archive) < size-46 {
		t.Errorf("%d bytes, want %d", len(archive), size)
	}
	r, err := zip.NewReader(bytes.NewReader(archive), int64(len(archive)))
	if err != nil {
		t.Fatal(err)
	}
	if want := size / 46; len(r.File) < want-2 || len(r.File) <= 1<<16 {
		t.Errorf("%d entries, want some %d", len(r.File), want)
	}
}

// TestUmamiExport checks that each row has as many fields as the header, and that the size is used.
func TestUmamiExport(t *testing.T) {
	const size = 1 << 20
	export := umamiExport(size)
	rows, err := csv.NewReader(bytes.NewReader(export)).ReadAll()
	if err != nil || len(rows) < 1_500 || len(export) > size || len(export) < size-1_000 {
		t.Errorf("%d rows of %d bytes, error %v", len(rows), len(export), err)
	}
}

// TestNeighboursGoals checks which hits are a fault, at the limits, and which calms are alike.
func TestNeighboursGoals(t *testing.T) {
	const ms = time.Millisecond
	phase := func(p99 time.Duration, answers map[string]int64) *load.Result {
		r := &load.Result{Answers: answers}
		for range 100 {
			r.Latency.Add(p99)
		}
		return r
	}
	stored := map[string]int64{"204": 100}

	for name, test := range map[string]struct {
		before, during, after time.Duration
		answers               map[string]int64
		outside               int64
		observe               bool
		steady                bool
		faults                int
	}{
		"as calm":             {before: 30 * ms, during: 30 * ms, after: 30 * ms, steady: true},
		"twice the calm":      {before: 30 * ms, during: 59 * ms, after: 30 * ms, steady: true},
		"more than twice":     {before: 30 * ms, during: 63 * ms, after: 30 * ms, steady: true, faults: 1},
		"observed":            {before: 30 * ms, during: 63 * ms, after: 30 * ms, steady: true, observe: true},
		"within the floor":    {before: 2 * ms, during: 19 * ms, after: 19 * ms, steady: true},
		"other calm":          {before: 10 * ms, during: 30 * ms, after: 30 * ms},
		"refused":             {before: 30 * ms, during: 30 * ms, after: 30 * ms, steady: true, answers: map[string]int64{"204": 99, "503": 1}, faults: 1},
		"refused, observed":   {before: 30 * ms, during: 30 * ms, after: 30 * ms, steady: true, answers: map[string]int64{"204": 99, "400 x": 1}, observe: true, faults: 1},
		"too slow":            {before: 30 * ms, during: 30 * ms, after: 30 * ms, steady: true, answers: map[string]int64{"204": 99, "503 unavailable": 1}, faults: 1},
		"too slow, observed":  {before: 30 * ms, during: 30 * ms, after: 30 * ms, steady: true, answers: map[string]int64{"204": 99, "503 unavailable": 1}, observe: true},
		"refused at the ends": {before: 30 * ms, during: 30 * ms, after: 30 * ms, steady: true, outside: 1, faults: 1},
	} {
		if test.answers == nil {
			test.answers = stored
		}
		row := &neighboursRow{before: phase(test.before, stored), during: phase(test.during, test.answers), after: phase(test.after, stored)}
		row.during.Outside = test.outside
		c := &AttackNeighbours{HitsFloor: 20 * ms, Observe: test.observe}
		var o report.Outcome
		c.add(&o, "reports", 1, row)
		if row.steady(c.HitsFloor) != test.steady || len(o.Faults) != test.faults {
			t.Errorf("%s: steady %v, faults %q", name, !test.steady, o.Faults)
		}
	}
}
