// Package pgserver runs a private PostgreSQL on loopback from the installed binaries, for tests and
// for the load program, which also crash it on purpose. Its data is deleted when it stops. It ends
// with the process that started it.
package pgserver

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
)

// patience bounds the wait for a server to answer.
const patience = 30 * time.Second

// Options selects the kind of server.
type Options struct {
	Durable     bool   // fsync at each commit, as in production; without it only processes may die, never the machine
	Port        int    // of 127.0.0.1; 0 for a free one
	Connections int    // the server accepts at once; 0 for 200
	Dir         string // existing folder in which the server's own folder is made; "" for the one of temporary files
}

// Server is a private PostgreSQL. It is not safe for concurrent use.
type Server struct {
	dir  string
	port int
	args []string
	attr *syscall.SysProcAttr
	cmd  *exec.Cmd // nil while it does not run
}

// Start makes a new cluster in a temporary folder, starts it and waits until it answers. The caller
// ends it with Stop.
func Start(bin string, o Options) (_ *Server, err error) {
	dir, err := os.MkdirTemp(o.Dir, "tallygate-postgres-")
	if err != nil {
		return nil, err
	}

	s := &Server{dir: dir, port: o.Port}
	defer func() {
		if err != nil {
			s.Stop()
		}
	}()

	if s.attr, err = unprivileged(dir); err != nil {
		return nil, err
	}

	data := filepath.Join(dir, "data")
	initdb := exec.Command(filepath.Join(bin, "initdb"), "-D", data, "-U", "tallygate", "-A", "trust", "-E", "UTF8",
		"--locale=C", "--no-sync", "--no-instructions")

	initdb.SysProcAttr, initdb.Dir = s.attr, dir
	if out, err := initdb.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("initdb: %w\n%s", err, out)
	}
	if s.port == 0 {
		if s.port, err = FreePort(); err != nil {
			return nil, err
		}
	}

	s.args = []string{filepath.Join(bin, "postgres"), "-D", data, "-h", "127.0.0.1", "-p", strconv.Itoa(s.port),
		"-k", dir, "-c", "fsync=" + onOff(o.Durable), "-c", "max_connections=" + strconv.Itoa(cmp.Or(o.Connections, 200)), "-c", "shared_buffers=128MB",
		"-c", "max_wal_size=4GB", "-c", "log_min_messages=panic"}

	return s, s.Restart()
}

// URL returns the address of the server's first database, which is empty at first. It stays the
// same after Restart.
func (s *Server) URL() string {
	return fmt.Sprintf("postgres://tallygate:tallygate@127.0.0.1:%d/postgres?sslmode=disable", s.port)
}

// DataDir returns the folder of the server's files.
func (s *Server) DataDir() string { return filepath.Join(s.dir, "data") }

// Pid returns the process id of the server's main process, whose children serve the connections; 0
// while it does not run.
func (s *Server) Pid() int {
	if s.cmd == nil || s.cmd.Process == nil {
		return 0
	}
	return s.cmd.Process.Pid
}

// Command returns a command that runs another of PostgreSQL's programs, such as pg_basebackup, as
// the server's user. It ends with this process.
func (s *Server) Command(program string, args ...string) *exec.Cmd {
	cmd := exec.Command(filepath.Join(filepath.Dir(s.args[0]), program), args...)
	cmd.SysProcAttr, cmd.Dir = s.attr, s.dir
	return cmd
}

// Crash ends the server at once, as a machine failure would: uncommitted changes are lost, and the
// next start recovers.
func (s *Server) Crash() {
	if s.cmd == nil {
		return
	}
	// The main process ends its children first, so that none outlives it.
	_ = s.cmd.Process.Signal(syscall.SIGQUIT)
	_ = s.cmd.Wait()
	s.cmd = nil
}

// Restart starts the server after Crash and waits until it answers.
func (s *Server) Restart() error {
	cmd := exec.Command(s.args[0], s.args[1:]...)
	cmd.SysProcAttr, cmd.Dir, cmd.Stderr = s.attr, s.dir, os.Stderr
	if err := StartBound(cmd); err != nil {
		return err
	}
	s.cmd = cmd
	return waitFor(s.URL())
}

// CreateDatabase creates an empty database and returns its address.
func (s *Server) CreateDatabase(ctx context.Context, name string) (string, error) {
	conn, err := pgx.Connect(ctx, s.URL())
	if err != nil {
		return "", err
	}

	_, err = conn.Exec(ctx, "CREATE DATABASE "+pgx.Identifier{name}.Sanitize())
	if err := errors.Join(err, conn.Close(ctx)); err != nil {
		return "", fmt.Errorf("create database %s: %w", name, err)
	}

	return fmt.Sprintf("postgres://tallygate:tallygate@127.0.0.1:%d/%s?sslmode=disable", s.port, name), nil
}

// Stop ends the server and removes its data. Further calls do nothing.
func (s *Server) Stop() {
	s.Crash()
	_ = os.RemoveAll(s.dir)
}

func onOff(on bool) string {
	if on {
		return "on"
	}
	return "off"
}

// Bin returns the folder of initdb and postgres: on the PATH, or where Debian installs the newest
// version.
func Bin() (string, error) {
	if p, err := exec.LookPath("initdb"); err == nil {
		if p, err = filepath.EvalSymlinks(p); err == nil {
			return filepath.Dir(p), nil
		}
	}

	found, err := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	if err != nil || len(found) == 0 {
		return "", errors.New("no initdb on the PATH or in /usr/lib/postgresql")
	}

	slices.Sort(found)
	return filepath.Dir(found[len(found)-1]), nil
}

// unprivileged gives dir to an account that PostgreSQL agrees to run as, and returns that account's
// process attributes: PostgreSQL refuses root.
func unprivileged(dir string) (*syscall.SysProcAttr, error) {
	attr := &syscall.SysProcAttr{Pdeathsig: syscall.SIGQUIT}

	if os.Geteuid() != 0 {
		return attr, nil
	}

	account, err := user.Lookup("postgres")
	if err != nil {
		if account, err = user.Lookup("nobody"); err != nil {
			return nil, err
		}
	}

	uid, _ := strconv.Atoi(account.Uid)
	gid, _ := strconv.Atoi(account.Gid)
	attr.Credential = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}

	return attr, os.Chown(dir, uid, gid)
}

func waitFor(url string) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()

	for {
		conn, err := pgx.Connect(ctx, url)
		if err == nil {
			return conn.Close(ctx)
		}

		select {
		case <-ctx.Done():
			return fmt.Errorf("PostgreSQL did not answer: %w", err)
		case <-time.After(20 * time.Millisecond):
		}
	}
}
