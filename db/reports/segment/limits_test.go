package segment_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/reports/segment"
	"github.com/tallygate/tallygate/tools/testkit"
)

// small are limits that a few rows exceed.
var small = segment.Limits{
	Names: 2, ValuesOf: 2, Values: 3, PropertyText: 1_000, PropertyRows: 1_000, Currencies: 2, Texts: 2, Text: 1_000,
}

// eventsOf is a day of one visit with an event for each JSON object.
func eventsOf(objects ...string) segment.Rows {
	r := segment.Rows{Day: day, Visits: []segment.Visit{{VisitKey: key(1, 1), StartedAt: at(day, 0), Channel: "direct"}}}
	for i, object := range objects {
		r.Events = append(r.Events, segment.Event{
			VisitKey: key(1, 1), At: at(day, time.Duration(i)*time.Second), ID: int64(i), Name: "signup", Path: "/", Properties: object,
		})
	}
	return r
}

// propertiesOf lists the properties of each event as name=value.
func propertiesOf(s *segment.Segment) [][]string {
	all := make([][]string, len(s.EventAt))
	for e := range all {
		for p, to := s.Props(e); p < to; p++ {
			all[e] = append(all[e], s.Text(segment.PropName, int(p))+"="+s.Text(segment.PropValue, int(p)))
		}
	}
	return all
}

const other = segment.Other + "=" + segment.Other

func TestPropertiesWithinLimits(t *testing.T) {
	for name, c := range map[string]struct {
		limits  func(*segment.Limits)
		objects []string
		want    [][]string
	}{
		"within": {
			func(*segment.Limits) {}, []string{`{"a":1,"b":2}`, `{"a":3}`}, [][]string{{"a=1", "b=2"}, {"a=3"}},
		},
		"names: the frequent ones stay, all others of an event are one": {
			func(*segment.Limits) {},
			[]string{`{"z":1,"y":1,"x":1}`, `{"b":1,"c":1,"z":1}`, `{"z":1,"b":1}`},
			[][]string{{other, "z=1"}, {"b=1", other, "z=1"}, {"b=1", "z=1"}},
		},
		"values of a property": {
			func(*segment.Limits) {},
			[]string{`{"a":1}`, `{"a":2}`, `{"a":3}`, `{"a":3}`, `{"a":2}`},
			[][]string{{"a=" + segment.Other}, {"a=2"}, {"a=3"}, {"a=3"}, {"a=2"}},
		},
		"values of all properties": {
			func(*segment.Limits) {},
			[]string{`{"a":1,"b":1}`, `{"a":1,"b":1}`, `{"a":2,"b":2}`, `{"a":2}`},
			[][]string{{"a=1", "b=1"}, {"a=1", "b=1"}, {"a=2", "b=" + segment.Other}, {"a=2"}},
		},
		"bytes": {
			func(l *segment.Limits) { l.PropertyText = 10 },
			[]string{`{"a":"` + strings.Repeat("x", 20) + `"}`, `{"a":"y"}`},
			[][]string{{"a=" + segment.Other}, {"a=y"}},
		},
		"rows: the most frequent names stay": {
			func(l *segment.Limits) { l.PropertyRows = 4 },
			[]string{`{"a":1,"b":1}`, `{"a":1,"b":1}`, `{"a":1}`},
			[][]string{{"a=1", other}, {"a=1", other}, {"a=1"}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			limits := small
			c.limits(&limits)
			s, err := segment.BuildWithin(eventsOf(c.objects...), limits)
			testkit.NoError(t, err)
			got := propertiesOf(s)
			for i := range got {
				slices.Sort(got[i])
				slices.Sort(c.want[i])
			}
			testkit.DeepEqual(t, got, c.want, "got")
		})
	}
}

// TestFirstPropertiesOfAnEvent checks that reports have the first properties by name, without
// lists.
func TestFirstPropertiesOfAnEvent(t *testing.T) {
	var object strings.Builder
	object.WriteString(`{"a-list":[1]`)
	for i := range 40 {
		fmt.Fprintf(&object, `,"n%02d":%d`, 39-i, i)
	}
	object.WriteString("}")

	s, err := segment.Build(eventsOf(object.String()))
	testkit.NoError(t, err)
	got := propertiesOf(s)[0]
	if len(got) != segment.MaxProperties || got[0] != "n00=39" || got[29] != "n29=10" {
		t.Errorf("%d properties %q; want n00 to n29", len(got), got)
	}
}

// textsOf is a day of a visit with a page view for each path; sources have a visit each.
func textsOf(paths, sources []string) segment.Rows {
	r := segment.Rows{Day: day}
	for i, source := range sources {
		r.Visits = append(r.Visits, segment.Visit{
			VisitKey: key(byte(i), 1), StartedAt: at(day, 0), Channel: "email", Campaign: model.Campaign{Source: source},
		})
	}
	for i, path := range paths {
		r.Views = append(r.Views, segment.View{VisitKey: key(0, 1), At: at(day, time.Duration(i)*time.Second), ID: int64(i), Path: path, Width: -1})
	}
	return r
}

// rowsOf returns the texts of a field's rows.
func rowsOf(s *segment.Segment, f segment.Field) (texts []string) {
	for i := range s.Columns[f].Len() {
		texts = append(texts, s.Text(f, i))
	}
	return texts
}

// TestTextsWithinLimits checks that the frequent texts of a domain keep their rows, whenever they
// come, and that a domain within its limit keeps all.
func TestTextsWithinLimits(t *testing.T) {
	o := segment.Other
	for name, c := range map[string]struct {
		limits         func(*segment.Limits)
		paths, sources []string
		wantPaths      []string
		wantSources    []string
	}{
		"within": {func(*segment.Limits) {}, []string{"/a", "/b", ""}, []string{"x", ""}, []string{"/a", "/b", ""}, []string{"x", ""}},
		"many paths": {
			limits: func(*segment.Limits) {}, paths: []string{"/a", "/b", "/c", "/c", "/d", "/b"},
			sources: []string{"x"}, wantPaths: []string{o, "/b", "/c", "/c", o, "/b"}, wantSources: []string{"x"},
		},
		"many sources": {func(*segment.Limits) {}, []string{"/"}, []string{"x", "y", "z", "z", "y"}, []string{"/"}, []string{o, "y", "z", "z", "y"}},
		"bytes": {
			func(l *segment.Limits) { l.Text, l.Texts = 60, 100 }, []string{"/" + strings.Repeat("a", 50), "/b", "/b"},
			[]string{strings.Repeat("s", 20)}, []string{o, "/b", "/b"}, []string{strings.Repeat("s", 20)},
		},
	} {
		t.Run(name, func(t *testing.T) {
			limits := small
			c.limits(&limits)
			s, err := segment.BuildWithin(textsOf(c.paths, c.sources), limits)
			testkit.NoError(t, err)
			testkit.EqualSlices(t, rowsOf(s, segment.Path), c.wantPaths, "paths")
			testkit.EqualSlices(t, rowsOf(s, segment.UTMSource), c.wantSources, "sources")
		})
	}
}

// TestMergeWithinLimits checks that a month keeps the texts that are frequent in all its days, and
// joins what is Other in a day with what is in the month.
func TestMergeWithinLimits(t *testing.T) {
	build := func(d model.Day, objects ...string) *segment.Segment {
		r := eventsOf(objects...)
		r.Day = d
		for i := range r.Visits {
			r.Visits[i].StartedAt = at(d, 0)
		}
		for i := range r.Events {
			r.Events[i].At = at(d, time.Duration(i)*time.Second)
			r.Events[i].Path = fmt.Sprintf("/%d", i)
		}
		s, err := segment.BuildWithin(r, small)
		testkit.NoError(t, err)
		return s
	}
	first := build(day, `{"a":1,"c":1}`, `{"a":1,"b":1,"c":1}`, `{"a":1}`)
	second := build(day+1, `{"d":1}`, `{"d":1}`, `{"d":1}`, `{"a":2}`)

	merged, err := segment.MergeWithin(small, first, second)
	testkit.NoError(t, err)
	want := [][]string{{"a=1", other}, {"a=1", other}, {"a=1"}, {"d=1"}, {"d=1"}, {"d=1"}, {"a=2"}}
	testkit.DeepEqual(t, propertiesOf(merged), want, "properties")
	o := segment.Other
	if got, want := rowsOf(merged, segment.EventPath), []string{"/0", "/1", o, "/0", "/1", o, o}; !slices.Equal(got, want) {
		t.Errorf("paths %q, want %q", got, want)
	}

	// The merged segment can be stored and read.
	if _, err := segment.Decode(merged.Encode()); err != nil {
		t.Error(err)
	}
}

// TestCounterKeepsFrequentTexts checks the bound of Misra and Gries on random texts in the worst
// order: all rare ones come first, or last.
func TestCounterKeepsFrequentTexts(t *testing.T) {
	const size, rare = 50, 20_000
	r := rand.New(rand.NewPCG(1, 1))
	for range 20 {
		add, counts := segment.NewCounter(size, 1<<20)
		real, total := map[string]int64{}, int64(0)
		count := func(text string) {
			add(text, 1)
			real[text]++
			total++
		}

		frequent := func() {
			for range 1_000 {
				count(fmt.Sprintf("frequent-%d", r.IntN(10)))
			}
		}
		if r.IntN(2) == 0 {
			frequent()
		}
		for range rare {
			count(fmt.Sprintf("rare-%d", r.Uint64()))
		}
		frequent()

		known := counts()
		if len(known) > 2*size+1 {
			t.Fatalf("%d texts are kept, want at most %d", len(known), 2*size+1)
		}
		for text, n := range real {
			if n > total/size && known[text] == 0 {
				t.Errorf("%q, %d of %d, was forgotten", text, n, total)
			}
			if known[text] > n || known[text] < n-total/size && known[text] != 0 {
				t.Errorf("%q counts %d, is %d", text, known[text], n)
			}
		}
	}
}

// TestBuildWithinItsBudget checks that a build ends when its rows need more memory than it may use.
func TestBuildWithinItsBudget(t *testing.T) {
	build := func(budget int) error {
		_, err := segment.BuildDay(t.Context(), day, budget, func(d *segment.DayBuilder) error {
			d.AddVisit(key(1, 1), at(day, 0), nil, "direct", d.Origin("", &model.Campaign{}), d.Client(&model.Client{}))
			for i := range 100_000 {
				d.AddEvent(key(1, 1), at(day, 0), int64(i), []byte("signup"), []byte("/"), nil, 0, nil)
				if err := d.Err(); err != nil {
					return err
				}
			}
			return nil
		})
		return err
	}
	if err := build(1 << 20); !errors.Is(err, segment.ErrTooLarge) {
		t.Errorf("error %v, want ErrTooLarge", err)
	}
	if err := build(20 << 20); err != nil {
		t.Error(err)
	}
}

// TestLimitsKeepEqualRows checks that limits that are not exceeded change nothing, and that the
// sums of a build beyond them are those of the rows.
func TestLimitsKeepEqualRows(t *testing.T) {
	objects := make([]string, 500)
	r := rand.New(rand.NewPCG(2, 2))
	for i := range objects {
		objects[i] = fmt.Sprintf(`{"p%d":%d,"plan":"pro"}`, r.IntN(10), r.IntN(50))
	}
	rows := eventsOf(objects...)
	whole, err := segment.Build(rows)
	testkit.NoError(t, err)
	same, err := segment.BuildWithin(rows, segment.MonthLimits)
	if err != nil || !reflect.DeepEqual(same.Encode(), whole.Encode()) {
		t.Errorf("other limits, which are not exceeded: error %v, or another segment", err)
	}

	folded, err := segment.BuildWithin(rows, small)
	testkit.NoError(t, err)
	count := func(s *segment.Segment) map[string]int {
		events := map[string]int{}
		for _, properties := range propertiesOf(s) {
			for _, p := range properties {
				events[p]++
			}
		}
		return events
	}
	all, kept := count(whole), count(folded)
	if folded.Total() != whole.Total() || kept["plan=pro"] != 500 {
		t.Errorf("%d events with the frequent value, want 500", kept["plan=pro"])
	}
	if kept[other] == 0 || len(kept) > 5 {
		t.Errorf("%v", kept)
	}
	for p, n := range kept {
		if !strings.Contains(p, segment.Other) && all[p] != n {
			t.Errorf("%s has %d events, want %d", p, n, all[p])
		}
	}
}
