package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os/exec"
	"strconv"
	"syscall"
	"time"

	"github.com/tallygate/tallygate/db/pgserver"
)

// redisServer is a private Redis on loopback without persistence: after a kill it is empty.
type redisServer struct {
	port int
	cmd  *exec.Cmd
}

func newRedis() (*redisServer, error) {
	if _, err := exec.LookPath("redis-server"); err != nil {
		return nil, fmt.Errorf("redis-server is not installed: %w", err)
	}
	port, err := pgserver.FreePort()
	return &redisServer{port: port}, err
}

func (r *redisServer) addr() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(r.port)) }

func (r *redisServer) url() string { return "redis://" + r.addr() + "/0" }

// start starts it, empty, and waits until it answers.
func (r *redisServer) start(ctx context.Context) error {
	cmd := exec.Command("redis-server", "--port", strconv.Itoa(r.port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--loglevel", "warning")
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := pgserver.StartBound(cmd); err != nil {
		return err
	}

	r.cmd = cmd
	ctx, cancel := context.WithTimeout(ctx, startPatience)
	defer cancel()

	for r.ping() != nil {
		select {
		case <-ctx.Done():
			return errors.New("redis-server does not answer")
		case <-time.After(5 * time.Millisecond):
		}
	}

	return nil
}

// ping asks whether it is there, in Redis's own words.
func (r *redisServer) ping() error {
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
		return fmt.Errorf("redis-server says %q, %w", reply, err)
	}

	return nil
}

func (r *redisServer) kill() {
	if r.cmd != nil {
		_ = r.cmd.Process.Kill()
		_ = r.cmd.Wait()
		r.cmd = nil
	}
}

func (r *redisServer) pause()  { _ = r.cmd.Process.Signal(syscall.SIGSTOP) }
func (r *redisServer) resume() { _ = r.cmd.Process.Signal(syscall.SIGCONT) }
