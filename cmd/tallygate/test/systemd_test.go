package test

import (
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tallygate/tallygate/tools/dbtest"
	"github.com/tallygate/tallygate/tools/testkit"
)

// TestNotifyManager: the service reports to systemd that it is ready when it answers, and that it
// stops; a start that is refused reports nothing.
func TestNotifyManager(t *testing.T) {
	t.Parallel()

	for name, address := range map[string]string{
		"file":     filepath.Join(t.TempDir(), "notify"),
		"abstract": "@tallygate-" + filepath.Base(t.TempDir()) + dbtest.FreeAddress(t),
	} {
		t.Run(name, func(t *testing.T) {
			socket, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: address, Net: "unixgram"})
			testkit.NoError(t, err)
			t.Cleanup(func() { _ = socket.Close() })
			next := func(patience time.Duration) string {
				text := make([]byte, 100)
				_ = socket.SetReadDeadline(time.Now().Add(patience))
				n, _ := socket.Read(text)
				return string(text[:n])
			}

			settings := settingsFor(t, "sqlite:")
			settings["NOTIFY_SOCKET"] = address
			settings["TALLYGATE_TRUSTED_PROXIES"] = "nowhere"
			if status, _, log := tallygate(t, settings, "serve"); status != 2 {
				t.Errorf("exit status %d: %s", status, log)
			}
			testkit.Equal(t, next(time.Millisecond), "", "a refused start reports")

			delete(settings, "TALLYGATE_TRUSTED_PROXIES")
			p := start(t, settings, []string{"control", "data"})
			testkit.Equal(t, next(patience), "READY=1", "reported")
			if status, body := get(t, "http://"+p.addr["data"]+"/readyz"); status != http.StatusOK || !strings.HasPrefix(body, "ok") {
				t.Errorf("a ready service answers %d %s", status, body)
			}
			p.signal(syscall.SIGTERM)
			testkit.Equal(t, next(patience), "STOPPING=1", "reported")
		})
	}
}
