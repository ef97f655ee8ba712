package segment_test

import (
	"bytes"
	"errors"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/reports/segment"
	"github.com/tallygate/tallygate/tools/testkit"
)

var day = model.At(time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)).Day()

func key(visitor byte, n int16) segment.VisitKey {
	return segment.VisitKey{Visitor: model.VisitorID{visitor}, N: n}
}

func at(d model.Day, after time.Duration) model.Instant { return d.Start().Add(after) }

// rows is a day with two visitors, three visits, an event without a page view and properties.
func rows(d model.Day) segment.Rows {
	return segment.Rows{
		Day: d,
		Visits: []segment.Visit{
			{VisitKey: key(2, 1), StartedAt: at(d, time.Hour), Channel: "direct"},
			{VisitKey: key(1, 2), StartedAt: at(d, 5*time.Hour), Channel: "email", UserID: "0123456789abcdef"},
			{VisitKey: key(1, 1), StartedAt: at(d, time.Minute), Channel: "referral", Referrer: "a.example/x"},
		},
		Views: []segment.View{
			{VisitKey: key(2, 1), At: at(d, time.Hour), Path: "/b", Language: "en", Width: 1920, EngagedMS: 500, Scroll: 40},
			{VisitKey: key(1, 1), At: at(d, 2*time.Minute), Path: "/b", Width: -1},
			{VisitKey: key(1, 1), At: at(d, time.Minute), Path: "/a", Width: -1, EngagedMS: 9_999},
		},
		Events: []segment.Event{
			{VisitKey: key(1, 2), At: at(d, 5*time.Hour), Name: "purchase", Path: "/till", Value: 1_500_000, Currency: "EUR",
				Properties: `{"plan":"pro","size":1.50,"ok":true,"list":[1],"object":{},"none":null}`},
		},
	}
}

func build(t testing.TB, d model.Day) *segment.Segment {
	t.Helper()
	s, err := segment.Build(rows(d))
	testkit.NoError(t, err)
	return s
}

func TestBuild(t *testing.T) {
	s := build(t, day)

	for _, test := range []struct {
		name      string
		got, want any
	}{
		{"days", s.Days, []segment.Day{{Visits: 3, Views: 3, Events: 1}}},
		{"new visitors", s.New, []uint8{1, 0, 1}},
		{"starts", s.Start, []uint32{60, 5 * 3600, 3600}},
		{"time in view", s.Engaged, []uint32{9_999, 0, 500}},
		{"bounces", s.Bounced, []uint8{0, 0, 1}},
		{"page views", s.ViewsEnd, []uint32{2, 2, 3}},
		{"events", s.EventsEnd, []uint32{0, 1, 1}},
		{"values", s.Value, []int64{1_500_000}},
		{"entry", s.Text(segment.Entry, 0), "/a"},
		{"exit", s.Text(segment.Exit, 0), "/b"},
		{"entry without a page view", s.Text(segment.Entry, 1), ""},
		{"source", s.Text(segment.Source, 0), "a.example"},
		{"user id of another visit of the visitor", s.Text(segment.User, 0), "0123456789abcdef"},
		{"no user id", s.Text(segment.User, 2), ""},
		{
			name: "property names",
			got:  []string{s.Text(segment.PropName, 0), s.Text(segment.PropName, 1), s.Text(segment.PropName, 2)},
			want: []string{"ok", "plan", "size"},
		},
		{
			name: "property values",
			got:  []string{s.Text(segment.PropValue, 0), s.Text(segment.PropValue, 1), s.Text(segment.PropValue, 2)},
			want: []string{"true", "pro", "1.50"},
		},
		{"properties", s.PropsEnd, []uint32{3}},
	} {
		t.Run(test.name, func(t *testing.T) {
			testkit.DeepEqual(t, test.got, test.want, "got")
		})
	}
}

func TestBuildRefusesRowsWithoutTheirVisit(t *testing.T) {
	for name, lost := range map[string]segment.VisitKey{"before all": key(0, 1), "between": key(1, 3), "after all": key(3, 1)} {
		for kind, add := range map[string]func(*segment.Rows){
			"page view": func(r *segment.Rows) { r.Views = append(r.Views, segment.View{VisitKey: lost}) },
			"event":     func(r *segment.Rows) { r.Events = append(r.Events, segment.Event{VisitKey: lost}) },
		} {
			t.Run(kind+" "+name, func(t *testing.T) {
				r := rows(day)
				add(&r)
				if _, err := segment.Build(r); err == nil {
					t.Error("the day was built")
				}
			})
		}
	}
}

func TestEncodeDecode(t *testing.T) {
	empty, err := segment.Build(segment.Rows{Day: day})
	testkit.NoError(t, err)
	merged, err := segment.Merge([]*segment.Segment{build(t, day), build(t, day+1)})
	testkit.NoError(t, err)

	for name, s := range map[string]*segment.Segment{"day": build(t, day), "two days": merged, "empty": empty} {
		t.Run(name, func(t *testing.T) {
			got, err := segment.Decode(s.Encode())
			testkit.NoError(t, err)
			if got.Total() != s.Total() || got.First != s.First || !reflect.DeepEqual(got.Texts, s.Texts) {
				t.Errorf("got %+v, want %+v", got, s)
			}
			if again := got.Encode(); name != "empty" && !reflect.DeepEqual(again, s.Encode()) {
				t.Error("encoded again, the parts differ")
			}
		})
	}
}

// TestMergeFillsGaps checks that days between two segments have no rows.
func TestMergeFillsGaps(t *testing.T) {
	merged, err := segment.Merge([]*segment.Segment{build(t, day), build(t, day+3)})
	testkit.NoError(t, err)
	one := segment.Day{Visits: 3, Views: 3, Events: 1}
	if want := []segment.Day{one, {}, {}, one}; !reflect.DeepEqual(merged.Days, want) {
		t.Errorf("days %v, want %v", merged.Days, want)
	}
	if want := []uint32{60, 5 * 3600, 3600, 3*86_400 + 60}; !reflect.DeepEqual(merged.Start[:4], want) {
		t.Errorf("visits start at %v, want %v", merged.Start[:4], want)
	}
}

func TestMergeRefusesDisorder(t *testing.T) {
	for name, days := range map[string][]model.Day{"twice": {day, day}, "backwards": {day, day - 1}} {
		t.Run(name, func(t *testing.T) {
			if _, err := segment.Merge([]*segment.Segment{build(t, days[0]), build(t, days[1])}); err == nil {
				t.Error("the segments were merged")
			}
		})
	}
}

func TestDecodeRefusesPartsOfTwoSegments(t *testing.T) {
	own := build(t, day).Encode()
	empty, err := segment.Build(segment.Rows{Day: day})
	testkit.NoError(t, err)

	for name, other := range map[string][segment.Parts][]byte{"another day": build(t, day+1).Encode(), "no rows": empty.Encode()} {
		for part := range segment.Parts {
			mixed := own
			mixed[part] = other[part]
			if _, err := segment.Decode(mixed); !errors.Is(err, segment.ErrDamaged) {
				t.Errorf("%s, part %d: %v, want ErrDamaged", name, part, err)
			}
		}
	}
}

// FuzzDecodeBytes changes the bytes of a part. The checksum must notice.
func FuzzDecodeBytes(f *testing.F) {
	parts := build(f, day).Encode()
	for part := range segment.Parts {
		f.Add(int16(part), parts[part][:len(parts[part])-1])
		f.Add(int16(part), parts[part][:4])
	}

	f.Fuzz(func(t *testing.T, part int16, data []byte) {
		if part < 0 || part >= int16(segment.Parts) || bytes.Equal(data, parts[part]) {
			return
		}
		changed := parts
		changed[part] = data
		if _, err := segment.Decode(changed); !errors.Is(err, segment.ErrDamaged) {
			t.Fatalf("error %v, want ErrDamaged", err)
		}
	})
}

// FuzzDecodeValues changes one value of a segment before it is encoded. Decode must refuse it or
// return a segment whose every index can be followed.
func FuzzDecodeValues(f *testing.F) {
	for column := range uint8(columnCount) {
		f.Add(column, uint8(0), uint32(200))
	}

	f.Fuzz(func(t *testing.T, column, row uint8, value uint32) {
		s := build(t, day)
		set(s, column, row, value)

		got, err := segment.Decode(s.Encode())
		switch {
		case err == nil:
			follow(got)
		case !errors.Is(err, segment.ErrDamaged):
			t.Fatalf("error %v, want ErrDamaged", err)
		}
	})
}

// columnCount is how many columns set can change.
const columnCount = 32

// set changes the value of a column in a row.
func set(s *segment.Segment, column, row uint8, value uint32) {
	wide := []*[]uint32{&s.Start, &s.Engaged, &s.ViewsEnd, &s.EventsEnd, &s.ViewAt, &s.ViewEngaged, &s.EventAt, &s.PropsEnd}
	narrow := []*[]uint8{&s.New, &s.Bounced, &s.Scroll}
	column %= columnCount

	if int(column) < len(wide) {
		put(*wide[column], row, value)
		return
	}
	if column -= uint8(len(wide)); int(column) < len(narrow) {
		put(*narrow[column], row, uint8(value))
		return
	}
	switch column -= uint8(len(narrow)); {
	case int(column) < len(s.Columns):
		put(s.Columns[column].U8, row, uint8(value))
	default:
		s.Days[0].Visits = value
	}
}

func put[T any](values []T, row uint8, value T) {
	if len(values) > 0 {
		values[int(row)%len(values)] = value
	}
}

// follow reads everything of a segment that a scan can reach.
func follow(s *segment.Segment) {
	for i := range s.New {
		s.Text(segment.Entry, i)
		s.Text(segment.User, i)
		for v, to := s.Views(i); v < to; v++ {
			s.Text(segment.Path, int(v))
		}
		for e, to := s.Events(i); e < to; e++ {
			s.Text(segment.EventName, int(e))
			for p, to := s.Props(int(e)); p < to; p++ {
				s.Text(segment.PropName, int(p))
				s.Text(segment.PropValue, int(p))
			}
		}
	}
}

// TestOrderOfEvents checks where events lie among the page views of their visit, also merged.
func TestOrderOfEvents(t *testing.T) {
	const day = model.Day(20_000)
	build := func(day model.Day) *segment.Segment {
		key := segment.VisitKey{Visitor: model.VisitorID{1}, N: 1}
		at := func(ms int) model.Instant { return day.Start().Add(time.Duration(ms) * time.Millisecond) }
		rows := segment.Rows{Day: day, Visits: []segment.Visit{{VisitKey: key, StartedAt: at(1000), Channel: "direct"}}}
		for _, ms := range []int{1000, 1600, 2500} {
			rows.Views = append(rows.Views, segment.View{VisitKey: key, At: at(ms), ID: int64(ms), Path: "/", Width: -1})
		}
		for _, ms := range []int{1000, 1200, 2000, 2900} {
			rows.Events = append(rows.Events, segment.Event{VisitKey: key, At: at(ms), ID: int64(ms), Name: "click", Path: "/"})
		}
		s, err := segment.Build(rows)
		testkit.NoError(t, err)
		return s
	}
	places := func(s *segment.Segment) (before []uint32) {
		s, err := segment.Decode(s.Encode())
		testkit.NoError(t, err)
		for e := range s.EventAt {
			before = append(before, s.Before.At(e))
		}
		return before
	}

	if got, want := places(build(day)), []uint32{1, 1, 2, 3}; !slices.Equal(got, want) {
		t.Errorf("page views before the events: %v, want %v", got, want)
	}
	merged, err := segment.Merge([]*segment.Segment{build(day), build(day + 1)})
	testkit.NoError(t, err)
	if got, want := places(merged), []uint32{1, 1, 2, 3, 1, 1, 2, 3}; !slices.Equal(got, want) {
		t.Errorf("merged: %v, want %v", got, want)
	}
}
