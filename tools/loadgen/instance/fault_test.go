package instance

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tallygate/tallygate/tools/loadgen/process"
	"github.com/tallygate/tallygate/tools/testkit"
)

// startShell starts a shell script as a server that is always ready, and waits for its child
// process.
func startShell(t *testing.T, script string) *Server {
	t.Helper()
	ready := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(ready.Close)
	s := &Server{program: "/bin/sh", args: []string{"-c", script}, Data: ready.Listener.Addr().String()}
	testkit.NoError(t, s.Start(t.Context()))
	t.Cleanup(func() {
		process.SignalFamily(s.Pid(), syscall.SIGKILL)
		s.Kill()
	})
	testkit.NoError(t, s.await(t.Context(), func() bool { return len(process.Children(s.Pid())) == 1 }))
	return s
}

// TestChildKilled kills the child of a script that starts it again, and of one that then ends.
func TestChildKilled(t *testing.T) {
	t.Parallel()
	s := startShell(t, "while :; do sleep 60; done")
	parent, child := s.Pid(), process.Children(s.Pid())[0]
	var back time.Duration
	err := ChildKilled("kill child", s, func(took time.Duration) { back = took }).Do(t.Context(), 0)
	now := process.Children(s.Pid())
	if err != nil || back <= 0 || s.Pid() != parent || len(now) != 1 || now[0] == child || !process.Ended(child) {
		t.Errorf("error %v, back after %v; child %d, now %v", err, back, child, now)
	}

	s = startShell(t, "sleep 60; exit 1")
	err = ChildKilled("kill child", s, func(time.Duration) { t.Error("a server without a child is ready") }).Do(t.Context(), 0)
	if err == nil || !strings.Contains(err.Error(), "terminated") {
		t.Errorf("a server that ends with its child: %v", err)
	}
}

// TestParentKilled kills a script whose child notices that within some time.
func TestParentKilled(t *testing.T) {
	t.Parallel()
	s := startShell(t, "parent=$$; (while kill -0 $parent; do sleep 0.01; done) 2>/dev/null & wait")
	parent, child := s.Pid(), process.Children(s.Pid())[0]
	var outlived time.Duration
	err := ParentKilled("kill parent", s, func(took time.Duration) { outlived = took }).Do(t.Context(), 0)
	if err != nil || outlived <= 0 || !process.Ended(child) || s.Pid() == parent || process.Ended(s.Pid()) {
		t.Errorf("error %v, outlived by %v; parent %d, now %d", err, outlived, parent, s.Pid())
	}
}
