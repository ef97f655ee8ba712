package scan_test

import (
	"maps"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/reports/scan"
	"github.com/tallygate/tallygate/db/reports/segment"
	"github.com/tallygate/tallygate/tools/oracle"
	"github.com/tallygate/tallygate/tools/testkit"
)

// TestWithoutSmall compares the rows of random worlds, without small ones, with sums by a map.
func TestWithoutSmall(t *testing.T) {
	first, err := model.ParseDay("2026-11-18")
	testkit.NoError(t, err)

	grouped := 0
	for seed := range uint64(40) {
		r := rand.New(rand.NewPCG(seed, 23))
		days := oracle.World(r, first, 3)
		s := scan.New(oracle.Query(r, time.UTC, first, len(days)))
		for _, rows := range days {
			g, err := segment.Build(rows)
			testkit.NoError(t, err)
			testkit.NoError(t, s.Add(g))
		}

		for i, rows := range s.Result().Breakdowns {
			before := maps.Collect(rows.All())
			for least := range int64(5) {
				want := make(map[string]scan.Figures)
				for value, f := range before {
					if value != "" && f.Visitors < least {
						value = scan.OtherValue
						grouped++
					}
					sum := want[value]
					sum.Add(&f)
					want[value] = sum
				}

				shown := rows.WithoutSmall(least)
				if got := maps.Collect(shown.All()); !reflect.DeepEqual(got, want) || shown.Len() != len(want) {
					t.Fatalf("seed %d, breakdown %d, from %d visitors: %v, want %v", seed, i, least, got, want)
				}
				for value := range before {
					if got := shown.Of(value); !reflect.DeepEqual(got, want[value]) {
						t.Fatalf("seed %d, breakdown %d, from %d visitors: %q has %v, want %v", seed, i, least, value, got, want[value])
					}
				}
				if got := shown.Of(scan.OtherValue); !reflect.DeepEqual(got, want[scan.OtherValue]) {
					t.Fatalf("seed %d, breakdown %d, from %d visitors: the row of others has %v", seed, i, least, got)
				}
			}
			if !reflect.DeepEqual(maps.Collect(rows.All()), before) {
				t.Fatalf("seed %d: the rows of breakdown %d have changed", seed, i)
			}
		}
	}
	if grouped < 1_000 {
		t.Errorf("%d rows were small", grouped)
	}
}
