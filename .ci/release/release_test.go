package main

import (
	"archive/tar"
	"bytes"
	"crypto/x509"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"

	"github.com/tallygate/tallygate/tools/testkit"
)

const patience = time.Minute

// TestRelease builds a release of the last commit in two folders, and uses its files.
func TestRelease(t *testing.T) {
	first, second := buildRelease(t), buildRelease(t)
	if a, b := read(t, first.out, "SHA256SUMS"), read(t, second.out, "SHA256SUMS"); a != b {
		t.Errorf("two builds of one commit differ:\n%s\n%s", a, b)
	}

	t.Run("archive", func(t *testing.T) { testArchive(t, first) })
	t.Run("image", func(t *testing.T) { testImage(t, first) })
	t.Run("packages", func(t *testing.T) { testPackages(t, first) })
}

func TestSection(t *testing.T) {
	const changelog = "# Changelog\n\n## Unreleased\n\n- new\n\n### Part\n\n- more\n\n## v1.2.3, 24 November 2026\n\n- old\n\n## 1.2.2\n\n- first\n"
	for number, want := range map[string]string{
		"1.2.4": "- new\n\n### Part\n\n- more", "1.2.3": "- old", "1.2.2": "- first", "1.2": "- new\n\n### Part\n\n- more",
	} {
		if got, err := section(changelog, number); got != want || err != nil {
			t.Errorf("%s: %q, %v", number, got, err)
		}
	}
	if got, err := section("# Changelog\n\n## v1.2.3\n", "2.0.0"); err == nil {
		t.Errorf("a changelog without the version gives %q", got)
	}
}

// buildRelease clones the last commit into a folder of its own, and builds version 0.9.0 there.
func buildRelease(t *testing.T) options {
	t.Helper()
	o := options{root: filepath.Join(t.TempDir(), "src"), out: "bin/release", version: "v0.9.0", maintainer: "A <a@example.com>", licence: "NOASSERTION"}
	runCommand(t, exec.Command("git", "clone", "--quiet", "../..", o.root))
	testkit.NoError(t, run(o))
	o.out = filepath.Join(o.root, o.out)
	return o
}

// testArchive checks that the program in the archive is static and shows its version.
func testArchive(t *testing.T, o options) {
	folder := t.TempDir()
	name := "tallygate_0.9.0_linux_" + runtime.GOARCH
	runCommand(t, exec.Command("tar", "-xzf", filepath.Join(o.out, name+".tar.gz"), "-C", folder))

	program := filepath.Join(folder, name, "tallygate")
	binary, err := elf.Open(program)
	testkit.NoError(t, err)
	defer binary.Close()
	if libraries, err := binary.ImportedLibraries(); err != nil || len(libraries) > 0 {
		t.Errorf("the program needs %q, %v", libraries, err)
	}

	commit := strings.TrimSpace(runCommand(t, exec.Command("git", "-C", o.root, "rev-parse", "HEAD")))
	wantVersion(t, runCommand(t, exec.Command(program, "version")), "v0.9.0", commit)
	for _, file := range []string{"README.md", "THIRD_PARTY_LICENCES.txt", "systemd/tallygate.service", "systemd/tallygate.env",
		"systemd/tallygate-backup.service", "systemd/tallygate-backup.timer"} {
		if read(t, folder, name, file) == "" {
			t.Errorf("%s is empty", file)
		}
	}
}

func wantVersion(t *testing.T, shown, version, commit string) {
	t.Helper()
	if !regexp.MustCompile(`(?m)^version: +`+version+`$`).MatchString(shown) || !strings.Contains(shown, commit) {
		t.Errorf("the program is not %s of %s:\n%s", version, commit, shown)
	}
}

// testImage compares the image with deploy/Dockerfile, unpacks it, and runs it with its root as /.
func testImage(t *testing.T, o options) {
	folder := t.TempDir()
	runCommand(t, exec.Command("tar", "-xf", filepath.Join(o.out, "tallygate_0.9.0_oci.tar"), "-C", folder))
	image := imageOf(t, folder, runtime.GOARCH)
	config, err := image.ConfigFile()
	testkit.NoError(t, err)
	compareDockerfile(t, read(t, o.root, "deploy/Dockerfile"), config.Config)

	root := t.TempDir()
	unpack(t, image, root)
	if pool := x509.NewCertPool(); !pool.AppendCertsFromPEM([]byte(read(t, root, "etc/ssl/certs/ca-certificates.crt"))) {
		t.Error("the image has no certificates of authorities")
	}

	attributes := &syscall.SysProcAttr{Chroot: root, Credential: &syscall.Credential{Uid: imageUser, Gid: imageUser}}
	if os.Getuid() != 0 {
		attributes.Cloneflags = syscall.CLONE_NEWUSER
		attributes.UidMappings = []syscall.SysProcIDMap{{ContainerID: imageUser, HostID: os.Getuid(), Size: 1}}
		attributes.GidMappings = []syscall.SysProcIDMap{{ContainerID: imageUser, HostID: os.Getgid(), Size: 1}}
		attributes.Credential.NoSetGroups = true
		if err := (&exec.Cmd{Path: "/usr/local/bin/tallygate", Args: []string{"tallygate", "version"}, SysProcAttr: attributes}).Run(); err != nil {
			t.Skipf("NOT TESTED: the image cannot be run: not root, and no user namespaces: %v", err)
		}
	}
	command := func(args ...string) *exec.Cmd {
		a := *attributes
		return &exec.Cmd{Path: args[0], Args: args, Env: config.Config.Env, Dir: config.Config.WorkingDir, SysProcAttr: &a}
	}

	control := freeAddress(t)
	// Unlike a container, the folder has no /proc, in which the service finds the program of its
	// background process.
	settings := []string{"TALLYGATE_CONTROL_ADDR=" + control, "TALLYGATE_DATA_ADDR=" + freeAddress(t), "TALLYGATE_PROCESSES=one"}
	cmd := command(append(slices.Clone(config.Config.Entrypoint), config.Config.Cmd...)...)
	cmd.Env = append(slices.Clone(cmd.Env), settings...)
	stop := startReady(t, cmd, control)

	health := command(config.Config.Healthcheck.Test[1:]...)
	health.Env = cmd.Env
	runCommand(t, health)
	stop()
}

// imageOf returns the image of an architecture from an OCI layout.
func imageOf(t *testing.T, folder, arch string) v1.Image {
	t.Helper()
	outer, err := layout.ImageIndexFromPath(folder)
	testkit.NoError(t, err)
	manifest, err := outer.IndexManifest()
	if err != nil || len(manifest.Manifests) != 1 {
		t.Fatalf("%+v, %v", manifest, err)
	}
	index, err := outer.ImageIndex(manifest.Manifests[0].Digest)
	testkit.NoError(t, err)
	images, err := index.IndexManifest()
	testkit.NoError(t, err)
	for _, descriptor := range images.Manifests {
		if descriptor.Platform.Architecture == arch {
			image, err := index.Image(descriptor.Digest)
			testkit.NoError(t, err)
			return image
		}
	}
	t.Fatalf("no image of %s in %+v", arch, images)
	return nil
}

// compareDockerfile checks that both forms of the image have the same settings.
func compareDockerfile(t *testing.T, dockerfile string, config v1.Config) {
	t.Helper()
	_, stage, _ := strings.Cut(dockerfile, "FROM scratch\n")
	stage = strings.ReplaceAll(stage, "\\\n", "")

	h := config.Healthcheck
	array := func(args []string) string { return fmt.Sprintf(`["%s"]`, strings.Join(args, `", "`)) }
	want := []string{
		"USER " + config.User, "WORKDIR " + config.WorkingDir, "STOPSIGNAL " + config.StopSignal, "EXPOSE 8080 8081", "VOLUME /data",
		"ENTRYPOINT " + array(config.Entrypoint), "CMD " + array(config.Cmd), "ENV " + strings.Join(config.Env[1:], " "),
		fmt.Sprintf("HEALTHCHECK --interval=%.0fs --timeout=%.0fs --start-period=%.0fs --retries=%d CMD %s",
			h.Interval.Seconds(), h.Timeout.Seconds(), h.StartPeriod.Seconds(), h.Retries, array(h.Test[1:])),
	}
	var got []string
	for line := range strings.Lines(stage) {
		if line = strings.Join(strings.Fields(line), " "); line != "" && line[0] != '#' && !strings.HasPrefix(line, "COPY ") {
			got = append(got, line)
		}
	}
	slices.Sort(want)
	slices.Sort(got)
	if !slices.Equal(got, want) || len(config.ExposedPorts) != 2 || len(config.Volumes) != 1 {
		t.Errorf("the Dockerfile and the image differ:\n%q\n%q", got, want)
	}
}

// unpack writes the files of all layers, with their owners if the test may.
func unpack(t *testing.T, image v1.Image, root string) {
	t.Helper()
	testkit.NoError(t, os.Chmod(root, 0o755))
	layers := mutate.Extract(image)
	defer layers.Close()
	for files := tar.NewReader(layers); ; {
		header, err := files.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		testkit.NoError(t, err)
		name := filepath.Join(root, header.Name)
		err = os.MkdirAll(filepath.Dir(name), 0o755)
		if header.Typeflag == tar.TypeDir {
			err = errors.Join(err, os.MkdirAll(name, 0o755))
		} else {
			data, readErr := io.ReadAll(files)
			err = errors.Join(err, readErr, os.WriteFile(name, data, 0o600))
		}
		if os.Getuid() == 0 {
			err = errors.Join(err, os.Lchown(name, header.Uid, header.Gid))
		}
		if err = errors.Join(err, os.Chmod(name, os.FileMode(header.Mode))); err != nil {
			t.Fatal(err)
		}
	}
}

// startReady starts a service and waits until it is ready. stop ends it, and checks that it ends
// well.
func startReady(t *testing.T, cmd *exec.Cmd, address string) (stop func()) {
	t.Helper()
	var log bytes.Buffer
	cmd.Stdout, cmd.Stderr = &log, &log
	cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
	runtime.LockOSThread()
	testkit.NoError(t, cmd.Start())
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	t.Cleanup(func() { _ = cmd.Process.Kill() })

	for deadline := time.Now().Add(patience); ; time.Sleep(50 * time.Millisecond) {
		response, err := http.Get("http://" + address + "/readyz")
		if err == nil {
			response.Body.Close()
			if response.StatusCode == http.StatusOK {
				break
			}
		}
		select {
		case err := <-ended:
			t.Fatalf("%q ended: %v\n%s", cmd.Args, err, log.String())
		default:
		}
		if time.Now().After(deadline) {
			t.Fatalf("%q is not ready: %v", cmd.Args, err)
		}
	}

	return func() {
		t.Helper()
		if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Error(err)
		}
		select {
		case err := <-ended:
			if err != nil {
				t.Errorf("%q: %v\n%s", cmd.Args, err, log.String())
			}
		case <-time.After(patience):
			t.Fatalf("%q does not stop", cmd.Args)
		}
	}
}

// testPackages installs, upgrades and removes both packages in a small Debian system.
func testPackages(t *testing.T, o options) {
	if os.Getuid() != 0 {
		t.Skip("NOT TESTED: packages are installed by root only")
	}
	if _, err := exec.LookPath("debootstrap"); err != nil {
		t.Skip("NOT TESTED: debootstrap, which makes a system for packages, is not installed")
	}

	// The second version, for this machine alone.
	next := o
	next.version, next.out = "v0.10.0", filepath.Join(t.TempDir(), "next")
	r, err := open(next)
	testkit.NoError(t, err)
	testkit.NoError(t, errors.Join(r.build(t.TempDir(), target{"linux", runtime.GOARCH}), r.packages()))

	root := filepath.Join(t.TempDir(), "root")
	if text, err := exec.Command("debootstrap", "--variant=minbase", "--include=systemd,ca-certificates", "stable", root).CombinedOutput(); err != nil {
		t.Skipf("NOT TESTED: debootstrap cannot make a system: %v\n%s", err, text[max(0, len(text)-500):])
	}
	// The service finds its own program in /proc, to start the background process.
	runCommand(t, exec.Command("mount", "-t", "proc", "proc", filepath.Join(root, "proc")))
	t.Cleanup(func() { runCommand(t, exec.Command("umount", filepath.Join(root, "proc"))) })
	s := &system{root: root, old: o, next: next}

	t.Run("deb", func(t *testing.T) {
		s.lifecycle(t, packager{
			pattern: "tallygate_*_" + runtime.GOARCH + ".deb",
			install: []string{"chroot", root, "dpkg", "--install"}, upgrade: []string{"chroot", root, "dpkg", "--install"},
			remove: []string{"chroot", root, "dpkg", "--remove", "tallygate"}, kept: "etc/tallygate/tallygate.env",
		})
		runCommand(t, exec.Command("chroot", root, "dpkg", "--purge", "tallygate"))
		for _, name := range []string{"etc/tallygate", "etc/systemd/system/multi-user.target.wants/tallygate.service",
			"etc/systemd/system/timers.target.wants/tallygate-backup.timer"} {
			if _, err := os.Lstat(filepath.Join(root, name)); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("%s exists after the purge: %v", name, err)
			}
		}
	})

	t.Run("rpm", func(t *testing.T) {
		if _, err := exec.LookPath("rpm"); err != nil {
			t.Skip("NOT TESTED: rpm is not installed")
		}
		if _, err := os.Stat(filepath.Join(root, "var/lib/tallygate")); err == nil {
			runCommand(t, exec.Command("chroot", root, "userdel", "tallygate"))
			runCommand(t, exec.Command("rm", "-r", filepath.Join(root, "var/lib/tallygate")))
		}
		// The system's own packages are not in rpm's database.
		rpm := []string{"rpm", "--root=" + root, "--nodeps"}
		arch := map[string]string{"amd64": "x86_64", "arm64": "aarch64"}[runtime.GOARCH]
		s.lifecycle(t, packager{
			pattern: "tallygate-*." + arch + ".rpm",
			install: append(slices.Clone(rpm), "-i"), upgrade: append(slices.Clone(rpm), "-U"),
			remove: append(slices.Clone(rpm), "-e", "tallygate"), kept: "etc/tallygate/tallygate.env.rpmsave",
		})
	})
}

// packager are the commands of a kind of package.
type packager struct {
	pattern                  string // of the file
	install, upgrade, remove []string
	kept                     string // the settings after a removal
}

// system is a Linux system in a folder. Its systemd does not run.
type system struct {
	root      string
	old, next options
}

// lifecycle installs the old version, configures and starts it, upgrades it, and removes it.
func (s *system) lifecycle(t *testing.T, p packager) {
	install := func(command []string, folder string) {
		t.Helper()
		files, err := filepath.Glob(filepath.Join(folder, p.pattern))
		if err != nil || len(files) != 1 {
			t.Fatalf("%s in %s: %q, %v", p.pattern, folder, files, err)
		}
		// A path that is the same inside and outside.
		runCommand(t, exec.Command("cp", files[0], s.root+"/tmp/"))
		inside := "/tmp/" + filepath.Base(files[0])
		if command[0] == "rpm" {
			inside = s.root + inside
		}
		runCommand(t, exec.Command(command[0], append(slices.Clone(command[1:]), inside)...))
	}
	install(p.install, s.old.out)

	// The state after the installation.
	uid := s.uid(t)
	for name, want := range map[string]string{
		"var/lib/tallygate": fmt.Sprintf("drwx------ %d", uid), "etc/tallygate/tallygate.env": "-rw------- 0",
		"usr/bin/tallygate": "-rwxr-xr-x 0", "usr/bin/tallygate-admin": "-rwxr-xr-x 0",
	} {
		info, err := os.Stat(filepath.Join(s.root, name))
		testkit.NoError(t, err)
		if got := fmt.Sprint(info.Mode(), " ", info.Sys().(*syscall.Stat_t).Uid); got != want {
			t.Errorf("%s is %s, want %s", name, got, want)
		}
	}
	if link, err := os.Readlink(filepath.Join(s.root, "etc/systemd/system/multi-user.target.wants/tallygate.service")); err != nil ||
		!strings.HasSuffix(link, "/usr/lib/systemd/system/tallygate.service") && !strings.HasSuffix(link, "/lib/systemd/system/tallygate.service") {
		t.Errorf("the service is not enabled: %q, %v", link, err)
	}
	if text := runCommand(t, exec.Command("chroot", s.root, "systemd-analyze", "verify", "--man=no", "tallygate.service",
		"tallygate-backup.timer")); strings.Contains(text, "tallygate") {
		t.Errorf("systemd-analyze verify: %s", text)
	}
	if s.unitCommand(t, "ExecCondition").Run() == nil {
		t.Error("the unit would start with the example's addresses")
	}

	// Configure.
	control, data := freeAddress(t), freeAddress(t)
	const file = "etc/tallygate/tallygate.env"
	edited := strings.NewReplacer("https://app.example.com", "\"http://"+control+"\"", "https://stats.example.com", "http://"+data).
		Replace(read(t, s.root, file)) + "TALLYGATE_CONTROL_ADDR=" + control + "\nTALLYGATE_DATA_ADDR='" + data + "'\n"
	testkit.NoError(t, os.WriteFile(filepath.Join(s.root, file), []byte(edited), 0o600))
	runCommand(t, s.unitCommand(t, "ExecCondition"))

	// An admin command before the first start, and one while the service runs.
	s.admin(t, "create-account", "owner@example.com", "--name", "First")
	stop := startReady(t, s.unitCommand(t, "ExecStart"), control)
	s.admin(t, "create-account", "second@example.com", "--name", "Second")
	s.admin(t, "health")
	wantVersion(t, s.admin(t, "version"), "v0.9.0", "")
	stop()

	install(p.upgrade, s.next.out)
	if now := read(t, s.root, file); now != edited {
		t.Errorf("the upgrade changed the settings:\n%s", now)
	}
	stop = startReady(t, s.unitCommand(t, "ExecStart"), control)
	wantVersion(t, s.admin(t, "version"), "v0.10.0", "")
	if accounts := s.admin(t, "accounts"); !strings.Contains(accounts, "First") || !strings.Contains(accounts, "Second") {
		t.Errorf("accounts after the upgrade:\n%s", accounts)
	}
	stop()

	runCommand(t, exec.Command(p.remove[0], p.remove[1:]...))
	if kept := read(t, s.root, p.kept); kept != edited {
		t.Errorf("the removal changed the settings:\n%s", kept)
	}
	if _, err := os.Stat(filepath.Join(s.root, "usr/bin/tallygate")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the program exists after the removal: %v", err)
	}
	if _, err := os.Stat(filepath.Join(s.root, "var/lib/tallygate/tallygate.sqlite")); err != nil {
		t.Errorf("the database after the removal: %v", err)
	}
}

// uid returns the id of the service's user.
func (s *system) uid(t *testing.T) int {
	t.Helper()
	match := regexp.MustCompile(`(?m)^tallygate:x:(\d+):(\d+):.*:/usr/sbin/nologin$`).FindStringSubmatch(read(t, s.root, "etc/passwd"))
	if match == nil || match[1] != match[2] {
		t.Fatalf("the user is %q", match)
	}
	uid, err := strconv.Atoi(match[1])
	testkit.NoError(t, err)
	return uid
}

// unitCommand returns a command of the unit, as systemd would run it: with its user and environment
// alone.
func (s *system) unitCommand(t *testing.T, name string) *exec.Cmd {
	t.Helper()
	unit := read(t, s.root, "usr/lib/systemd/system/tallygate.service")
	value := func(name string) string {
		t.Helper()
		match := regexp.MustCompile(`(?m)^` + name + `=(.*)$`).FindStringSubmatch(unit)
		if match == nil {
			t.Fatalf("the unit has no %s", name)
		}
		return match[1]
	}
	if value("User") != "tallygate" || strings.Contains(unit, "DynamicUser") {
		t.Errorf("the unit does not run as the package's user:\n%s", unit)
	}

	args := strings.Fields(value(name))
	if program, script, found := strings.Cut(value(name), " -c '"); found {
		args = []string{program, "-c", strings.ReplaceAll(strings.TrimSuffix(script, "'"), "$$", "$")}
	}
	environment := []string{"PATH=/usr/bin:/bin", value("Environment")}
	for line := range strings.Lines(read(t, s.root, value("EnvironmentFile"))) {
		if name, value, found := strings.Cut(strings.TrimSpace(line), "="); found && line[0] != '#' {
			environment = append(environment, name+"="+strings.Trim(value, `"'`))
		}
	}

	uid := uint32(s.uid(t))
	return &exec.Cmd{Path: args[0], Args: args, Env: environment, Dir: "/", SysProcAttr: &syscall.SysProcAttr{
		Chroot: s.root, Credential: &syscall.Credential{Uid: uid, Gid: uid},
	}}
}

// admin runs tallygate-admin with a misleading variable, and returns what it prints.
func (s *system) admin(t *testing.T, args ...string) string {
	t.Helper()
	cmd := exec.Command("chroot", append([]string{s.root, "/usr/bin/tallygate-admin"}, args...)...)
	cmd.Env = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "TALLYGATE_DATA_DIR=/nowhere", "TALLYGATE_DATABASE_URL=postgres://nowhere/x"}
	return runCommand(t, cmd)
}

// runCommand runs a command, and returns its output.
func runCommand(t *testing.T, cmd *exec.Cmd) string {
	t.Helper()
	text, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%q: %v\n%s", cmd.Args, err, text)
	}
	return string(text)
}

func read(t *testing.T, path ...string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(path...))
	testkit.NoError(t, err)
	return string(text)
}

// freeAddress returns an address of this machine that no process listens on.
func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	testkit.NoError(t, err)
	defer l.Close()
	return l.Addr().String()
}
