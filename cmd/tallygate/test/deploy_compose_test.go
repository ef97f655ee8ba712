package test

import (
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/goccy/go-yaml"

	"github.com/tallygate/tallygate/tools/dbtest"
	"github.com/tallygate/tallygate/tools/testkit"
	"github.com/tallygate/tallygate/web"
)

// composeFile is what the tests read of a Compose file.
type composeFile struct {
	Services map[string]composeService
	Networks map[string]struct {
		IPAM struct{ Config []struct{ Gateway string } }
	}
}

type composeService struct {
	Image       string
	Command     []string
	Environment map[string]string
	ReadOnly    bool     `yaml:"read_only"`
	CapDrop     []string `yaml:"cap_drop"`
	Networks    map[string]struct {
		IPv4 string `yaml:"ipv4_address"`
		IPv6 string `yaml:"ipv6_address"`
	}
}

// readCompose reads a Compose file with the given values of its variables.
func readCompose(t *testing.T, name string, variables map[string]string) composeFile {
	t.Helper()

	text := regexp.MustCompile(`\$\{(\w+):[?-][^}]*\}`).ReplaceAllStringFunc(readDeploy(t, name), func(found string) string {
		return variables[regexp.MustCompile(`\w+`).FindString(found)]
	})
	var file composeFile
	testkit.NoError(t, yaml.Unmarshal([]byte(text), &file))

	example := readDeploy(t, "compose/env.example")
	for variable := range variables {
		if !regexp.MustCompile(`(?m)^` + variable + `=`).MatchString(example) {
			t.Errorf("env.example does not name %s", variable)
		}
	}

	for name, service := range file.Services {
		if service.Image != "tallygate" {
			continue
		}
		if !service.ReadOnly || len(service.CapDrop) != 1 || service.CapDrop[0] != "ALL" {
			t.Errorf("service %s: %+v", name, service)
		}
	}

	return file
}

// TestDeployComposeClients: the networks of the Compose files let the service recognise visitors
// over IPv4 and IPv6, believe Caddy alone, and notice visitors that Docker hides.
func TestDeployComposeClients(t *testing.T) {
	t.Parallel()

	for _, name := range []string{"one-node", "cluster"} {
		file := readCompose(t, "compose/"+name+".yaml", nil)
		caddy, pools := file.Services["caddy"].Networks["default"], file.Networks["default"].IPAM.Config
		for _, service := range file.Services {
			trusted := service.Environment["TALLYGATE_TRUSTED_PROXIES"]
			if trusted == "" {
				continue
			}

			var proxies []netip.Prefix
			for address := range strings.SplitSeq(trusted, ",") {
				parsed := netip.MustParseAddr(address)
				proxies = append(proxies, netip.PrefixFrom(parsed, parsed.BitLen()))
			}
			for _, test := range []struct {
				peer, forwarded, want string
				isShared              bool
			}{
				{caddy.IPv4, "203.0.113.9", "203.0.113.9", false},
				{caddy.IPv6, "2001:db8::9", "2001:db8::9", false},
				{caddy.IPv6, "198.51.100.1, 203.0.113.9", "203.0.113.9", false},
				{caddy.IPv4, pools[0].Gateway, pools[0].Gateway, true},
				{caddy.IPv6, pools[1].Gateway, pools[1].Gateway, true},
				// Another container of the network is no proxy.
				{strings.TrimSuffix(caddy.IPv4, ".2") + ".130", "203.0.113.9", strings.TrimSuffix(caddy.IPv4, ".2") + ".130", true},
			} {
				request := httptest.NewRequest(http.MethodPost, "/collect.php", nil)
				request.RemoteAddr = net.JoinHostPort(test.peer, "4711")
				request.Header.Set("X-Forwarded-For", test.forwarded)
				clients := web.NewClients(proxies, slog.New(slog.DiscardHandler), time.Now)
				if got := clients.Addr(request).String(); got != test.want || clients.Shared(request) != test.isShared {
					t.Errorf("%s: %s for %s: %s, shared: %v", name, test.peer, test.forwarded, got, clients.Shared(request))
				}
			}
		}
	}
}

// TestDeployComposeOneNode: the service and Caddy, with the file's environment, store a hit.
func TestDeployComposeOneNode(t *testing.T) {
	testkit.SkipLong(t, "the files of deploy")
	t.Parallel()

	file := readCompose(t, "compose/one-node.yaml", map[string]string{"APP_HOST": "app.example.com", "STATS_HOST": "stats.example.com"})
	service := file.Services["tallygate"]
	controlNode, dataNode := dbtest.FreeAddress(t), dbtest.FreeAddress(t)
	control, data := caddy(t, "compose/one-node.Caddyfile", map[string]string{"tallygate:8080": controlNode, "tallygate:8081": dataNode})

	settings := overTest(service.Environment, strings.TrimPrefix(control, "http://"), strings.TrimPrefix(data, "http://"))
	settings["TALLYGATE_TRUSTED_PROXIES"] = "127.0.0.1"
	settings["TALLYGATE_DATA_DIR"] = filepath.Join(t.TempDir(), "data")
	settings["TALLYGATE_CONTROL_ADDR"], settings["TALLYGATE_DATA_ADDR"] = controlNode, dataNode
	start(t, settings, []string{"control", "data"}, service.Command...)
	wantFirstHit(t, control, data)

	// The service of backups makes the first copy at once, with the same environment.
	folder := t.TempDir()
	args := slices.Clone(file.Services["backup"].Command)
	args[slices.Index(args, "/backups")] = folder
	backup := newCommand(settings, args...)
	testkit.NoError(t, dbtest.StartBound(backup))
	testkit.Await(t, "a copy", func() bool {
		copies, err := filepath.Glob(filepath.Join(folder, "*.sqlite"))
		return err == nil && len(copies) == 1
	})
	_ = backup.Process.Signal(syscall.SIGTERM)
	if err := backup.Wait(); err != nil {
		t.Error(err)
	}

	if findings, status := (&installation{T: t, settings: settings}).examine(); status != 0 {
		t.Errorf("status %d, findings %q", status, findings)
	}
}
