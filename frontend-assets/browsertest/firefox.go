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
)

// firefoxNames are the names under which Firefox is known, best first.
var firefoxNames = []string{"firefox-esr", "firefox"}

// firefoxPrefs are the settings of every profile: nothing is asked, updated or reported. The proxy
// settings come with the gate.
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

// OpenFirefox starts a headless Firefox with an empty profile on an address, and ends it with the
// test. It reaches the hosts of the Host options only; other options do not apply. Nothing drives
// it: its pages lead to each other and report to the test's servers. Without a Firefox on
// the PATH the test is skipped, in CI too, since not every distribution packages one.
func OpenFirefox(t testing.TB, address string, opts ...Option) {
	t.Helper()

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

	gate, err := openGate()
	if err != nil {
		t.Fatalf("start %s: %v", executable, err)
	}

	t.Cleanup(gate.close)
	gate.hosts.Store(&o.hosts)

	// Not t.TempDir: helper processes may still write when the browser has ended.
	profile, err := os.MkdirTemp("", "browsertest-firefox-")
	if err != nil {
		t.Fatal(err)
	}

	t.Cleanup(func() { _ = os.RemoveAll(profile) })
	host, port, err := net.SplitHostPort(gate.address())
	if err != nil {
		t.Fatal(err)
	}

	prefs := append([]string{
		fmt.Sprintf(`user_pref("network.proxy.socks", %q)`, host),
		fmt.Sprintf(`user_pref("network.proxy.socks_port", %s)`, port),
	}, firefoxPrefs...)
	if err := os.WriteFile(filepath.Join(profile, "user.js"), []byte(strings.Join(prefs, ";\n")+";\n"), 0o600); err != nil {
		t.Fatal(err)
	}

	command := exec.Command(executable, "--headless", "--no-remote", "--profile", profile, address)
	command.Env = append(os.Environ(), "HOME="+profile)

	// A group of its own, so that the helper processes end with it.
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := command.Start(); err != nil {
		t.Fatalf("start %s: %v", executable, err)
	}

	t.Cleanup(func() {
		_ = syscall.Kill(-command.Process.Pid, syscall.SIGKILL)
		_ = command.Wait()
	})
}
