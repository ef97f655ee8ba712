package test

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/tallygate/tallygate/tools/dbtest"
	"github.com/tallygate/tallygate/tools/redistest"
	"github.com/tallygate/tallygate/tools/testkit"
)

// TestDeployComposeClusterRealRedis: two processes of each role, with the file's environment, on
// PostgreSQL and Redis behind Caddy, store a hit. Redis accepts the file's command line.
func TestDeployComposeClusterRealRedis(t *testing.T) {
	testkit.SkipLong(t, "the files of deploy")
	t.Parallel()

	database, redis := onPostgres(t, startPostgres(t, true)).settings["TALLYGATE_DATABASE_URL"], redistest.New(t)
	file := readCompose(t, "compose/cluster.yaml", map[string]string{"APP_HOST": "app.example.com", "STATS_HOST": "stats.example.com",
		"POSTGRES_PASSWORD": "0123456789abcdef", "SECRET": "0123456789abcdef0123456789ABCDEF"})

	nodes := map[string]string{}
	for _, node := range []string{"control-1:8080", "control-2:8080", "data-1:8081", "data-2:8081"} {
		nodes[node] = dbtest.FreeAddress(t)
	}
	control, data := caddy(t, "compose/cluster.Caddyfile", nodes)

	for _, name := range []string{"control-1", "control-2", "data-1", "data-2", "worker-1", "worker-2"} {
		service := file.Services[name]
		settings := overTest(service.Environment, strings.TrimPrefix(control, "http://"), strings.TrimPrefix(data, "http://"))
		if want := "postgres://tallygate:0123456789abcdef@postgres:5432/tallygate"; settings["TALLYGATE_DATABASE_URL"] != want ||
			settings["TALLYGATE_REDIS_URL"] != "redis://redis:6379/0" {
			t.Errorf("service %s: %v", name, settings)
		}
		settings["TALLYGATE_DATABASE_URL"], settings["TALLYGATE_REDIS_URL"] = database, redis.URL()
		settings["TALLYGATE_TRUSTED_PROXIES"] = "127.0.0.1"
		settings["TALLYGATE_DATA_DIR"] = filepath.Join(t.TempDir(), "unused")
		settings["TALLYGATE_METRICS_ADDR"] = dbtest.FreeAddress(t)
		settings["TALLYGATE_DRAIN_DELAY"] = "0s"

		role, _, _ := strings.Cut(name, "-")
		roles := map[string][]string{"control": {"control", "metrics"}, "data": {"data", "metrics"}, "worker": {"metrics"}}[role]
		settings["TALLYGATE_CONTROL_ADDR"], settings["TALLYGATE_DATA_ADDR"] = nodes[name+":8080"], nodes[name+":8081"]
		start(t, settings, roles, service.Command...)

		// The image's health check, with the service's environment.
		if status, _, log := tallygate(t, settings, "health"); status != 0 {
			t.Errorf("service %s is not healthy: %s", name, log)
		}
		if _, err := os.Stat(settings["TALLYGATE_DATA_DIR"]); err == nil {
			t.Errorf("service %s writes to its read-only file system", name)
		}
	}
	wantFirstHit(t, control, data)

	command := file.Services["redis"].Command
	cmd := exec.Command(requireTool(t, command[0]),
		append(command[1:], "--port", "0", "--unixsocket", filepath.Join(t.TempDir(), "s"), "--daemonize", "no")...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	ready, err := cmd.StdoutPipe()
	testkit.NoError(t, err)
	testkit.NoError(t, dbtest.StartBound(cmd))
	text := make([]byte, 64<<10)
	n, _ := io.ReadAtLeast(ready, text, 200)
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	if strings.Contains(string(text[:n]), "FATAL CONFIG") {
		t.Errorf("Redis refuses %q: %s", command, text[:n])
	}
}
