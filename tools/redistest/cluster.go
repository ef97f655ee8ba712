package redistest

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tallygate/tallygate/tools/dbtest"
	"github.com/tallygate/tallygate/tools/testkit"
)

// Cluster is a Redis cluster of three masters on loopback. It is stopped when the test ends.
type Cluster struct {
	tb    testing.TB
	addrs []string
}

// NewCluster starts a cluster and waits until it is ready.
func NewCluster(tb testing.TB) *Cluster {
	tb.Helper()

	c := &Cluster{tb: tb}

	// The nodes use a second port among themselves.
	var firstBus int
	for i := range 3 {
		bus, err := dbtest.FreePort()
		if err != nil {
			tb.Fatal(err)
		}
		if i == 0 {
			firstBus = bus
		}

		c.addrs = append(c.addrs, start(tb,
			"--cluster-enabled", "yes", "--cluster-node-timeout", "2000", "--cluster-port", strconv.Itoa(bus)))
	}

	const slots = 16384
	clients := make([]*redis.Client, len(c.addrs))
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()

	for i, addr := range c.addrs {
		clients[i] = redis.NewClient(&redis.Options{Addr: addr})
		defer clients[i].Close()

		first, last := slots*i/len(c.addrs), slots*(i+1)/len(c.addrs)-1
		if err := clients[i].ClusterAddSlotsRange(ctx, first, last).Err(); err != nil {
			tb.Fatal(err)
		}
		if err := clients[i].Do(ctx, "CLUSTER", "SET-CONFIG-EPOCH", i+1).Err(); err != nil {
			tb.Fatal(err)
		}
	}

	host, port, _ := net.SplitHostPort(c.addrs[0])
	for _, client := range clients[1:] {
		if err := client.Do(ctx, "CLUSTER", "MEET", host, port, firstBus).Err(); err != nil {
			tb.Fatal(err)
		}
	}

	for _, client := range clients {
		await(tb, ctx, "the cluster", func() bool {
			info, err := client.ClusterInfo(ctx).Result()
			return err == nil && strings.Contains(info, "cluster_state:ok") &&
				strings.Contains(info, "cluster_known_nodes:3")
		})
	}

	return c
}

// URL returns the cluster's URL.
func (c *Cluster) URL() string { return "redis-cluster://" + strings.Join(c.addrs, ",") }

// Client returns a client of the cluster, closed with the test.
func (c *Cluster) Client() *redis.ClusterClient {
	client := redis.NewClusterClient(&redis.ClusterOptions{Addrs: c.addrs})
	c.tb.Cleanup(func() { _ = client.Close() })
	return client
}

// Sentinel is a Redis master with a replica, watched by a sentinel that promotes the replica when
// the master fails. It is stopped when the test ends.
type Sentinel struct {
	tb              testing.TB
	addr            string
	master, replica string
	processes       map[string]*exec.Cmd
}

// NewSentinel starts the three servers and waits until the sentinel knows the others.
func NewSentinel(tb testing.TB) *Sentinel {
	tb.Helper()

	s := &Sentinel{tb: tb, processes: make(map[string]*exec.Cmd)}
	s.master = startIn(tb, s.processes)
	host, port, _ := net.SplitHostPort(s.master)
	s.replica = startIn(tb, s.processes, "--replicaof", host+" "+port)
	config := fmt.Sprintf(`sentinel monitor main %s %s 1
sentinel down-after-milliseconds main 500
sentinel failover-timeout main 2000
`, host, port)

	file := filepath.Join(tb.TempDir(), "sentinel.conf")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		tb.Fatal(err)
	}

	s.addr = startIn(tb, s.processes, file, "--sentinel")
	sentinel := redis.NewSentinelClient(&redis.Options{Addr: s.addr})
	defer sentinel.Close()

	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()

	await(tb, ctx, "the sentinel", func() bool {
		replicas, err := sentinel.Replicas(ctx, "main").Result()
		return err == nil && len(replicas) == 1 && replicas[0]["master-link-status"] == "ok"
	})

	return s
}

// URL returns the sentinel's URL with the master's name.
func (s *Sentinel) URL() string { return "redis-sentinel://" + s.addr + "/0?master=main" }

// KillMaster kills the master. Its data is lost.
func (s *Sentinel) KillMaster() {
	cmd := s.processes[s.master]
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
}

// start starts a redis-server and waits until it answers.
func start(tb testing.TB, args ...string) (addr string) {
	tb.Helper()
	return startIn(tb, map[string]*exec.Cmd{}, args...)
}

// startIn starts a redis-server, adds it to processes by its address and waits until it answers.
func startIn(tb testing.TB, processes map[string]*exec.Cmd, args ...string) (addr string) {
	tb.Helper()

	if _, err := exec.LookPath("redis-server"); err != nil {
		testkit.Missing(tb, "redis-server is not installed")
	}

	port, err := dbtest.FreePort()
	if err != nil {
		tb.Fatal(err)
	}

	args = append(args, "--port", strconv.Itoa(port), "--bind", "127.0.0.1", "--save", "",
		"--dir", tb.TempDir(), "--loglevel", "warning")

	cmd := exec.Command("redis-server", args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := dbtest.StartBound(cmd); err != nil {
		tb.Fatalf("start redis-server: %v", err)
	}

	tb.Cleanup(func() {
		_ = cmd.Process.Kill()
		// A test may have killed it already.
		_ = cmd.Wait()
	})

	addr = fmt.Sprintf("127.0.0.1:%d", port)
	processes[addr] = cmd
	client := redis.NewClient(&redis.Options{Addr: addr})
	defer client.Close()

	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()

	await(tb, ctx, "redis-server", func() bool { return client.Ping(ctx).Err() == nil })
	return addr
}

func await(tb testing.TB, ctx context.Context, what string, done func() bool) {
	tb.Helper()
	for !done() {
		select {
		case <-ctx.Done():
			tb.Fatalf("%s does not answer", what)
		case <-time.After(20 * time.Millisecond):
		}
	}
}
