package captcha

import (
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/ingest"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/tools/dbtest"
	"github.com/tallygate/tallygate/tools/world"
)

func TestMain(m *testing.M) { os.Exit(dbtest.Run(m)) }

// BenchmarkCommit measures one transaction with the writer's part in it: n tokens of one account,
// or n challenges.
func BenchmarkCommit(b *testing.B) {
	dbtest.EachBenchmark(b, func(b *testing.B, d *db.DB) {
		account := world.New(b, d).Account("a", model.CaptchaPlanEnterprise)

		for _, counted := range []bool{true, false} {
			for _, n := range []int{1, 64, 512} {
				b.Run(fmt.Sprintf("%s/%d", map[bool]string{true: "tokens", false: "challenges"}[counted], n), func(b *testing.B) {
					w := newWriter(ingest.NewClaimStore(dbtest.SitesCell(b, d)), StoreTimeout, nil)
					defer w.Stop(context.Background())

					claims := make([]*claim, n)
					b.ReportAllocs()

					for b.Loop() {
						for i := range claims {
							at := model.At(time.Now())
							claims[i] = &claim{
								key:     model.ConsumedKey{AccountID: account, IssuedAt: at.Add(-time.Second)},
								account: account, at: at, counted: counted,
							}
							rand.Read(claims[i].key.ID[:])
						}

						outcomes, err := w.Commit(b.Context(), claims)
						if err != nil || outcomes[0] != claimed {
							b.Fatal(outcomes[0], err)
						}
					}

					b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/claim")
				})
			}
		}
	})
}
