package jobs_test

import (
	"fmt"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/hibiken/asynq"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/jobs"
	"github.com/tallygate/tallygate/tools/dbtest"
	"github.com/tallygate/tallygate/tools/redistest"
	"github.com/tallygate/tallygate/tools/testkit"
)

// TestClusterRealRedis: housekeeping and deliveries work on a cluster, also after it has lost its
// data.
func TestClusterRealRedis(t *testing.T) {
	dbtest.ParallelSQLite(t, func(t *testing.T, d *db.DB) {
		a := newAuthority(t)
		cluster := redistest.NewCluster(t)
		r := newReceiver(t, a, status(200))
		litter(t, d)
		site := newSite(t, d, "shop.example", r.URL, "")
		j := startOn(t, cluster.URL(), a, jobs.Options{DB: d, Now: testkit.NewClock(noon).Now})
		await(t, d, clean)

		for range 3 {
			delivery := due(t, d, site, noon)
			j.Notify([]model.Delivery{{SiteID: site.ID, ID: delivery.ID, Kind: model.DeliveryConversion, NextAttemptAt: model.At(noon)}})
			awaitDelivered(t, d, site, delivery.ID)
			testkit.NoError(t, cluster.Client().FlushAll(t.Context()).Err())
		}

		testkit.Succeeds(t, j.Ping(t.Context()), "Ping")
	})
}

// TestSentinelRealRedis: when the master dies, the worker continues with the replica that the
// sentinel promotes.
func TestSentinelRealRedis(t *testing.T) {
	dbtest.ParallelSQLite(t, func(t *testing.T, d *db.DB) {
		a := newAuthority(t)
		sentinel := redistest.NewSentinel(t)
		r := newReceiver(t, a, status(200))
		site := newSite(t, d, "shop.example", r.URL, "")
		startOn(t, sentinel.URL(), a, jobs.Options{DB: d, Now: testkit.NewClock(noon).Now})

		for step := range 2 {
			delivery := due(t, d, site, noon)
			if log := awaitEnd(t, d, site, delivery.ID); log.State != model.DeliveryDelivered || len(log.Attempts) != 1 {
				t.Errorf("delivery %+v", log.Delivery)
			}
			if step == 0 {
				sentinel.KillMaster()
			}
		}
	})
}

// TestToolsRealRedis checks that asynq's inspector, which its tools use, lists the queues, also
// after Redis lost its data, and can pause and resume a queue.
func TestToolsRealRedis(t *testing.T) {
	dbtest.ParallelSQLite(t, func(t *testing.T, d *db.DB) {
		a := newAuthority(t)
		server := redistest.New(t)
		r := newReceiver(t, a, status(200))
		site := newSite(t, d, "shop.example", r.URL, "")
		startOn(t, server.URL(), a, jobs.Options{DB: d, Now: testkit.NewClock(noon).Now})

		inspector := asynq.NewInspectorFromRedisClient(server.Client())
		for range 2 {
			awaitThat(t, func() (string, bool) {
				queues, err := inspector.Queues()
				slices.Sort(queues)
				return fmt.Sprintf("queues %v, %v", queues, err), fmt.Sprint(queues) == "[default deliveries]"
			})

			testkit.NoError(t, server.Client().FlushAll(t.Context()).Err())
		}

		awaitThat(t, func() (string, bool) { return "the queue cannot be paused", inspector.PauseQueue("deliveries") == nil })
		delivery := due(t, d, site, noon)
		awaitThat(t, func() (string, bool) {
			tasks, err := inspector.ListPendingTasks("deliveries")
			isPending := len(tasks) > 0 && tasks[0].ID == fmt.Sprintf("%d:%d:1", site.ID, delivery.ID)
			return fmt.Sprintf("pending tasks %v, %v", tasks, err), isPending
		})

		testkit.NoError(t, inspector.UnpauseQueue("deliveries"))
		awaitDelivered(t, d, site, delivery.ID)
	})
}

// startOn starts a worker on a Redis that sweeps often. It logs only if its options have a log.
func startOn(t *testing.T, redisURL string, a *authority, o jobs.Options, change ...func(*jobs.Settings)) *jobs.Worker {
	t.Helper()

	o.RedisURL, o.WebhookNets, o.WebhookAuthorities = redisURL, loopback, a.pool
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}

	dbtest.SetClock(o.DB, o.Now)
	j, err := jobs.NewWith(o, append([]func(*jobs.Settings){jobs.Quick(100*time.Millisecond, time.Minute)}, change...)...)
	testkit.NoError(t, err)

	run(t, j)
	return j
}
