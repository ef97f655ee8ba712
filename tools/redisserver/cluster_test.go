package redisserver

import (
	"errors"
	"fmt"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/tallygate/tallygate/tools/testkit"
)

// TestLoseMaster loses two masters, one after the other. Earlier writes are still there.
func TestLoseMaster(t *testing.T) {
	testkit.SkipLong(t, "a Redis Cluster")
	t.Parallel()
	c, err := StartCluster(t.Context(), t.TempDir(), true)
	if errors.Is(err, ErrMissing) {
		testkit.Missing(t, err.Error())
	}
	testkit.NoError(t, err)
	defer c.Close()

	client := redis.NewClusterClient(&redis.ClusterOptions{Addrs: c.Addrs()})
	defer client.Close()
	keys := []string{"a", "b", "c", "d", "e", "f"}
	for _, key := range keys {
		testkit.NoError(t, client.Set(t.Context(), key, "stored", 0).Err())
	}
	// Each replica has the keys of its master. The command WAIT would not do: it is about the
	// writes of its own connection.
	for _, n := range c.nodes {
		testkit.Await(t, "a replica that has all of its master", func() bool {
			role, err := n.client.Do(t.Context(), "ROLE").Slice()
			if err != nil || len(role) < 3 {
				return false
			}
			if role[0] != "master" {
				return true
			}
			replicas, _ := role[2].([]any)
			return len(replicas) == 1 && fmt.Sprint(replicas[0].([]any)[2]) == fmt.Sprint(role[1])
		})
	}

	for range 2 {
		testkit.NoError(t, c.LoseMaster(t.Context()))
		for _, key := range keys {
			if value, err := client.Get(t.Context(), key).Result(); err != nil || value != "stored" {
				t.Errorf("key %s: %q, error %v", key, value, err)
			}
		}
	}
}
