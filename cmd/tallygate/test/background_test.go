package test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/tallygate/tallygate/tools/dbtest"
	"github.com/tallygate/tallygate/tools/testkit"
)

// childOf waits for the child of a process, other than the child before, and returns its id.
func childOf(t *testing.T, p *process, before int) (pid int) {
	t.Helper()
	eventually(t, p, func() bool {
		pid, _ = strconv.Atoi(childrenOf(p))
		return pid != 0 && pid != before
	})
	return pid
}

// childrenOf returns the ids of the children of a process, which the system lists by the thread
// that started each.
func childrenOf(p *process) string {
	files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", p.cmd.Process.Pid))
	var all strings.Builder
	for _, file := range files {
		text, _ := os.ReadFile(file)
		all.Write(text)
	}
	return strings.TrimSpace(all.String())
}

// readyz returns the answer of a listener's /readyz; 0 while nothing listens.
func readyz(address string) (status int, body string) {
	response, err := http.Get("http://" + address + "/readyz")
	if err != nil {
		return 0, ""
	}
	defer response.Body.Close()

	text, err := io.ReadAll(response.Body)
	if err != nil {
		return 0, ""
	}
	return response.StatusCode, string(text)
}

// TestBackgroundProcess checks that the roles other than data run in a child of low priority, and
// that the operator sees both processes.
func TestBackgroundProcess(t *testing.T) {
	t.Parallel()

	settings := settingsFor(t, "sqlite:")
	settings["TALLYGATE_METRICS_ADDR"] = "127.0.0.1:0"
	p := start(t, settings, []string{"control", "data", "metrics"})
	child := childOf(t, p, 0)

	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", child))
	if err != nil || len(threads) < 2 {
		t.Fatalf("threads of the child: %v, %v", threads, err)
	}
	own := niceOf("/proc/self/stat")
	for _, file := range threads {
		testkit.Equal(t, niceOf(file), max(own, 10), "%s has the priority", file)
	}
	if nice := niceOf(fmt.Sprintf("/proc/%d/stat", p.cmd.Process.Pid)); nice != own {
		t.Errorf("the parent has the priority %d, want that of this process, %d", nice, own)
	}
	if own, other := killScore(t, p.cmd.Process.Pid), killScore(t, child); other <= own && own < 1000 {
		t.Errorf("a shortage of memory ends the parent (%d) before the child (%d)", own, other)
	}

	var metrics string
	eventually(t, p, func() bool {
		_, metrics = get(t, "http://"+p.addr["metrics"]+"/metrics")
		return strings.Contains(metrics, "\ntallygate_background_process_ready 1\n") // the line of help contains the rest
	})
	for _, line := range []string{
		`tallygate_role{role="data"} 1`,
		`tallygate_role{process="background",role="control"} 1`,
		`tallygate_role{process="background",role="worker"} 1`,
		"tallygate_background_process_ends_total 0",
		`process_resident_memory_bytes{process="background"}`,
		"\ngo_goroutines ",
	} {
		if !strings.Contains(metrics, line) {
			t.Errorf("the metrics lack %s", line)
		}
	}
}

// niceOf returns the priority of a process or thread, the 19th field of its file stat.
func niceOf(file string) int {
	text, _ := os.ReadFile(file)
	_, rest, _ := strings.Cut(string(text), ") ") // after the name, which may contain spaces
	fields := strings.Fields(rest)
	if len(fields) < 17 {
		return -100
	}
	nice, _ := strconv.Atoi(fields[16])
	return nice
}

func killScore(t *testing.T, pid int) int {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/oom_score_adj", pid))
	testkit.NoError(t, err)
	score, err := strconv.Atoi(strings.TrimSpace(string(text)))
	testkit.NoError(t, err)
	return score
}

// TestHitsGoOnWithoutTheBackgroundProcess kills the child under load: no hit is refused or lost,
// /readyz of the data plane stays ready and names the child, and another child serves.
func TestHitsGoOnWithoutTheBackgroundProcess(t *testing.T) {
	t.Parallel()
	testkit.SkipLong(t, "faults of processes")

	dbtest.EachURL(t, func(t *testing.T, databaseURL string) {
		settings := settingsFor(t, databaseURL)
		settings["TALLYGATE_CONTROL_ADDR"] = dbtest.FreeAddress(t)
		p := start(t, settings, []string{"control", "data"})
		site := newOwner(t, p).signUp("crash.localhost")

		count, finished := startLoad(t, p, site.SiteKey, "child")

		child := 0
		for ends := range 3 {
			child = childOf(t, p, child)
			p.awaitStatus("control", http.StatusOK)
			awaitResponses(t, p, count, count.Load()+20)

			testkit.NoError(t, syscall.Kill(child, syscall.SIGKILL))
			eventually(t, p, func() bool {
				if status, body := readyz(p.addr["data"]); status != http.StatusOK {
					t.Fatalf("the data plane is not ready without the child: %d %s", status, body)
				}
				return strings.Count(p.logged(), "the background process ended") == ends+1
			})
		}

		childOf(t, p, child)
		p.awaitReadyz("data", func(_ int, body string) bool { return !strings.Contains(body, "background") })

		// The senders end with the process.
		p.signal(syscall.SIGTERM)
		if code := p.cmd.ProcessState.ExitCode(); code != 0 {
			t.Errorf("exit status %d, want 0:\n%s", code, p.logged())
		}
		compareAfterStart(t, settings, site, <-finished)
	})
}

// TestDrainAfterACrash checks that a child which replaced another one serves during the drain
// delay: its parent asks it once to stop.
func TestDrainAfterACrash(t *testing.T) {
	t.Parallel()
	testkit.SkipLong(t, "faults of processes")

	settings := settingsFor(t, "sqlite:")
	settings["TALLYGATE_CONTROL_ADDR"] = dbtest.FreeAddress(t)
	settings["TALLYGATE_DRAIN_DELAY"] = "3s"
	p := start(t, settings, []string{"control", "data"})
	child := childOf(t, p, 0)
	testkit.NoError(t, syscall.Kill(child, syscall.SIGKILL))
	childOf(t, p, child)
	p.awaitStatus("control", http.StatusOK)

	testkit.NoError(t, p.cmd.Process.Signal(syscall.SIGTERM))
	p.awaitStatus("control", http.StatusServiceUnavailable)
	p.awaitEnd()
	if code := p.cmd.ProcessState.ExitCode(); code != 0 || strings.Count(p.logged(), `"clean":true`) != 2 {
		t.Errorf("exit status %d, want 0 and two clean stops:\n%s", code, p.logged())
	}
}

// TestTheBackgroundProcessEndsWithItsParent kills the parent: the child ends, and neither its
// address nor its lock stays taken.
func TestTheBackgroundProcessEndsWithItsParent(t *testing.T) {
	t.Parallel()

	settings := settingsFor(t, "sqlite:")
	settings["TALLYGATE_CONTROL_ADDR"] = dbtest.FreeAddress(t)
	for range 3 {
		p := start(t, settings, []string{"control", "data"})
		child := childOf(t, p, 0)
		p.kill()
		eventually(t, p, func() bool { return syscall.Kill(child, 0) == syscall.ESRCH })
	}
}

// TestProcessesOne checks that one process has all roles if the setting asks for it.
func TestProcessesOne(t *testing.T) {
	t.Parallel()

	settings := settingsFor(t, "sqlite:")
	settings["TALLYGATE_PROCESSES"] = "one"
	p := start(t, settings, []string{"control", "data"})
	p.awaitStatus("control", http.StatusOK)

	testkit.Equal(t, childrenOf(p), "", "the process has the children")
}

// TestFailingBackgroundProcess checks that a first child which cannot start ends the service with
// its reason, and that later ones are started again while /readyz of the data plane names the
// child.
func TestFailingBackgroundProcess(t *testing.T) {
	t.Parallel()

	settings := settingsFor(t, "sqlite:")
	settings["TALLYGATE_CONTROL_ADDR"] = dbtest.FreeAddress(t)
	p := start(t, settings, []string{"control", "data"})

	// A second service on another folder has no address left for its child.
	other := settingsFor(t, "sqlite:")
	other["TALLYGATE_CONTROL_ADDR"] = p.addr["control"]
	status, _, log := tallygate(t, other, "serve")
	lines := strings.Split(strings.TrimSpace(log), "\n")
	if last := lines[len(lines)-1]; status != 1 || !strings.Contains(last, "TALLYGATE_CONTROL_ADDR") {
		t.Errorf("exit status %d, want 1 with the reason last:\n%s", status, log)
	}

	// Another program takes the address while no child has it.
	var taken net.Listener
	child := 0
	eventually(t, p, func() (ok bool) {
		child = childOf(t, p, child)
		testkit.NoError(t, syscall.Kill(child, syscall.SIGKILL))

		// The next child may be faster.
		for next := child; next == child || next == 0; next, _ = strconv.Atoi(childrenOf(p)) {
			var err error
			if taken, err = net.Listen("tcp", p.addr["control"]); err == nil {
				return true
			}
		}
		return false
	})
	awaitLog(t, p, "address already in use")
	if status, body := readyz(p.addr["data"]); status != http.StatusOK ||
		!strings.Contains(body, "the background process with the roles control, worker has not served since") {
		t.Errorf("the data plane without the child: %d %s", status, body)
	}
	if status, out, log := tallygate(t, map[string]string{
		"TALLYGATE_DATA_DIR": settings["TALLYGATE_DATA_DIR"], "TALLYGATE_DATA_ADDR": p.addr["data"],
		"TALLYGATE_CONTROL_ADDR": p.addr["control"],
	}, "health"); status != 0 {
		t.Errorf("health without the child: exit status %d: %s%s", status, out, log)
	}
	taken.Close()
	p.awaitStatus("control", http.StatusOK)
}
