package redisserver

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/tallygate/tallygate/tools/pgserver"
)

// Cluster is a Redis Cluster on loopback: three masters, with a replica each or without. It is not
// safe for concurrent use.
type Cluster struct {
	nodes []*node // the masters of the start first
}

// node is one server of a cluster. It has its own data and its place in the cluster on disk.
type node struct {
	*Server
	bus int // port for the other nodes
}

const (
	masterCount = 3
	slotCount   = 16384

	// patience is the longest wait for a server or the cluster to start, or to replace a master.
	patience = 60 * time.Second
)

// StartCluster starts a cluster with its files below dir, and waits until it is complete. The
// caller closes it.
func StartCluster(ctx context.Context, dir string, replicas bool) (_ *Cluster, err error) {
	c := &Cluster{}
	defer func() {
		if err != nil {
			c.Close()
		}
	}()

	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	count := masterCount
	if replicas {
		count = 2 * masterCount
	}
	for i := range count {
		if err := c.add(ctx, filepath.Join(dir, "redis"+strconv.Itoa(i+1))); err != nil {
			return nil, err
		}
	}

	if err := c.join(ctx); err != nil {
		return nil, err
	}
	return c, await(ctx, "the Redis Cluster is complete", c.isComplete)
}

// add starts a node with its files in a new folder.
func (c *Cluster) add(ctx context.Context, dir string) error {
	bus, err := pgserver.FreePort()
	if err != nil {
		return err
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	server, err := New(dir, "--appendonly", "yes", "--maxmemory-policy", "noeviction",
		"--cluster-enabled", "yes", "--cluster-port", strconv.Itoa(bus), "--cluster-node-timeout", "2000")
	if err != nil {
		return err
	}
	c.nodes = append(c.nodes, &node{server, bus})
	return server.Start(ctx)
}

// Addrs returns host and port of each node.
func (c *Cluster) Addrs() []string {
	addresses := make([]string, len(c.nodes))
	for i, n := range c.nodes {
		addresses[i] = n.Addr()
	}
	return addresses
}

// URL returns the cluster's address, as the settings take it.
func (c *Cluster) URL() string { return "redis-cluster://" + strings.Join(c.Addrs(), ",") }

// LoseMaster kills a master, waits until its replica has its place, and starts it again. It returns
// when the cluster is complete.
func (c *Cluster) LoseMaster(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()

	lost, err := c.master(ctx)
	if err != nil {
		return err
	}
	lost.Kill()
	if err := await(ctx, "the Redis Cluster has a new master", c.isServing); err != nil {
		return err
	}
	if err := lost.Start(ctx); err != nil {
		return err
	}
	return await(ctx, "the Redis Cluster is complete", c.isComplete)
}

// Close kills all nodes.
func (c *Cluster) Close() {
	for _, n := range c.nodes {
		n.Close()
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
		err = await(ctx, "a replica knows all nodes", func(ctx context.Context) bool {
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

// isComplete reports whether all slots are served and each master has its replica, with its data.
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
			if replicas, _ := role[2].([]any); len(replicas) == 0 && len(c.nodes) > masterCount {
				return false
			}
		case len(role) < 4 || role[3] != "connected":
			return false
		}
	}
	return true
}

func (n *node) isMaster(ctx context.Context) bool {
	role, err := n.client.Do(ctx, "ROLE").Slice()
	return err == nil && len(role) > 0 && role[0] == "master"
}
