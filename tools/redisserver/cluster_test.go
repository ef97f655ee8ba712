package redisserver

import (
	"os/exec"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/tallygate/tallygate/tools/testkit"
)

// TestLoseMaster loses two masters, one after the other. Earlier writes are still there.
func TestLoseMaster(t *testing.T) {
	testkit.SkipLong(t, "a Redis Cluster")
	t.Parallel()
	if _, err := exec.LookPath("redis-server"); err != nil {
		testkit.Missing(t, "redis-server is not installed")
	}

	c, err := StartCluster(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()

	addresses := make([]string, len(c.nodes))
	for i, n := range c.nodes {
		addresses[i] = n.addr()
	}
	client := redis.NewClusterClient(&redis.ClusterOptions{Addrs: addresses})
	defer client.Close()
	keys := []string{"a", "b", "c", "d", "e", "f"}
	for _, key := range keys {
		if err := client.Set(t.Context(), key, "stored", 0).Err(); err != nil {
			t.Fatal(err)
		}
	}
	// Each replica has the keys of its master.
	for _, n := range c.nodes {
		if err := n.client.Do(t.Context(), "WAIT", 1, 10_000).Err(); err != nil && n.isMaster(t.Context()) {
			t.Fatal(err)
		}
	}

	for range 2 {
		if err := c.LoseMaster(t.Context()); err != nil {
			t.Fatal(err)
		}
		for _, key := range keys {
			if value, err := client.Get(t.Context(), key).Result(); err != nil || value != "stored" {
				t.Errorf("key %s: %q, error %v", key, value, err)
			}
		}
	}
}
