package segment_test

import (
	"errors"
	"reflect"
	"testing"

	"github.com/tallygate/tallygate/db/reports/segment"
	"github.com/tallygate/tallygate/tools/testkit"
)

// sample is a rollup of build's segment with entries of all kinds. Its figures are arbitrary.
func sample() *segment.Rollup {
	r := &segment.Rollup{Names: 1 << 63}
	names := []segment.NameTotals{{Name: 1, Visitors: 2, Events: 3, Visits: 4, Bounces: 5, VisitMS: 6,
		Users: segment.NewList([]segment.Pair{{Value: 1}})}}
	totals := &segment.Totals{
		Visitors: 1, Visits: 2, Pageviews: 300, Bounces: 4, Scrolled: 5, VisitMS: 1 << 40, ViewMS: 7, ScrollSum: 8,
		Users: segment.NewList([]segment.Pair{{Value: 1}}), Names: names,
		Sets:   []segment.NameSet{{Visitors: 9, Names: []uint32{0, 1}}, {Visitors: 10, Names: []uint32{1}}},
		Sales:  []segment.Sale{{Name: 1, Currency: 1, Count: 2, Amount: -5_000_000}},
		Hidden: []segment.HiddenRow{{Field: segment.Path, Value: 2, Name: 1}},
		Across: names,
		Joined: segment.NewList([]segment.Pair{{Value: 1, N: 3}}),
	}
	totals.Values[segment.Path] = segment.FieldRows{
		Visitors: segment.NewList([]segment.Pair{{Value: 0, N: 200}, {Value: 2, N: 0}}),
		Users:    segment.NewList([]segment.Pair{{Value: 1, N: 1}}),
	}
	r.Add(segment.Span{Day: 0, From: 0, To: 82_800}, totals)
	r.Add(segment.Span{Day: 0, From: 82_800, To: 86_400}, new(segment.Totals))
	return r
}

// TestRollup checks that a rollup is decoded as it was encoded.
func TestRollup(t *testing.T) {
	encoded := sample().Encode()
	r, err := segment.DecodeRollup(encoded)
	testkit.NoError(t, err)
	if want := sample().Spans(); !reflect.DeepEqual(r.Spans(), want) {
		t.Errorf("spans %+v, want %+v", r.Spans(), want)
	}

	totals, err := r.Totals(0, build(t, day))
	testkit.NoError(t, err)
	if totals.Pageviews != 300 || totals.VisitMS != 1<<40 || totals.Sales[0].Amount != -5_000_000 ||
		!reflect.DeepEqual(totals.Sets[0].Names, []uint32{0, 1}) || totals.Across[0].VisitMS != 6 {
		t.Errorf("totals %+v", totals)
	}
	if joined, err := totals.Joined.Append(nil); err != nil || !reflect.DeepEqual(joined, []segment.Pair{{Value: 1, N: 3}}) || r.Names != 1<<63 {
		t.Errorf("joined %v of names %d, error %v", joined, r.Names, err)
	}
	pairs, err := totals.Values[segment.Path].Visitors.Append(nil)
	if want := []segment.Pair{{Value: 0, N: 200}, {Value: 2, N: 0}}; err != nil || !reflect.DeepEqual(pairs, want) {
		t.Errorf("visitors by path %v, error %v", pairs, err)
	}
	if err := followRollup(encoded, build(t, day)); err != nil {
		t.Error(err)
	}
}

// TestRollupDamage checks that a damaged rollup, and one of another version, are refused.
func TestRollupDamage(t *testing.T) {
	for at := range sample().Encode() {
		encoded := sample().Encode()
		encoded[at] ^= 0x55
		if _, err := segment.DecodeRollup(encoded); !errors.Is(err, segment.ErrDamaged) {
			t.Fatalf("byte %d: error %v", at, err)
		}
	}

	encoded := sample().Encode()
	encoded[rollupHead]++
	segment.SealRollup(encoded)
	if _, err := segment.DecodeRollup(encoded); !errors.Is(err, segment.ErrVersion) {
		t.Errorf("error %v of another version", err)
	}
}
