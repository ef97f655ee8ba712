package analytics

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tallygate/tallygate/dataplane/analytics/event"
	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/cells"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/tools/dbtest"
)

// slotSums is what the slots of a site have together.
type slotSums struct {
	Used, Slots, Reached int64
}

// sumSlots reads the counts of a site, and checks that they are those of the stored page views.
func sumSlots(t *testing.T, d *db.DB, site *site) slotSums {
	t.Helper()
	sums, err := dbtest.Rows[slotSums](d, `SELECT coalesce(sum(used), 0)::bigint AS used, count(*) AS slots,
		coalesce(max(reached), 0)::bigint AS reached FROM site_usage WHERE site_id = ?`, site.id)
	if err != nil {
		t.Fatal(err)
	}
	stored, err := dbtest.Count(d, "pageviews")
	if err != nil || int64(stored) != sums[0].Used {
		t.Errorf("%d page views stored, %d counted, error %v", stored, sums[0].Used, err)
	}
	return sums[0]
}

// slotHits returns page views of random visitors.
func slotHits(random *rand.Rand, site *site, n int) []*hit {
	hits := make([]*hit, n)
	for i := range hits {
		hits[i] = &hit{site: site, slots: site.slots, at: model.At(time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)), entry: entry{channel: "direct"},
			pageview: &model.Pageview{SiteID: site.id, ID: random.Int64(), Path: "/"}}
		binary.LittleEndian.PutUint64(hits[i].visitor[:], random.Uint64())
	}
	return hits
}

// TestSlotsKeepTheQuota drives random batches of several writers to the border of a quota that is
// changed meanwhile. Every hit is stored while the sum of the slots is below the quota, and none
// above.
func TestSlotsKeepTheQuota(t *testing.T) {
	t.Parallel()
	for _, slots := range []int{2, 4, 7} {
		d := dbtest.Open(t, dbtest.PostgresURL(t))
		site := modelSite(t, d, "giant.example", 1)
		if err := cells.New(d).SetSlots(t.Context(), site.id, slots); err != nil {
			t.Fatal(err)
		}
		site.slots = int16(slots)

		const writers = 4
		var all [writers]*writer
		for i := range all {
			all[i] = newWriter(storeOf(t, d), nil, nil)
			defer all[i].Stop(context.Background())
		}

		random := rand.New(rand.NewPCG(uint64(slots), 1))
		var total int64
		for _, quota := range []int64{150, 400, 300, 420, 1_000, 10, 1_001} {
			if err := dbtest.Exec(d, "UPDATE sites SET monthly_pageviews = ? WHERE id = ?", quota, site.id); err != nil {
				t.Fatal(err)
			}

			var accepted atomic.Int64
			var wg sync.WaitGroup
			for _, w := range all {
				own := rand.New(rand.NewPCG(random.Uint64(), 1))
				wg.Go(func() {
					for sent := 0; sent < 300; {
						batch := slotHits(own, site, 1+own.IntN(40))
						sent += len(batch)
						outcomes, err := w.Commit(t.Context(), batch)
						if err != nil {
							t.Error(err)
							return
						}
						for _, o := range outcomes {
							switch o {
							case stored:
								accepted.Add(1)
							case overQuota:
							default:
								t.Errorf("outcome %d", o)
							}
						}
					}
				})
			}
			wg.Wait()

			// 1,200 hits or more were sent, which is more than any of these quotas.
			total += accepted.Load()
			sums := sumSlots(t, d, site)
			if want := max(total, quota); sums.Used != total || total != want || sums.Reached != 100 || sums.Slots != int64(slots) {
				t.Errorf("%d slots, quota %d: %+v, %d accepted in all, want %d", slots, quota, sums, total, want)
			}
			if accepted.Load() > 0 && total > quota {
				t.Errorf("%d slots, quota %d: %d hits accepted above it", slots, quota, accepted.Load())
			}
		}
	}
}

// TestSlotsAgainstModel is TestWriterAgainstModel with sites whose number of slots changes between
// batches.
func TestSlotsAgainstModel(t *testing.T) {
	t.Parallel()
	for _, seed := range []uint64{1, 13} {
		d := dbtest.Open(t, dbtest.PostgresURL(t))
		random := rand.New(rand.NewPCG(seed, 1))
		compareWithModel(t, d, random, 60, 12, func(sites []*site) {
			of := sites[random.IntN(len(sites))]
			if random.IntN(4) > 0 {
				return
			}
			of.slots = int16(1 + random.IntN(6))
			if err := cells.New(d).SetSlots(t.Context(), of.id, int(of.slots)); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// TestThresholdsOfSlots checks that the hit that reaches a threshold of the quota notes it.
func TestThresholdsOfSlots(t *testing.T) {
	t.Parallel()
	d := dbtest.Open(t, dbtest.PostgresURL(t))
	site := modelSite(t, d, "giant.example", 1_000)
	if err := cells.New(d).SetSlots(t.Context(), site.id, 4); err != nil {
		t.Fatal(err)
	}
	site.slots = 4
	w := newWriter(storeOf(t, d), nil, nil)
	defer w.Stop(context.Background())

	random := rand.New(rand.NewPCG(3, 1))
	for n := int64(1); n <= 1_010; n++ {
		outcomes, err := w.Commit(t.Context(), slotHits(random, site, 1))
		if err != nil {
			t.Fatal(err)
		}
		if want := n > 1_000; (outcomes[0] == overQuota) != want {
			t.Fatalf("hit %d of 1,000: outcome %d", n, outcomes[0])
		}
		if n == 799 || n == 800 || n == 999 || n >= 1_000 {
			want := slotSums{Used: min(n, 1_000), Slots: 4, Reached: int64(model.QuotaReached(n, 1_000))}
			if got := sumSlots(t, d, site); got != want {
				t.Errorf("after hit %d: %+v, want %+v", n, got, want)
			}
		}
	}
}

// TestSlotsChangeUnderLoad changes the number of slots while several writers store hits with rules
// that are old at times. Each accepted hit is stored once, and the sum stays exact.
func TestSlotsChangeUnderLoad(t *testing.T) {
	t.Parallel()
	d := dbtest.Open(t, dbtest.PostgresURL(t))
	row := modelSite(t, d, "giant.example", 1<<40)
	var slots atomic.Int32
	slots.Store(1)

	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var accepted, moved atomic.Int64
	var wg sync.WaitGroup
	for i := range 3 {
		w := newWriter(storeOf(t, d), nil, nil)
		defer w.Stop(context.Background())
		wg.Go(func() {
			random := rand.New(rand.NewPCG(uint64(i), 1))
			for ctx.Err() == nil {
				of := *row
				of.slots = int16(slots.Load())
				outcomes, err := w.Commit(context.Background(), slotHits(random, &of, 1+random.IntN(20)))
				if err != nil {
					t.Error(err)
					return
				}
				for _, o := range outcomes {
					switch o {
					case stored:
						accepted.Add(1)
					case siteMoved:
						moved.Add(1)
					default:
						t.Errorf("outcome %d", o)
					}
				}
			}
		})
	}

	for _, n := range []int{4, 2, 64, 1, 3} {
		for since := accepted.Load(); accepted.Load() < since+100 && !t.Failed(); {
			time.Sleep(time.Millisecond)
		}
		if err := cells.New(d).SetSlots(t.Context(), row.id, n); err != nil {
			t.Error(err)
		}

		// The rules are old until some hits were not stored.
		for since := moved.Load(); moved.Load() == since && !t.Failed(); {
			time.Sleep(time.Millisecond)
		}
		slots.Store(int32(n))
	}
	for since := accepted.Load(); accepted.Load() < since+100 && !t.Failed(); {
		time.Sleep(time.Millisecond)
	}
	cancel()
	wg.Wait()

	if got := sumSlots(t, d, row); got.Used != accepted.Load() || got.Slots != 3 {
		t.Errorf("%+v, %d accepted; want all of them in 3 slots", got, accepted.Load())
	}
}

// TestTransactionInTwoSlots sends one purchase by visitors of different slots at the same time. No lock
// keeps them apart, and one of them is stored.
func TestTransactionInTwoSlots(t *testing.T) {
	t.Parallel()
	d := dbtest.Open(t, dbtest.PostgresURL(t))
	site := modelSite(t, d, "giant.example", 1_000)
	if err := cells.New(d).SetSlots(t.Context(), site.id, 4); err != nil {
		t.Fatal(err)
	}
	site.slots = 4

	const rounds, writers = 20, 4
	var all [writers]*writer
	for i := range all {
		all[i] = newWriter(storeOf(t, d), nil, nil)
		defer all[i].Stop(context.Background())
	}

	random := rand.New(rand.NewPCG(4, 1))
	for round := range rounds {
		var accepted, repeated atomic.Int64
		var wg sync.WaitGroup
		for slot, w := range all {
			purchase := slotHits(random, site, 1)[0]
			for int(purchase.slot()) != slot {
				purchase = slotHits(random, site, 1)[0]
			}
			purchase.pageview, purchase.path = nil, "/"
			purchase.event = &event.Accepted{Name: "purchase", TransactionID: fmt.Sprint(round)}
			wg.Go(func() {
				outcomes, err := w.Commit(t.Context(), []*hit{purchase})
				if err != nil {
					t.Error(err)
					return
				}
				switch outcomes[0] {
				case stored:
					accepted.Add(1)
				case duplicateTransaction:
					repeated.Add(1)
				}
			})
		}
		wg.Wait()
		if accepted.Load() != 1 || repeated.Load() != writers-1 {
			t.Fatalf("round %d: %d purchases accepted, %d repeated", round, accepted.Load(), repeated.Load())
		}
	}

	for table, want := range map[string]int{"events": rounds, "transactions": rounds} {
		if n, err := dbtest.Count(d, table); n != want || err != nil {
			t.Errorf("%d rows in %s, error %v; want %d", n, table, err, want)
		}
	}
}
