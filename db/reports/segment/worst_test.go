package segment_test

import (
	"encoding/binary"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/reports/segment"
)

// worst adds the hits of a day, all of which have a visit and texts of their own: purchases with
// properties, of which every second one is new.
func worst(hits int) func(*segment.DayBuilder) error {
	return func(d *segment.DayBuilder) error {
		hex := func(i int) string {
			const digits = "0123456789abcdef"
			var text [8]byte
			for n := range text {
				text[n] = digits[i>>(4*n)&15]
			}
			return string(text[:])
		}
		long := strings.Repeat("x", 1_000)
		path := []byte("/" + long + "        ")

		for i := range hits {
			var k segment.VisitKey
			binary.BigEndian.PutUint64(k.Visitor[:], uint64(i)*0x9e3779b97f4a7c15)
			at := at(day, time.Duration(i)*time.Millisecond)
			number := hex(i)
			copy(path[len(path)-8:], number)
			campaign := model.Campaign{Source: number, Medium: number, Name: number, Content: number, Term: number}
			d.AddVisit(k, at, []byte(number+number), "email", d.Origin(number+".example/"+long, &campaign))
			d.AddEvent(k, at, int64(i), []byte("purchase"), path, []byte("EUR"), 1, []byte(`{"a":"`+number+`","b":1,"`+number+`":true}`))
			if err := d.Err(); err != nil {
				return err
			}
		}
		return nil
	}
}

// TestWorstDayOfEachPlan builds the day on which all hits of a plan's month come, and encodes it. Its
// memory follows the hits, with some 800 bytes each, and not their texts, which have 4 KB. Plans of more
// than 100,000 are built only with TALLYGATE_TEST_WORST=all.
func TestWorstDayOfEachPlan(t *testing.T) {
	for _, c := range []struct {
		plan model.Plan
		hits int
		most int64 // MB
	}{
		{model.PlanFree, 10_000, 150}, {model.PlanPro100K, 100_000, 256}, {model.PlanPro500K, 500_000, 600},
		{model.PlanPro1M, 1_000_000, 1_000}, {model.PlanPro2M, 2_000_000, 1_900}, {model.PlanPro5M, 5_000_000, 4_500},
	} {
		t.Run(string(c.plan), func(t *testing.T) {
			if c.hits > 100_000 && os.Getenv("TALLYGATE_TEST_WORST") != "all" {
				t.Skip("set TALLYGATE_TEST_WORST=all to build it")
			}
			peak := peakOf(c.most<<20, func() {
				s, err := segment.BuildDay(t.Context(), day, 0, worst(c.hits))
				if err != nil {
					t.Fatal(err)
				}
				if got := s.Total(); int(got.Events) != c.hits {
					t.Errorf("%d events, want %d", got.Events, c.hits)
				}
				encode(t, s)
			})
			t.Logf("%d MB", peak>>20)
			if peak > c.most<<20 {
				t.Errorf("%d MB, want at most %d", peak>>20, c.most)
			}
		})
	}
}

// peakOf returns how much more memory Go has held during work than before it, while a memory limit
// makes the garbage collector keep it small.
func peakOf(limit int64, work func()) int64 {
	held := func() int64 {
		m := []metrics.Sample{{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}}
		metrics.Read(m)
		return int64(m[0].Value.Uint64() - m[1].Value.Uint64())
	}
	runtime.GC()
	debug.FreeOSMemory()
	before := held()
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(before + limit))

	done := make(chan struct{})
	var sampler sync.WaitGroup
	peak := before
	sampler.Go(func() {
		for {
			peak = max(peak, held())
			select {
			case <-done:
				return
			case <-time.After(time.Millisecond):
			}
		}
	})
	work()
	close(done)
	sampler.Wait()
	return peak - before
}
