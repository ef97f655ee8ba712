package test

import (
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/tallygate/tallygate/tools/dbtest"
	"github.com/tallygate/tallygate/tools/testkit"
)

// caddy runs the shipped Caddyfile with other addresses: of its two sites, and of the nodes. It
// returns the sites' origins.
func caddy(t *testing.T, file string, nodes map[string]string) (control, data string) {
	t.Helper()

	program := requireTool(t, "caddy")
	text := readDeploy(t, file)
	for from, to := range nodes {
		if !strings.Contains(text, from) {
			t.Fatalf("%s has no node %s", file, from)
		}
		text = strings.ReplaceAll(text, from, to)
	}
	// Listeners apart from the names, which clients of the test cannot resolve.
	control, data = "http://"+dbtest.FreeAddress(t), "http://"+dbtest.FreeAddress(t)
	text = strings.ReplaceAll(text, "app.example.com", control)
	text = strings.ReplaceAll(text, "stats.example.com", data)
	if !strings.Contains(text, "admin off") {
		text = "{\n\tadmin off\n}\n" + text
	}

	dir := t.TempDir()
	config := writeFile(t, dir, "Caddyfile", text)
	cmd := caddyCommand(program, dir, config)
	cmd.Env = append(cmd.Env, "APP_HOST="+control, "STATS_HOST="+data)

	// The file as shipped.
	validate := exec.Command(program, "validate", "--adapter", "caddyfile", "--config", deployFolder+file)
	validate.Env = append(slices.Clip(cmd.Env), "APP_HOST=app.example.com", "STATS_HOST=stats.example.com")
	if out, err := validate.CombinedOutput(); err != nil {
		t.Fatalf("caddy validate: %v\n%s", err, out)
	}

	runProxy(t, strings.TrimPrefix(control, "http://"), cmd)
	awaitListeners(t, control, data)

	return control, data
}

// awaitListeners waits until each origin accepts connections.
func awaitListeners(t *testing.T, origins ...string) {
	t.Helper()
	for _, origin := range origins {
		testkit.AwaitState(t, "a listener at "+origin, func() (string, bool) {
			conn, err := net.Dial("tcp", strings.TrimPrefix(origin, "http://"))
			if err != nil {
				return err.Error(), false
			}
			return "", conn.Close() == nil
		})
	}
}

// TestDeployProxies: the shipped snippets of Caddy and nginx pass hits to one node.
func TestDeployProxies(t *testing.T) {
	testkit.SkipLong(t, "the files of deploy")
	t.Parallel()

	node := func(t *testing.T, control, data string) (string, string) {
		t.Helper()
		controlNode, dataNode := dbtest.FreeAddress(t), dbtest.FreeAddress(t)
		settings := overTest(settingsFor(t, "sqlite:"), control, data)
		settings["TALLYGATE_TRUSTED_PROXIES"] = "127.0.0.1"
		settings["TALLYGATE_CONTROL_ADDR"], settings["TALLYGATE_DATA_ADDR"] = controlNode, dataNode
		start(t, settings, []string{"control", "data"})
		return controlNode, dataNode
	}

	t.Run("caddy", func(t *testing.T) {
		controlNode, dataNode := node(t, "127.0.0.1", "127.0.0.1")
		control, data := caddy(t, "proxies/Caddyfile", map[string]string{"127.0.0.1:8080": controlNode, "127.0.0.1:8081": dataNode})
		wantFirstHit(t, control, data)
	})

	t.Run("nginx", func(t *testing.T) {
		program := requireTool(t, "nginx")
		controlNode, dataNode := node(t, "127.0.0.1", "127.0.0.1")
		control, data, redirect := dbtest.FreeAddress(t), dbtest.FreeAddress(t), dbtest.FreeAddress(t)
		dir := t.TempDir()
		writeCertificate(t, filepath.Join(dir, "both.pem"))

		text := readDeploy(t, "proxies/nginx.conf")
		if listens := strings.Count(text, "\tlisten [::]:"); listens != 3 {
			t.Errorf("nginx listens %d times on IPv6", listens)
		}
		text = regexp.MustCompile(`\tlisten \[::\]:.*\n`).ReplaceAllString(text, "")
		text = strings.Replace(text, "listen 443 ssl http2", "listen "+data, 1)
		text = strings.NewReplacer("listen 443 ssl http2", "listen "+control, "listen 80", "listen "+redirect,
			"127.0.0.1:8080", controlNode, "127.0.0.1:8081", dataNode, "stats.example.com", "127.0.0.1 stats.example.com",
			"app.example.com;", "127.0.0.1 app.example.com;",
			"/etc/letsencrypt/live/example.com/fullchain.pem", filepath.Join(dir, "both.pem"),
			"/etc/letsencrypt/live/example.com/privkey.pem", filepath.Join(dir, "both.pem")).Replace(text)
		writeFile(t, dir, "tallygate.conf", text)

		main := writeFile(t, dir, "nginx.conf", "events {}\nhttp {\n"+nginxFolders(dir)+"\tinclude "+dir+"/tallygate.conf;\n}\n")

		arguments := nginxArgs(dir, main)
		if out, err := exec.Command(program, append([]string{"-t"}, arguments...)...).CombinedOutput(); err != nil {
			t.Fatalf("nginx -t: %v\n%s", err, out)
		}
		runProxy(t, control, exec.Command(program, arguments...))
		awaitListeners(t, "http://"+control, "http://"+data)
		wantFirstHit(t, "http://"+control, "http://"+data)

		response, _ := exchange(t, stays, http.MethodGet, "http://"+redirect+"/x?y=z", "", nil)
		location := response.Header.Get("Location")
		if response.StatusCode != http.StatusMovedPermanently || !strings.HasSuffix(location, "/x?y=z") {
			t.Errorf("plain HTTP: %+v", response)
		}
	})
}

// nginxFolders are the settings that keep nginx's temporary files in a folder.
func nginxFolders(dir string) (lines string) {
	for _, module := range []string{"client_body", "proxy", "fastcgi", "uwsgi", "scgi"} {
		lines += "\t" + module + "_temp_path " + dir + ";\n"
	}
	return lines
}

// nginxArgs are the arguments that run nginx in the foreground, with its own files in a folder.
func nginxArgs(dir, file string) []string {
	return []string{"-p", dir, "-e", filepath.Join(dir, "error.log"), "-c", file,
		"-g", "daemon off; master_process off; pid " + filepath.Join(dir, "pid") + ";"}
}

// caddyCommand runs Caddy with a file, and with its own files in a folder.
func caddyCommand(program, dir, file string) *exec.Cmd {
	cmd := exec.Command(program, "run", "--adapter", "caddyfile", "--config", file)
	cmd.Env = append(os.Environ(), "HOME="+dir, "XDG_DATA_HOME="+dir, "XDG_CONFIG_HOME="+dir)
	return cmd
}
