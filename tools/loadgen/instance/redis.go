package instance

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os/exec"
	"strconv"
	"syscall"
	"time"

	"github.com/tallygate/tallygate/tools/pgserver"
)

// Redis is a private Redis on loopback without persistence. It is empty after a kill.
type Redis struct {
	port int
	cmd  *exec.Cmd
}

// NewRedis chooses a free port for a server. It does not start it.
func NewRedis() (*Redis, error) {
	if _, err := exec.LookPath("redis-server"); err != nil {
		return nil, fmt.Errorf("redis-server is not installed: %w", err)
	}
	port, err := pgserver.FreePort()
	return &Redis{port: port}, err
}

func (r *Redis) addr() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(r.port)) }

// URL returns the server's address, as the settings take it.
func (r *Redis) URL() string { return "redis://" + r.addr() + "/0" }

// Start starts the server, and waits until it responds.
func (r *Redis) Start(ctx context.Context) error {
	cmd := exec.Command("redis-server", "--port", strconv.Itoa(r.port), "--bind", "127.0.0.1", "--save", "",
		"--appendonly", "no", "--loglevel", "warning")
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := pgserver.StartBound(cmd); err != nil {
		return err
	}

	r.cmd = cmd
	ctx, cancel := context.WithTimeout(ctx, StartPatience)
	defer cancel()

	for r.ping() != nil {
		select {
		case <-ctx.Done():
			return errors.New("redis-server does not respond")
		case <-time.After(5 * time.Millisecond):
		}
	}

	return nil
}

// ping sends a PING command and checks the reply.
func (r *Redis) ping() error {
	conn, err := net.DialTimeout("tcp", r.addr(), time.Second)
	if err != nil {
		return err
	}
	defer conn.Close()

	if err := conn.SetDeadline(time.Now().Add(time.Second)); err != nil {
		return err
	}
	if _, err := conn.Write([]byte("PING\r\n")); err != nil {
		return err
	}

	reply := make([]byte, len("+PONG"))
	if _, err := conn.Read(reply); err != nil || string(reply) != "+PONG" {
		return fmt.Errorf("redis-server replied %q, %w", reply, err)
	}

	return nil
}

// Kill terminates the server immediately.
func (r *Redis) Kill() {
	if r.cmd != nil {
		_ = r.cmd.Process.Kill()
		_ = r.cmd.Wait()
		r.cmd = nil
	}
}

// Pause suspends the server, and Resume continues it.
func (r *Redis) Pause()  { _ = r.cmd.Process.Signal(syscall.SIGSTOP) }
func (r *Redis) Resume() { _ = r.cmd.Process.Signal(syscall.SIGCONT) }
