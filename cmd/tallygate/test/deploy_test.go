package test

import (
	"bytes"
	"debug/elf"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/http/cookiejar"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/goccy/go-yaml"

	"github.com/tallygate/tallygate/tools/dbtest"
	"github.com/tallygate/tallygate/tools/testkit"
)

// The tests of deploy_*_test.go read the files of deploy/ with their own tools, and run what they
// start: each program with the shipped command line and environment, with other addresses.

const deployFolder = "../../../deploy/"

func readDeploy(t *testing.T, name string) string {
	t.Helper()
	return readFile(t, deployFolder+name)
}

// requireTool returns a program's path. Without it the test is skipped, or fails in CI.
func requireTool(t *testing.T, name string) string {
	t.Helper()
	testkit.SkipLong(t, name)
	path, err := exec.LookPath(name)
	if err != nil {
		path, err = exec.LookPath("/usr/sbin/" + name)
	}
	if err != nil {
		testkit.Missing(t, name+" is not installed")
	}
	return path
}

// wantFirstHit creates an account and a site, and checks that a hit is stored, through the given
// base addresses of the two planes.
func wantFirstHit(t *testing.T, control, data string) {
	t.Helper()
	jar, err := cookiejar.New(nil)
	testkit.NoError(t, err)
	// A visitor has another address than the proxies, which the service trusts.
	dialer := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}}
	client := &http.Client{Jar: jar, Timeout: patience, Transport: &http.Transport{DialContext: dialer.DialContext, ForceAttemptHTTP2: true}}
	t.Cleanup(client.CloseIdleConnections)
	owner := ownerAt(t, control, client)

	// A proxy that checks its nodes notices after a second that they are ready. The control plane's
	// process listens later than the data plane's.
	for _, origin := range []string{control, data} {
		testkit.AwaitState(t, origin+" is ready", func() (string, bool) {
			status, body := readyz(strings.TrimPrefix(origin, "http://"))
			return body, status == http.StatusOK
		})
	}

	site := owner.signUp("crash.localhost")
	testkit.AwaitState(t, "a stored hit", func() (string, bool) {
		status, err := sendPageviewTo(owner.HTTP, data, site.SiteKey, "/first")
		return fmt.Sprint(status, err), err == nil && status == http.StatusNoContent
	})
	if rows := owner.export(site.ID); len(rows) != 1 || rows[0]["path"] != "/first" {
		t.Errorf("stored rows %v", rows)
	}
}

// overTest are settings of each started process that differ from the shipped ones: the domain of
// the test's site, and plain origins, because the test's clients use no TLS.
func overTest(settings map[string]string, control, data string) map[string]string {
	all := maps.Clone(settings)
	all["TALLYGATE_ALLOW_LOCAL_DOMAINS"] = "true"
	all["TALLYGATE_BASE_URL"], all["TALLYGATE_ANALYTICS_URL"] = "http://"+control, "http://"+data
	all["TALLYGATE_LOG_FORMAT"] = "json"
	return all
}

// TestDeployDockerfile: the build steps of the Dockerfile work in a plain folder, and the program
// that they build stores a hit with the image's command, environment and health check, as another
// user than root and with its data folder alone.
func TestDeployDockerfile(t *testing.T) {
	testkit.SkipLong(t, "the files of deploy")
	t.Parallel()

	steps := parseDockerfile(t, readDeploy(t, "Dockerfile"))
	image := steps.final()

	// What a linter would object to.
	if steps.of("ADD") != nil || len(steps.of("FROM")) != 2 || image.of("USER")[0] != "65532:65532" || image.of("RUN") != nil {
		t.Errorf("the image has %v", image)
	}
	version := regexp.MustCompile(`(?m)^go (\d+\.\d+)`).FindStringSubmatch(readDeploy(t, "../go.mod"))[1]
	if got := steps.of("FROM")[0]; !strings.HasPrefix(got, "golang:"+version+"-") {
		t.Errorf("the Dockerfile builds with %s, and go.mod names %s", got, version)
	}

	// Run the build. Without -trimpath it shares the compiled libraries with all other tests.
	source, out := filepath.Join(t.TempDir(), "src"), filepath.Join(t.TempDir(), "out")
	checkout := exec.Command("sh", "-c", `mkdir "$0" && git ls-files -z | xargs -0 cp --parents -t "$0"`, source)
	checkout.Dir = "../../.."
	if text, err := checkout.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	for _, step := range steps.of("RUN") {
		cmd := exec.Command("sh", "-c", strings.NewReplacer("/out/", out+"/", " -trimpath", "").Replace(step))
		cmd.Dir = source
		if text, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("RUN %s: %v\n%s", step, err, text)
		}
	}

	program := filepath.Join(out, "tallygate")
	binary, err := elf.Open(program)
	testkit.NoError(t, err)
	if libraries, err := binary.ImportedLibraries(); err != nil || len(libraries) > 0 || binary.Section(".interp") != nil {
		t.Errorf("the program is not static: it needs %q, %v", libraries, err)
	}
	binary.Close()

	// Run the image's process.
	environment := map[string]string{}
	for _, line := range image.of("ENV") {
		for _, pair := range strings.Fields(line) {
			name, value, _ := strings.Cut(pair, "=")
			environment[name] = value
		}
	}
	if environment["TALLYGATE_DATA_DIR"] != "/data" || image.of("VOLUME")[0] != "/data" || image.of("WORKDIR")[0] != "/data" {
		t.Errorf("environment %v, volume %v", environment, image.of("VOLUME"))
	}
	control, data := dbtest.FreeAddress(t), dbtest.FreeAddress(t)
	environment["TALLYGATE_DATA_DIR"] = filepath.Join(out, "data")
	environment["TALLYGATE_CONTROL_ADDR"], environment["TALLYGATE_DATA_ADDR"] = control, data

	argv := append(execForm(t, image.of("ENTRYPOINT")[0]), execForm(t, image.of("CMD")[0])...)
	_, check, _ := strings.Cut(image.of("HEALTHCHECK")[0], "CMD ")
	health := execForm(t, check)
	if argv[0] != "/usr/local/bin/tallygate" || health[0] != argv[0] {
		t.Errorf("the image runs %q and %q", argv, health)
	}

	healthy := func() bool {
		cmd := exec.Command(program, health[1:]...)
		cmd.Env = environ(environment)
		return cmd.Run() == nil
	}
	if healthy() {
		t.Error("the health check succeeds before the start")
	}
	runAs(t, program, argv[1:], overTest(environment, control, data), filepath.Join(out, "data"))
	testkit.Await(t, "a healthy service", healthy)
	wantFirstHit(t, "http://"+control, "http://"+data)
}

// runAs starts the program as an unprivileged user, if the test may, in a folder that belongs to
// that user.
func runAs(t *testing.T, program string, args []string, environment map[string]string, folder string) {
	t.Helper()

	cmd := exec.Command(program, args...)
	cmd.Env = environ(environment)
	cmd.Dir = folder
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if os.Getuid() == 0 {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: 65532, Gid: 65532}
		testkit.NoError(t, os.Chown(folder, 65532, 65532))
		for dir := folder; dir != os.TempDir() && dir != "/"; dir = filepath.Dir(dir) {
			// The user must reach the folder and the program.
			if info, err := os.Stat(dir); err == nil && dir != folder {
				_ = os.Chmod(dir, info.Mode().Perm()|0o011)
			}
		}
	}

	var log bytes.Buffer
	cmd.Stdout, cmd.Stderr = &log, &log
	testkit.NoError(t, dbtest.StartBound(cmd))
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		if err := cmd.Wait(); err != nil || t.Failed() {
			t.Errorf("%v: %v\n%s", cmd.Args, err, log.String())
		}
	})
}

// environ returns an environment with only the given variables.
func environ(variables map[string]string) []string {
	list := []string{"PATH=" + os.Getenv("PATH")}
	for name, value := range variables {
		list = append(list, name+"="+value)
	}
	return list
}

// dockerfile is a list of instructions with their arguments.
type dockerfile [][2]string

// parseDockerfile reads the instructions, which may be continued with a backslash.
func parseDockerfile(t *testing.T, text string) (list dockerfile) {
	t.Helper()
	text = regexp.MustCompile(`(?m)^#.*\n`).ReplaceAllString(text, "")
	text = regexp.MustCompile(`\\\n\s*`).ReplaceAllString(text, "")
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" {
			name, arguments, _ := strings.Cut(line, " ")
			list = append(list, [2]string{name, arguments})
		}
	}
	return list
}

// of returns the arguments of the instructions with a name.
func (d dockerfile) of(name string) (all []string) {
	for _, instruction := range d {
		if instruction[0] == name {
			all = append(all, instruction[1])
		}
	}
	return all
}

// final returns the instructions of the last stage.
func (d dockerfile) final() dockerfile {
	for i := len(d) - 1; i >= 0; i-- {
		if d[i][0] == "FROM" {
			return d[i:]
		}
	}
	return nil
}

// execForm reads a command in the form of a JSON array.
func execForm(t *testing.T, text string) (argv []string) {
	t.Helper()
	if err := yaml.Unmarshal([]byte(text), &argv); err != nil || len(argv) == 0 {
		t.Fatalf("%s: %v", text, err)
	}
	return argv
}

// TestDeploySystemd: systemd accepts the unit and finds it well isolated; its command stores a hit
// with its environment.
func TestDeploySystemd(t *testing.T) {
	t.Parallel()

	analyze := requireTool(t, "systemd-analyze")
	program, _, _ := buildOnce(t)
	unit := readDeploy(t, "systemd/tallygate.service")

	// systemd checks that the program exists.
	file := writeFile(t, t.TempDir(), "tallygate.service",
		strings.ReplaceAll(unit, "ExecStart=/usr/local/bin/tallygate", "ExecStart="+program))
	if out, err := exec.Command(analyze, "verify", "--man=no", file).CombinedOutput(); err != nil || strings.Contains(string(out), "tallygate.service") {
		t.Errorf("systemd-analyze verify: %v\n%s", err, out)
	}
	if out, err := exec.Command(analyze, "security", "--offline=yes", "--threshold=20", file).CombinedOutput(); err != nil {
		t.Errorf("systemd-analyze security: %v\n%s", err, out)
	}

	values := func(name string) (all []string) {
		for _, match := range regexp.MustCompile(`(?m)^`+name+`=(.*)$`).FindAllStringSubmatch(unit, -1) {
			all = append(all, match[1])
		}
		return all
	}
	environment := map[string]string{}
	for _, line := range append(values("Environment"), strings.Split(readDeploy(t, "systemd/tallygate.env"), "\n")...) {
		if name, value, found := strings.Cut(line, "="); found && !strings.HasPrefix(line, "#") {
			environment[name] = value
		}
	}
	if environment["TALLYGATE_DATA_DIR"] != "/var/lib/"+values("StateDirectory")[0] || environment["TALLYGATE_TRUSTED_PROXIES"] != "127.0.0.1" {
		t.Errorf("environment %v", environment)
	}

	folder := t.TempDir()
	control, data := dbtest.FreeAddress(t), dbtest.FreeAddress(t)
	environment["TALLYGATE_DATA_DIR"] = folder
	environment["TALLYGATE_CONTROL_ADDR"], environment["TALLYGATE_DATA_ADDR"] = control, data
	start(t, overTest(environment, control, data), []string{"control", "data"}, strings.Fields(values("ExecStart")[0])[1:]...)
	wantFirstHit(t, "http://"+control, "http://"+data)
}

// TestDeployBackupTimer: systemd accepts the timer and its service, finds the service as well isolated
// as the main one, and its command makes a copy with its environment.
func TestDeployBackupTimer(t *testing.T) {
	t.Parallel()

	analyze := requireTool(t, "systemd-analyze")
	program, _, _ := buildOnce(t)
	unit := strings.ReplaceAll(readDeploy(t, "systemd/tallygate-backup.service"), "/usr/local/bin/tallygate", program)
	if isolation(unit) != isolation(readDeploy(t, "systemd/tallygate.service")) {
		t.Error("the isolation of tallygate-backup.service is not as in tallygate.service")
	}

	folder, data := t.TempDir(), t.TempDir()
	service := writeFile(t, folder, "tallygate-backup.service", unit)
	timer := writeFile(t, folder, "tallygate-backup.timer", readDeploy(t, "systemd/tallygate-backup.timer"))
	if out, err := exec.Command(analyze, "verify", "--man=no", service, timer).CombinedOutput(); err != nil ||
		strings.Contains(string(out), "tallygate-backup") {
		t.Errorf("systemd-analyze verify: %v\n%s", err, out)
	}

	command := regexp.MustCompile(`(?m)^ExecStart=(.*)$`).FindStringSubmatch(unit)[1]
	copies := regexp.MustCompile(`(?m)^Environment=FOLDER=(\S+) KEEP=(\d+)$`).FindStringSubmatch(unit)
	if copies == nil || !strings.Contains(unit, "\nStateDirectory=tallygate "+filepath.Base(copies[1])+"\n") {
		t.Fatalf("the folder of copies is not a folder of the unit:\n%s", unit)
	}
	settings := map[string]string{"TALLYGATE_DATA_DIR": data}
	if status, _, log := tallygate(t, settings, "admin", "create-account", "a@example.com", "--name", "A"); status != 0 {
		t.Fatal(log)
	}
	args := strings.Fields(strings.NewReplacer("${FOLDER}", folder, "${KEEP}", copies[2]).Replace(command))
	if status, out, log := tallygate(t, settings, args[1:]...); status != 0 || !strings.Contains(out, "and verified") {
		t.Errorf("exit status %d: %s%s", status, out, log)
	}
}

// isolation returns the settings of a unit from ProtectSystem on, without
// comments and without what only the service's background process needs.
func isolation(unit string) string {
	_, text, _ := strings.Cut(unit, "\nProtectSystem=")
	text, _, _ = strings.Cut(text, "\n\n[Install]")
	text = regexp.MustCompile(`(?m)^(#.*|SystemCallFilter=setpriority)\n`).ReplaceAllString(text, "")
	return strings.TrimSpace(text)
}

// buildOnce returns the program that the tests run.
func buildOnce(t *testing.T) (program string, args []string, env []string) {
	t.Helper()
	cmd := newCommand(nil)
	if cmd.Err != nil {
		t.Fatal(cmd.Err)
	}
	return cmd.Path, cmd.Args, cmd.Env
}
