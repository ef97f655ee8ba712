package queue

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// ServerState is how a Redis server is set up, as the server reports it.
type ServerState struct {
	Version         string
	MaxMemory       int64 // bytes; 0: unlimited
	UsedMemory      int64 // bytes
	EvictionPolicy  string
	IsReplica       bool
	IsCluster       bool // the server is a node of a cluster
	SnapshotsFailed bool // the last snapshot failed, after which a server refuses writes by default
	Time            time.Time
}

// ErrNoCluster is returned for the URL of a cluster if the server is not part of a cluster.
var ErrNoCluster = errors.New("the server is not a cluster")

// Inspect reads the state of the Redis servers of a URL: of one server, of the master that
// sentinels name, or of one node of a cluster. It sends no command that writes.
func Inspect(ctx context.Context, rawURL string) (ServerState, error) {
	s, err := parseURL(rawURL)
	if err != nil {
		return ServerState{}, err
	}

	client := connect(s, &monitor{log: slog.New(slog.DiscardHandler)})
	defer client.Close()

	text, err := client.Info(ctx).Result()
	if err != nil && strings.Contains(err.Error(), "cluster support disabled") {
		return ServerState{}, ErrNoCluster
	}
	if err != nil {
		return ServerState{}, fmt.Errorf("read the server's state: %w", err)
	}

	state := parseInfo(text)
	if state.Time, err = client.Time(ctx).Result(); err != nil {
		return ServerState{}, fmt.Errorf("read the server's clock: %w", err)
	}

	if cluster, ok := client.(*redis.ClusterClient); ok {
		info, err := cluster.ClusterInfo(ctx).Result()
		if err == nil && !strings.Contains(info, "cluster_state:ok") {
			err = errors.New("the cluster does not serve all keys")
		}
		if err != nil {
			return ServerState{}, err
		}
	}

	return state, nil
}

// IsClusterURL reports whether a URL names a cluster. CheckURL must accept the URL.
func IsClusterURL(rawURL string) bool {
	scheme, _, _ := strings.Cut(rawURL, "://")
	return strings.HasSuffix(scheme, "-cluster")
}

// parseInfo reads the answer to INFO, lines of name:value.
func parseInfo(text string) ServerState {
	values := make(map[string]string)
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			values[name] = value
		}
	}

	number := func(name string) int64 {
		n, _ := strconv.ParseInt(values[name], 10, 64) // a server without the value counts as unlimited
		return n
	}

	return ServerState{
		Version: values["redis_version"], MaxMemory: number("maxmemory"), UsedMemory: number("used_memory"),
		EvictionPolicy: values["maxmemory_policy"], IsReplica: values["role"] == "slave",
		IsCluster: values["cluster_enabled"] == "1", SnapshotsFailed: values["rdb_last_bgsave_status"] == "err",
	}
}
