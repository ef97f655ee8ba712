package webhook

import (
	"context"
	"encoding/json"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/tallygate/tallygate/db/exports"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/outbox"
	"github.com/tallygate/tallygate/tools/openapitest"
	"github.com/tallygate/tallygate/tools/testkit"
)

// partStore has one part, of a number of events with properties of some bytes.
type partStore struct {
	Store
	events, properties int
	begun              func() // called before the rows of a body
}

func (s *partStore) DailyPartEvents(
	_ context.Context, _ model.SiteID, _ *model.DailyPart, each func(*exports.Event) error,
) error {
	s.begun()
	event := &exports.Event{Name: "signup", Path: "/", Properties: `{"a":"` + strings.Repeat("<", s.properties) + `"}`}
	for range s.events {
		if err := each(event); err != nil {
			return err
		}
	}
	return nil
}

func dailyLeased(t *testing.T) *outbox.Leased {
	t.Helper()
	part, err := json.Marshal(model.DailyPart{Day: 1, Part: 1, Parts: 1})
	testkit.NoError(t, err)
	leased := &outbox.Leased{SiteKey: strings.Repeat("0123456789abcdef", 2)}
	leased.Body = string(part)
	return leased
}

// TestDailyBodies checks that bodies below and above the size of an ordinary one have all rows.
func TestDailyBodies(t *testing.T) {
	for _, test := range []struct{ events, properties int }{{0, 0}, {1, 10}, {3, 10}, {model.DailyPartRows, 100}, {model.DailyPartRows, 4_000}} {
		t.Run(fmt.Sprintf("%d events of %d bytes", test.events, test.properties), func(t *testing.T) {
			d := &Deliverer{exports: newExportLimits(), store: &partStore{events: test.events, properties: test.properties, begun: func() {}}}
			export := d.exports.begin()
			body, err := d.dailyBody(t.Context(), dailyLeased(t), export)
			testkit.NoError(t, err)

			var got struct {
				Type string `json:"type"`
				Rows []struct{ Properties struct{ A string } }
			}
			if err := json.Unmarshal(body, &got); err != nil || got.Type != "daily_export" || len(got.Rows) != test.events {
				t.Fatalf("%q with %d rows, error %v", got.Type, len(got.Rows), err)
			}
			if test.events < 10 {
				openapitest.Webhook(t, model.DeliveryDailyExport, "", string(body))
			}
			for _, row := range got.Rows {
				if len(row.Properties.A) != test.properties {
					t.Fatalf("properties of %d bytes", len(row.Properties.A))
				}
			}
			if large := len(body) > ordinaryBody; large != export.isAlone || large && cap(body) > len(body)+len(body)/8 {
				t.Errorf("a body of %d bytes in memory of %d, alone %v", len(body), cap(body), export.isAlone)
			}

			export.written(len(body))
			export.end()
			checkFree(t, d.exports)
		})
	}
}

// checkFree checks that nothing is reserved.
func checkFree(t *testing.T, l *exportLimits) {
	t.Helper()
	if !l.writing.TryAcquire(exportsWritten) || !l.parts.TryAcquire(exportsAtOnce) || l.bytes.Load() != 0 {
		t.Errorf("limits are still in use: %d bytes", l.bytes.Load())
	}
}

// TestLargeBodiesAreWrittenAlone writes as many bodies as may be written at once, all of the
// largest size. Their memory never exceeds one such body and the ordinary bodies.
func TestLargeBodiesAreWrittenAlone(t *testing.T) {
	testkit.SkipLong(t, "bodies of the largest size")
	const properties = 12_000 // with the texts of a visit
	var alone, peak atomic.Int64
	store := &partStore{events: model.DailyPartRows, properties: properties}
	d := &Deliverer{exports: newExportLimits(), store: store}

	runtime.GC()
	before := heapInUse()
	store.begun = func() {
		runtime.GC()
		peak.Store(max(peak.Load(), heapInUse()-before))
	}

	var writers sync.WaitGroup
	var ready sync.WaitGroup
	ready.Add(exportsWritten)
	for range exportsWritten {
		writers.Go(func() {
			export := d.exports.begin()
			ready.Done()
			ready.Wait()
			defer export.end()

			body, err := d.dailyBody(t.Context(), dailyLeased(t), export)
			if err != nil || len(body) < model.DailyPartRows*properties {
				t.Errorf("a body of %d bytes, error %v", len(body), err)
			}
			export.written(len(body))

			if alone.Add(1) != 1 || d.exports.begin() != nil {
				t.Error("another body is written meanwhile")
			}
			runtime.GC()
			peak.Store(max(peak.Load(), heapInUse()-before))
			alone.Add(-1)
			runtime.KeepAlive(body)
		})
	}
	writers.Wait()

	const one, ordinary = model.DailyPartRows * (properties + 1_000), exportsWritten * 2 * ordinaryBody
	if peak.Load() > one+ordinary {
		t.Errorf("%d MB in use, want at most %d", peak.Load()>>20, (one+ordinary)>>20)
	}
	checkFree(t, d.exports)
}

// TestLargeBodyGivesUp checks that a waiting body frees its share when its time ends.
func TestLargeBodyGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newExportLimits()
		first, second := l.begin(), l.begin()
		ctx, cancel := context.WithCancel(t.Context())
		var failed atomic.Bool
		go func() { failed.Store(second.alone(ctx) != nil) }()
		synctest.Wait()
		if l.begin() != nil {
			t.Error("a body was begun before the one that waits")
		}

		cancel()
		synctest.Wait()
		if !failed.Load() {
			t.Error("the body still waits")
		}
		second.end()
		first.end()
		checkFree(t, l)
	})
}

func heapInUse() int64 {
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc)
}
