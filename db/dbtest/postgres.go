package dbtest

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// Run runs a package's tests and then stops what they started. Packages that use PostgreSQL call it from TestMain.
func Run(m *testing.M) int {
	flag.Parse()
	defer server.stop()
	return m.Run()
}

// server is the test process's private PostgreSQL, started by the first test that wants it.
var server privateServer

type privateServer struct {
	once sync.Once
	url  string
	err  error
	dir  string
	args []string
	attr *syscall.SysProcAttr
	cmd  *exec.Cmd
}

// RestartPostgres ends the private PostgreSQL as a crash would and starts it again on the same port. The databases stay. It
// skips the test when the server is somebody else's.
func RestartPostgres(tb testing.TB) {
	tb.Helper()
	if server.cmd == nil {
		tb.Skip("skipped: the PostgreSQL of TALLYGATE_TEST_POSTGRES_URL is not ours to restart")
	}
	_ = server.cmd.Process.Signal(syscall.SIGQUIT)
	_ = server.cmd.Wait()
	if err := server.run(); err != nil {
		tb.Fatalf("start PostgreSQL again: %v", err)
	}
}

func postgresServer(tb testing.TB) string {
	tb.Helper()
	if u := os.Getenv("TALLYGATE_TEST_POSTGRES_URL"); u != "" {
		return u
	}
	bin, err := postgresBin()
	if err != nil {
		Missing(tb, "PostgreSQL's server programs (initdb, postgres) are not installed: "+err.Error())
	}
	server.once.Do(func() { server.err = server.start(bin) })
	if server.err != nil {
		tb.Fatalf("start a private PostgreSQL: %v", server.err)
	}
	return server.url
}

// postgresBin finds the folder of initdb and postgres: on the PATH, or where Debian keeps the newest version.
func postgresBin() (string, error) {
	if p, err := exec.LookPath("initdb"); err == nil {
		if p, err = filepath.EvalSymlinks(p); err == nil {
			return filepath.Dir(p), nil
		}
	}
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	if err != nil || len(found) == 0 {
		return "", fmt.Errorf("no initdb on the PATH or in /usr/lib/postgresql")
	}
	slices.Sort(found)
	return filepath.Dir(found[len(found)-1]), nil
}

func (s *privateServer) start(bin string) (err error) {
	if s.dir, err = os.MkdirTemp("", "tallygate-postgres-"); err != nil {
		return err
	}
	attr, err := unprivileged(s.dir)
	if err != nil {
		return err
	}
	data := filepath.Join(s.dir, "data")
	initdb := exec.Command(filepath.Join(bin, "initdb"), "-D", data, "-U", "tallygate", "-A", "trust", "-E", "UTF8",
		"--locale=C", "--no-sync", "--no-instructions")
	initdb.SysProcAttr, initdb.Dir = attr, s.dir
	if out, err := initdb.CombinedOutput(); err != nil {
		return fmt.Errorf("initdb: %w\n%s", err, out)
	}
	port, err := FreePort()
	if err != nil {
		return err
	}
	s.args = []string{filepath.Join(bin, "postgres"), "-D", data, "-h", "127.0.0.1", "-p", strconv.Itoa(port),
		"-k", s.dir, "-c", "fsync=" + fsync(), "-c", "max_connections=200", "-c", "shared_buffers=128MB",
		"-c", "max_wal_size=4GB", "-c", "log_min_messages=panic"}
	s.attr = attr
	s.url = fmt.Sprintf("postgres://tallygate:tallygate@127.0.0.1:%d/postgres?sslmode=disable", port)
	return s.run()
}

func (s *privateServer) run() error {
	s.cmd = exec.Command(s.args[0], s.args[1:]...)
	s.cmd.SysProcAttr, s.cmd.Dir = s.attr, s.dir
	s.cmd.Stderr = os.Stderr
	if err := StartBound(s.cmd); err != nil {
		return err
	}
	return waitFor(s.url)
}

func (s *privateServer) stop() {
	if s.cmd != nil && s.cmd.Process != nil {
		_ = s.cmd.Process.Signal(syscall.SIGQUIT) // immediate shutdown: nothing in it is worth keeping
		_ = s.cmd.Wait()
	}
	if s.dir != "" {
		_ = os.RemoveAll(s.dir)
	}
}

// fsync is off for tests, where only processes die, never the machine; benchmarks pay for real commits.
func fsync() string {
	if f := flag.Lookup("test.bench"); f != nil && f.Value.String() != "" {
		return "on"
	}
	return "off"
}

// unprivileged makes dir usable by, and returns the attributes of, an account that PostgreSQL agrees to run as: it
// refuses root.
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
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
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
