// Package redisserver starts a private Redis Cluster for load tests. It never touches servers that
// it did not start.
package redisserver

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tallygate/tallygate/tools/pgserver"
)

// Cluster is a Redis Cluster on loopback: three masters with a replica each. It is not safe
// for concurrent use.
type Cluster struct {
	nodes []*node // the masters of the start first
}

// node is one server of a cluster. It has its own data and its place in the cluster on disk.
type node struct {
	dir       string
	port, bus int
	cmd       *exec.Cmd
	client    *redis.Client
}

const (
	masterCount = 3
	slotCount   = 16384

	// patience is the longest wait for the cluster to start, or to replace a master.
	patience = 60 * time.Second
)

// StartCluster starts a cluster with its files below dir, and waits until each master has a
// replica. The caller closes it.
func StartCluster(ctx context.Context, dir string) (_ *Cluster, err error) {
	if _, err := exec.LookPath("redis-server"); err != nil {
		return nil, fmt.Errorf("redis-server is not installed: %w", err)
	}

	c := &Cluster{}
	defer func() {
		if err != nil {
			c.Close()
		}
	}()

	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for i := range 2 * masterCount {
		n := &node{dir: filepath.Join(dir, "redis"+strconv.Itoa(i+1))}
		c.nodes = append(c.nodes, n)
		if err := n.prepare(); err != nil {
			return nil, err
		}
		if err := n.start(ctx); err != nil {
			return nil, err
		}
	}

	if err := c.join(ctx); err != nil {
		return nil, err
	}
	return c, c.await(ctx, "is complete", c.isComplete)
}

// URL returns the cluster's address, as the settings take it.
func (c *Cluster) URL() string {
	addresses := make([]string, len(c.nodes))
	for i, n := range c.nodes {
		addresses[i] = n.addr()
	}
	return "redis-cluster://" + strings.Join(addresses, ",")
}

// LoseMaster kills a master, waits until its replica has its place, and starts it again. It returns
// when the cluster is complete.
func (c *Cluster) LoseMaster(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()

	lost, err := c.master(ctx)
	if err != nil {
		return err
	}
	lost.kill()
	if err := c.await(ctx, "has a new master", c.isServing); err != nil {
		return err
	}
	if err := lost.start(ctx); err != nil {
		return err
	}
	return c.await(ctx, "is complete", c.isComplete)
}

// Close kills all nodes.
func (c *Cluster) Close() {
	for _, n := range c.nodes {
		n.kill()
		if n.client != nil {
			_ = n.client.Close()
		}
	}
}

// join makes the first nodes masters of a third of the slots each, and the others their replicas.
func (c *Cluster) join(ctx context.Context) error {
	first := c.nodes[0]
	for i, n := range c.nodes {
		if err := n.client.Do(ctx, "CLUSTER", "SET-CONFIG-EPOCH", i+1).Err(); err != nil {
			return err
		}
		if i < masterCount {
			from, to := slotCount*i/masterCount, slotCount*(i+1)/masterCount-1
			if err := n.client.ClusterAddSlotsRange(ctx, from, to).Err(); err != nil {
				return err
			}
		}
		if n != first {
			if err := n.client.Do(ctx, "CLUSTER", "MEET", "127.0.0.1", first.port, first.bus).Err(); err != nil {
				return err
			}
		}
	}

	for i, n := range c.nodes[masterCount:] {
		master, err := c.nodes[i].client.Do(ctx, "CLUSTER", "MYID").Text()
		if err != nil {
			return err
		}

		// The replica has heard of its master by then.
		err = c.await(ctx, "knows all nodes", func(ctx context.Context) bool {
			return n.client.ClusterReplicate(ctx, master).Err() == nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// master returns a node that is a master now.
func (c *Cluster) master(ctx context.Context) (*node, error) {
	for _, n := range c.nodes {
		if n.isMaster(ctx) {
			return n, nil
		}
	}
	return nil, errors.New("no node of the Redis Cluster is a master")
}

// isServing reports whether as many nodes run as masters as there were, and all running nodes see
// all slots served.
func (c *Cluster) isServing(ctx context.Context) bool {
	masters := 0
	for _, n := range c.nodes {
		if n.cmd == nil {
			continue
		}
		info, err := n.client.ClusterInfo(ctx).Result()
		if err != nil || !strings.Contains(info, "cluster_state:ok") || !strings.Contains(info, "cluster_slots_ok:16384") {
			return false
		}
		if n.isMaster(ctx) {
			masters++
		}
	}
	return masters == masterCount
}

// isComplete reports whether all slots are served and each master has a replica with its data.
func (c *Cluster) isComplete(ctx context.Context) bool {
	if !c.isServing(ctx) {
		return false
	}
	for _, n := range c.nodes {
		role, err := n.client.Do(ctx, "ROLE").Slice()
		switch {
		case err != nil || len(role) < 3:
			return false
		case role[0] == "master":
			if replicas, _ := role[2].([]any); len(replicas) == 0 {
				return false
			}
		case len(role) < 4 || role[3] != "connected":
			return false
		}
	}
	return true
}

func (c *Cluster) await(ctx context.Context, what string, done func(context.Context) bool) error {
	for !done(ctx) {
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait until the Redis Cluster %s: %w", what, ctx.Err())
		case <-time.After(20 * time.Millisecond):
		}
	}
	return nil
}

func (n *node) addr() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(n.port)) }

func (n *node) isMaster(ctx context.Context) bool {
	role, err := n.client.Do(ctx, "ROLE").Slice()
	return err == nil && len(role) > 0 && role[0] == "master"
}

// prepare chooses the node's ports, and creates its folder and client.
func (n *node) prepare() (err error) {
	if n.port, err = pgserver.FreePort(); err != nil {
		return err
	}
	if n.bus, err = pgserver.FreePort(); err != nil {
		return err
	}
	n.client = redis.NewClient(&redis.Options{Addr: n.addr()})
	return os.Mkdir(n.dir, 0o700)
}

// start starts the node, and waits until it has read its data.
func (n *node) start(ctx context.Context) error {
	cmd := exec.Command("redis-server", "--port", strconv.Itoa(n.port), "--bind", "127.0.0.1", "--dir", n.dir,
		"--save", "", "--appendonly", "yes", "--loglevel", "warning", "--maxmemory-policy", "noeviction",
		"--cluster-enabled", "yes", "--cluster-port", strconv.Itoa(n.bus), "--cluster-node-timeout", "2000")
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := pgserver.StartBound(cmd); err != nil {
		return err
	}

	n.cmd = cmd
	for n.client.Ping(ctx).Err() != nil {
		select {
		case <-ctx.Done():
			return errors.New("redis-server does not respond")
		case <-time.After(5 * time.Millisecond):
		}
	}
	return nil
}

func (n *node) kill() {
	if n.cmd != nil {
		_ = n.cmd.Process.Kill()
		_ = n.cmd.Wait()
		n.cmd = nil
	}
}
