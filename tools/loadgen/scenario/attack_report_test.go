package scenario

import (
	"encoding/json"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tallygate/tallygate/tools/loadgen/load"
)

// TestProperties checks that an event's properties are the most that the service stores: 4,096
// bytes.
func TestProperties(t *testing.T) {
	text := appendProperties(nil, rand.New(rand.NewPCG(1, 1)))
	var properties map[string]string
	if err := json.Unmarshal(text, &properties); err != nil {
		t.Fatal(err)
	}
	if len(text) != 4_096 || len(properties) != propertyCount || properties["aa"] == properties["ab"] {
		t.Errorf("%d bytes with %d properties: %s", len(text), len(properties), text)
	}
}

// TestPatternFilter checks the length and the number of asterisks of the patterns of a filter.
func TestPatternFilter(t *testing.T) {
	for _, size := range patternSizes {
		_, list, _ := strings.Cut(size.filter(), "values: ")
		var values []string
		if err := json.Unmarshal([]byte(strings.TrimSuffix(list, "}")), &values); err != nil {
			t.Fatal(err)
		}

		together := strings.Join(values, "")
		asterisks := strings.Count(together, "*")
		if len(together) != size.bytes || size.asterisks > 0 && asterisks != size.asterisks {
			t.Errorf("%v: %d bytes with %d asterisks", size, len(together), asterisks)
		}
		if size.asterisks == 0 && asterisks < size.bytes/2-len(values) || strings.Contains(together, "**") {
			t.Errorf("%v: %d asterisks", size, asterisks)
		}
		for _, value := range values {
			if len(value) > pathLength || !strings.HasPrefix(value, "/*a") || !strings.HasSuffix(value, "ab") && !strings.HasSuffix(value, "*b") {
				t.Errorf("%v: %.20s…%s", size, value, value[len(value)-5:])
			}
		}
	}
}

// TestMissedGoals checks each goal at its limit and beyond.
func TestMissedGoals(t *testing.T) {
	measured := func(peak int64, hit, report time.Duration) *period {
		p := &period{peak: peak, hits: &load.Result{Answers: map[string]int64{"204": 100}}}
		for range 100 {
			p.hits.Latency.Add(hit)
			p.reports.Add(report)
		}
		return p
	}

	const ms = time.Millisecond
	c := &AttackReport{HitsFloor: 20 * ms, ReportsFloor: 50 * ms}
	for _, test := range []struct {
		name   string
		change func(*reportStep)
		want   []string
	}{
		{"as calm", func(*reportStep) {}, nil},
		{"below the floors", func(s *reportStep) { s.during = measured(100<<20, 19*ms, 49*ms) }, nil},
		{"slow hits", func(s *reportStep) { s.during = measured(100<<20, 25*ms, 30*ms) }, []string{"hits"}},
		{"slow reports", func(s *reportStep) { s.during = measured(100<<20, 5*ms, 70*ms) }, []string{"reports"}},
		{"within a slot", func(s *reportStep) { s.during, s.slot = measured(100<<20, 5*ms, 70*ms), 40*ms }, nil},
		{"memory", func(s *reportStep) { s.during = measured(301<<20, 5*ms, 30*ms) }, []string{"memory"}},
		{"memory of a build", func(s *reportStep) { s.during, s.peakGoal = measured(257<<20, 5*ms, 30*ms), dayMemoryGoal }, []string{"memory"}},
		{"processor time", func(s *reportStep) { s.left, s.after = true, time.Second }, []string{"processor time"}},
		{"little processor time", func(s *reportStep) { s.left, s.after = true, 250*ms }, nil},
		{"not built", func(s *reportStep) { s.unfinished = true }, []string{"not built"}},
		{"terminated", func(s *reportStep) { s.during.died = true }, []string{"process terminated"}},
		{"refused reports", func(s *reportStep) { s.during.failed = map[string]int64{"TIMEOUT": 1} }, []string{"reports"}},
		{"refused hits", func(s *reportStep) { s.during.hits.Failed = 1 }, []string{"hits"}},
	} {
		s := reportStep{calm: measured(100<<20, 5*ms, 20*ms), during: measured(100<<20, 5*ms, 20*ms)}
		test.change(&s)
		if got := s.missed(c); !slices.Equal(got, test.want) {
			t.Errorf("%s: missed %v, want %v", test.name, got, test.want)
		}
	}
}
