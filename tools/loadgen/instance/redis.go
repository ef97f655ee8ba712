package instance

import (
	"context"
	"fmt"
	"net"
	"os/exec"

	"github.com/tallygate/tallygate/tools/pgserver"
)

// Redis is a private Redis on loopback without persistence. It is empty after a kill.
type Redis struct {
	daemon
	address string // host:port
}

// NewRedis chooses a free port for a server. It does not start it.
func NewRedis() (*Redis, error) {
	if _, err := exec.LookPath("redis-server"); err != nil {
		return nil, fmt.Errorf("redis-server is not installed: %w", err)
	}
	address, err := pgserver.FreeAddress()
	return &Redis{address: address}, err
}

// URL returns the server's address, as the settings take it.
func (r *Redis) URL() string { return "redis://" + r.address + "/0" }

// Start starts the server, and waits until it accepts connections.
func (r *Redis) Start(ctx context.Context) error {
	_, port, err := net.SplitHostPort(r.address)
	if err != nil {
		return err
	}
	if err := r.start(exec.Command("redis-server", "--port", port, "--bind", "127.0.0.1", "--save", "",
		"--appendonly", "no", "--loglevel", "warning")); err != nil {
		return err
	}
	return r.await(ctx, func() bool { return listens(r.address) })
}
