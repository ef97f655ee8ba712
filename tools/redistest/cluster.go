package redistest

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/tallygate/tallygate/tools/redisserver"
	"github.com/tallygate/tallygate/tools/testkit"
)

// Cluster is a Redis cluster of three masters on loopback. It is stopped when the test ends.
type Cluster struct {
	*redisserver.Cluster
	tb testing.TB
}

// NewCluster starts a cluster and waits until it is ready.
func NewCluster(tb testing.TB) *Cluster {
	tb.Helper()
	c, err := redisserver.StartCluster(tb.Context(), tb.TempDir(), false)
	must(tb, err)
	tb.Cleanup(c.Close)
	return &Cluster{c, tb}
}

// Client returns a client of the cluster, closed with the test.
func (c *Cluster) Client() *redis.ClusterClient {
	client := redis.NewClusterClient(&redis.ClusterOptions{Addrs: c.Addrs()})
	c.tb.Cleanup(func() { _ = client.Close() })
	return client
}

// Sentinel is a Redis master with a replica, watched by a sentinel that promotes the replica when
// the master fails. It is stopped when the test ends.
type Sentinel struct {
	master, sentinel *Server
}

// NewSentinel starts the three servers and waits until the sentinel knows the others.
func NewSentinel(tb testing.TB) *Sentinel {
	tb.Helper()

	master := start(tb)
	host, port, _ := net.SplitHostPort(master.Addr())
	start(tb, "--replicaof", host+" "+port)
	config := fmt.Sprintf(`sentinel monitor main %s %s 1
sentinel down-after-milliseconds main 500
sentinel failover-timeout main 2000
`, host, port)

	file := filepath.Join(tb.TempDir(), "sentinel.conf")
	testkit.NoError(tb, os.WriteFile(file, []byte(config), 0o600))

	s := &Sentinel{master, start(tb, file, "--sentinel")}
	sentinel := redis.NewSentinelClient(&redis.Options{Addr: s.sentinel.Addr()})
	defer sentinel.Close()
	testkit.Await(tb, "the sentinel knows the replica", func() bool {
		replicas, err := sentinel.Replicas(tb.Context(), "main").Result()
		return err == nil && len(replicas) == 1 && replicas[0]["master-link-status"] == "ok"
	})
	return s
}

// URL returns the sentinel's URL with the master's name.
func (s *Sentinel) URL() string { return "redis-sentinel://" + s.sentinel.Addr() + "/0?master=main" }

// KillMaster kills the master. Its data is lost.
func (s *Sentinel) KillMaster() { s.master.Kill() }
