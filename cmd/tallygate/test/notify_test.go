package test

import (
	"fmt"
	"net/http"
	"net/http/cookiejar"
	"testing"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/tallygate/tallygate/cmd/tallygate/config"
	"github.com/tallygate/tallygate/db/keys"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/tools/dbtest"
	"github.com/tallygate/tallygate/tools/redistest"
	"github.com/tallygate/tallygate/tools/testkit"
)

// TestControlNotifiesRealRedis checks that a manual request wakes the workers immediately. No
// worker runs here whose sweeper could notify instead.
func TestControlNotifiesRealRedis(t *testing.T) {
	dbtest.EachURL(t, func(t *testing.T, databaseURL string) {
		redisURL := redistest.URL(t)
		a := serveApp(t, &config.Config{
			DataDir: t.TempDir(), DatabaseURL: config.DatabaseURL(databaseURL), RedisURL: config.RedisURL(redisURL),
			Roles:   []config.Role{config.RoleControl},
			Signups: model.SignupsOpen, DefaultSitePlan: model.PlanFree, DefaultCaptchaPlan: model.CaptchaPlanFree,
			ControlAddr: "127.0.0.1:0", DataAddr: "127.0.0.1:8081",
		})

		jar, err := cookiejar.New(nil)
		testkit.NoError(t, err)

		owner := ownerAt(t, "http://"+a.Addr("control"), &http.Client{Jar: jar, Timeout: patience})
		site := owner.signUp("shop.example")
		var sent struct {
			SendTestWebhook struct {
				Delivery   struct{ ID string }
				UserErrors []any
			}
		}

		owner.do(`mutation { setConversionWebhook(input: {siteId: "`+site.ID+`", url: "https://shop.example/hook"}) { userErrors { code } } }`, &sent)
		owner.do(`mutation { sendTestWebhook(input: {siteId: "`+site.ID+`"}) { delivery { id } userErrors { code } } }`,
			&sent)

		ids, err := keys.New(a.DB()).NodeIDs(t.Context())
		testkit.NoError(t, err)

		_, id, ok := ids.ParseDelivery(sent.SendTestWebhook.Delivery.ID)
		if !ok {
			t.Fatalf("sendTestWebhook: %+v", sent)
		}

		options, err := redis.ParseURL(redisURL)
		testkit.NoError(t, err)

		client := redis.NewClient(options)
		defer client.Close()

		inspector := asynq.NewInspectorFromRedisClient(client)
		want := fmt.Sprintf("1:%d:1", id)

		// The notification follows the response.
		testkit.AwaitState(t, "the task "+want, func() (string, bool) {
			tasks, err := inspector.ListPendingTasks("deliveries")
			return fmt.Sprintf("%+v, %v", tasks, err), err == nil && len(tasks) == 1 && tasks[0].ID == want
		})
	})
}

// TestReadyWithoutQueueRealRedis checks that the service is ready while Redis is unreachable, and
// that the process of the worker reports the queue's state in a warning and a metric until it
// returns.
func TestReadyWithoutQueueRealRedis(t *testing.T) {
	testkit.SkipLong(t, "faults of processes")
	t.Parallel()

	server := redistest.New(t)
	p := start(t, map[string]string{
		"TALLYGATE_DATA_DIR": t.TempDir(), "TALLYGATE_REDIS_URL": server.URL(), "TALLYGATE_METRICS_ADDR": "127.0.0.1:0",
	}, []string{"control", "data", "metrics"})

	const warning = "warning: the job queue (Redis) is unavailable; this worker takes due work from the database\n"
	await := func(up int) {
		t.Helper()
		awaitMetrics(t, "http://"+p.addr["metrics"], fmt.Sprintf("\ntallygate_queue_up{process=\"background\"} %d\n", up))
		awaitReadyText(t, p, warning, up == 0)
		if status, body := get(t, "http://"+p.addr["data"]+"/readyz"); status != http.StatusOK || body != "ok\n" {
			t.Errorf("the process of the data plane: %d %q", status, body)
		}
	}

	await(1)
	server.Kill()
	await(0)
	server.Start()
	await(1)
}
