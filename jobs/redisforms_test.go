package jobs_test

import (
	"fmt"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/hibiken/asynq"

	"github.com/tallygate/tallygate/db/dbtest"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/jobs"
	"github.com/tallygate/tallygate/jobs/redistest"
)

// TestClusterRealRedis: housekeeping and deliveries work on a cluster, also after it has forgotten
// everything.
func TestClusterRealRedis(t *testing.T) {
	t.Parallel()

	t.Run("sqlite", func(t *testing.T) {
		d := dbtest.Open(t, dbtest.SQLiteURL(t))
		a := newAuthority(t)
		cluster := redistest.NewCluster(t)
		r := newReceiver(t, a, status(200))
		litter(t, d)
		site := newSite(t, d, "shop.example", r.URL, "")
		j := startOn(t, cluster.URL(), a, jobs.Options{DB: d, Now: (&clock{now: noon}).Now})
		await(t, d, clean)

		for range 3 {
			delivery := due(t, d, site, noon)
			j.Ring([]model.Delivery{{SiteID: site.ID, ID: delivery.ID, Kind: model.DeliveryConversion, NextAttemptAt: model.At(noon)}})

			if log := awaitEnd(t, d, site, delivery.ID); log.State != model.DeliveryDelivered {
				t.Errorf("delivery %+v", log.Delivery)
			}
			if err := cluster.Client().FlushAll(t.Context()).Err(); err != nil {
				t.Fatal(err)
			}
		}

		if err := j.Ping(t.Context()); err != nil {
			t.Errorf("Ping: %v", err)
		}
	})
}

// TestSentinelRealRedis: when the master dies, the worker goes on with the one that the sentinel
// puts in its place.
func TestSentinelRealRedis(t *testing.T) {
	t.Parallel()

	t.Run("sqlite", func(t *testing.T) {
		d := dbtest.Open(t, dbtest.SQLiteURL(t))
		a := newAuthority(t)
		sentinel := redistest.NewSentinel(t)
		r := newReceiver(t, a, status(200))
		site := newSite(t, d, "shop.example", r.URL, "")
		startOn(t, sentinel.URL(), a, jobs.Options{DB: d, Now: (&clock{now: noon}).Now})

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

// TestToolsRealRedis: asynq's inspector, which its own tools are made of, sees the queues, also
// after Redis forgot everything, and a queue that it paused goes on when it says so.
func TestToolsRealRedis(t *testing.T) {
	t.Parallel()

	t.Run("sqlite", func(t *testing.T) {
		d := dbtest.Open(t, dbtest.SQLiteURL(t))
		a := newAuthority(t)
		server := redistest.New(t)
		r := newReceiver(t, a, status(200))
		site := newSite(t, d, "shop.example", r.URL, "")
		startOn(t, server.URL(), a, jobs.Options{DB: d, Now: (&clock{now: noon}).Now})

		inspector := asynq.NewInspectorFromRedisClient(server.Client())
		for range 2 {
			awaitThat(t, func() (string, bool) {
				queues, err := inspector.Queues()
				slices.Sort(queues)
				return fmt.Sprintf("queues %v, %v", queues, err), fmt.Sprint(queues) == "[default deliveries]"
			})

			if err := server.Client().FlushAll(t.Context()).Err(); err != nil {
				t.Fatal(err)
			}
		}

		awaitThat(t, func() (string, bool) { return "the queue cannot be paused", inspector.PauseQueue("deliveries") == nil })
		delivery := due(t, d, site, noon)
		awaitThat(t, func() (string, bool) {
			tasks, err := inspector.ListPendingTasks("deliveries")
			return fmt.Sprintf("pending tasks %v, %v", tasks, err), len(tasks) > 0 && tasks[0].ID == fmt.Sprintf("%d:%d:1", site.ID, delivery.ID)
		})

		if err := inspector.UnpauseQueue("deliveries"); err != nil {
			t.Fatal(err)
		}
		if log := awaitEnd(t, d, site, delivery.ID); log.State != model.DeliveryDelivered {
			t.Errorf("delivery %+v", log.Delivery)
		}
	})
}

// startOn starts a quick worker on a Redis. Without a log in its options it has none.
func startOn(t *testing.T, redisURL string, a *authority, o jobs.Options, prepare ...func(*jobs.Jobs)) *jobs.Jobs {
	t.Helper()

	o.RedisURL, o.WebhookNets, o.WebhookAuthorities = redisURL, loopback, a.pool
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}

	dbtest.SetClock(o.DB, o.Now)
	j, err := jobs.New(o)
	if err != nil {
		t.Fatal(err)
	}

	j.Quick(100*time.Millisecond, time.Minute)

	for _, p := range prepare {
		p(j)
	}

	run(t, j)
	return j
}
