package analytics

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/cells"
	"github.com/tallygate/tallygate/db/ingest"
	"github.com/tallygate/tallygate/tools/dbtest"
)

// countedStore counts the batches of a store.
type countedStore struct {
	HitStore
	batches *atomic.Int64
}

func (s *countedStore) Update(ctx context.Context, keys ingest.HitKeys, decide func(*ingest.HitState) *ingest.HitChanges) error {
	s.batches.Add(1)
	return s.HitStore.Update(ctx, keys, decide)
}

// BenchmarkSlots measures one giant site with one slot and with four. Its hits are stored by the writers
// of several processes: that many backends of PostgreSQL. Callers send the next hit when the last one is
// stored, so the batches have the size that the load gives them. One operation is one hit. To compare,
// run the cases in turn on an idle machine, with a count of hits such as -benchtime 100000x.
func BenchmarkSlots(b *testing.B) {
	for _, c := range []slotsCase{{1, 4, 256}, {1, 4, 2048}, {2, 4, 2048}, {4, 1, 2048}} {
		for _, slots := range []int{1, 4} {
			b.Run(fmt.Sprintf("processes=%d/writers=%d/callers=%d/slots=%d", c.processes, c.writers, c.callers, slots), func(b *testing.B) {
				benchSlots(b, dbtest.Open(b, dbtest.PostgresURL(b)), c, slots)
			})
		}
	}
}

// slotsCase is a load: processes with a number of writers each, and concurrent callers of all of them.
type slotsCase struct{ processes, writers, callers int }

func benchSlots(b *testing.B, d *db.DB, c slotsCase, slots int) {
	const storedBefore = 100_000
	crowd := newCrowd(b, d)
	giant := modelSite(b, d, "giant.example", 1<<40)
	if err := cells.New(d).SetSlots(b.Context(), giant.id, slots); err != nil {
		b.Fatal(err)
	}
	giant.slots = int16(slots)
	for i := range crowd.sites {
		crowd.sites[i] = giant
	}

	var batches atomic.Int64
	all := make([]writers, c.processes)
	for i := range all {
		stores := make([]HitStore, c.writers)
		for n := range stores {
			stores[n] = &countedStore{ingest.NewHitStore(dbtest.SitesCell(b, d)), &batches}
		}
		all[i] = newWriters(stores, nil, nil)
		all[i].Start()
		defer all[i].Stop(context.Background())
	}

	var mu sync.Mutex
	send := func(hits int) {
		var wg sync.WaitGroup
		for caller := range c.callers {
			wg.Go(func() {
				for {
					mu.Lock()
					hits--
					left, h := hits >= 0, crowd.hit()
					mu.Unlock()
					if !left {
						return
					}

					h.slots = giant.slots
					writer := all[caller%c.processes].of(giant.id, h.slot())
					o, err := writer.DoBefore(b.Context(), time.Now().Add(time.Minute), h, 200)
					if err != nil || o != stored {
						b.Errorf("outcome %d, error %v", o, err)
						return
					}
				}
			})
		}
		wg.Wait()
	}
	send(storedBefore)

	batches.Store(0)
	self, backends := processorTime(b), backendTime(b, d)
	b.ResetTimer()
	send(b.N)
	b.StopTimer()
	self, backends = processorTime(b)-self, backendTime(b, d)-backends
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "hits/s")
	b.ReportMetric(float64(b.N)/float64(batches.Load()), "hits/batch")
	b.ReportMetric(float64(self.Nanoseconds())/float64(b.N), "cpu-ns/hit")
	b.ReportMetric(float64(backends.Nanoseconds())/float64(b.N), "backend-ns/hit")
}

// backendTime returns the processor time that the backends of a database have used. It needs Linux and a
// server on this machine.
func backendTime(b *testing.B, d *db.DB) time.Duration {
	b.Helper()
	pids, err := dbtest.Rows[int](d, "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND backend_type = 'client backend'")
	if err != nil {
		b.Fatal(err)
	}

	var ticks int64
	for _, pid := range pids {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			b.Fatal(err)
		}

		// The fields after the command's name; user and system time are the 12th and the 13th of them.
		_, after, _ := strings.Cut(string(stat), ") ")
		for _, field := range strings.Fields(after)[11:13] {
			n, err := strconv.ParseInt(field, 10, 64)
			if err != nil {
				b.Fatal(err)
			}
			ticks += n
		}
	}

	const tick = 10 * time.Millisecond
	return time.Duration(ticks) * tick
}
