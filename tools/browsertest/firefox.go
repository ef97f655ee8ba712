package browsertest

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/tallygate/tallygate/tools/testkit"
)

// firefoxNames lists the names of Firefox's program, best first.
var firefoxNames = []string{"firefox-esr", "firefox"}

// firefoxPrefs lists the settings of every profile, which turn off prompts, updates and reports.
// The proxy's settings are added to them.
var firefoxPrefs = []string{
	`user_pref("app.normandy.enabled", false)`,
	`user_pref("app.update.enabled", false)`,
	`user_pref("browser.aboutwelcome.enabled", false)`,
	`user_pref("browser.shell.checkDefaultBrowser", false)`,
	`user_pref("datareporting.policy.dataSubmissionEnabled", false)`,
	`user_pref("datareporting.policy.dataSubmissionPolicyBypassNotification", true)`,
	`user_pref("dom.security.https_first", false)`,
	`user_pref("network.captive-portal-service.enabled", false)`,
	`user_pref("network.connectivity-service.enabled", false)`,
	`user_pref("network.dns.disablePrefetch", true)`,
	`user_pref("network.prefetch-next", false)`,
	`user_pref("network.proxy.allow_hijacking_localhost", true)`,
	`user_pref("network.proxy.socks_remote_dns", true)`,
	`user_pref("network.proxy.type", 1)`,
	`user_pref("services.settings.server", "http://127.0.0.1:1")`,
	`user_pref("toolkit.telemetry.reportingpolicy.firstRun", false)`,
}

// OpenFirefox opens an address in a headless Firefox with an empty profile, and ends it with the
// test. It reaches the hosts of the Host options only; other options do not apply. No driver
// controls it: its pages navigate to each other and report to the test's servers. Without a Firefox
// on the PATH the test is skipped, even in CI, because not every distribution packages one.
func OpenFirefox(t testing.TB, address string, opts ...Option) {
	t.Helper()
	testkit.SkipLong(t, "Firefox")

	executable := ""
	for _, name := range firefoxNames {
		if path, err := exec.LookPath(name); err == nil && executable == "" {
			executable = path
		}
	}

	if executable == "" {
		t.Skipf("skipped: no Firefox is installed: none of %s is on the PATH", strings.Join(firefoxNames, ", "))
	}

	var o options
	for _, opt := range opts {
		opt(&o)
	}

	proxy, err := openProxy()
	if err != nil {
		t.Fatalf("start %s: %v", executable, err)
	}

	t.Cleanup(proxy.close)
	proxy.hosts.Store(&o.hosts)

	// t.TempDir would fail the test, because helper processes may still write after the browser
	// ends.
	profile, err := os.MkdirTemp("", "browsertest-firefox-")
	testkit.NoError(t, err)

	t.Cleanup(func() { _ = os.RemoveAll(profile) })
	host, port, err := net.SplitHostPort(proxy.address())
	testkit.NoError(t, err)

	prefs := append([]string{
		fmt.Sprintf(`user_pref("network.proxy.socks", %q)`, host),
		fmt.Sprintf(`user_pref("network.proxy.socks_port", %s)`, port),
	}, firefoxPrefs...)
	testkit.NoError(t, os.WriteFile(filepath.Join(profile, "user.js"), []byte(strings.Join(prefs, ";\n")+";\n"), 0o600))

	command := exec.Command(executable, "--headless", "--no-remote", "--profile", profile, address)
	command.Env = append(os.Environ(), "HOME="+profile)

	// The process group lets the helper processes end with the browser.
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := command.Start(); err != nil {
		t.Fatalf("start %s: %v", executable, err)
	}

	t.Cleanup(func() {
		_ = syscall.Kill(-command.Process.Pid, syscall.SIGKILL)
		_ = command.Wait()
	})
}
