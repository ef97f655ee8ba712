package test

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"

	"github.com/tallygate/tallygate/tools/testkit"
)

// composeFile is what the tests read of a Compose file.
type composeFile struct {
	Services map[string]composeService
	Networks map[string]struct {
		IPAM struct{ Config []struct{ Subnet string } }
	}
}

type composeService struct {
	Image       string
	Command     []string
	Environment map[string]string
	Volumes     []string
	ReadOnly    bool     `yaml:"read_only"`
	CapDrop     []string `yaml:"cap_drop"`
}

// readCompose reads a Compose file with the given values of its variables.
func readCompose(t *testing.T, name string, variables map[string]string) composeFile {
	t.Helper()

	text := regexp.MustCompile(`\$\{(\w+):[?-][^}]*\}`).ReplaceAllStringFunc(readDeploy(t, name), func(found string) string {
		return variables[regexp.MustCompile(`\w+`).FindString(found)]
	})
	var file composeFile
	if err := yaml.Unmarshal([]byte(text), &file); err != nil {
		t.Fatal(err)
	}

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
		if got := service.Environment["TALLYGATE_TRUSTED_PROXIES"]; got != file.Networks["default"].IPAM.Config[0].Subnet {
			t.Errorf("service %s trusts %s, and the proxy is in %+v", name, got, file.Networks)
		}
	}

	return file
}

// TestDeployComposeOneNode: the service and Caddy, with the file's environment, store a hit.
func TestDeployComposeOneNode(t *testing.T) {
	testkit.SkipLong(t, "the files of deploy")
	t.Parallel()

	file := readCompose(t, "compose/one-node.yaml", map[string]string{"APP_HOST": "app.example.com", "STATS_HOST": "stats.example.com", "SMTP_URL": "", "MAIL_FROM": ""})
	service := file.Services["tallygate"]
	controlNode, dataNode := freeAddress(t), freeAddress(t)
	control, data := caddy(t, "compose/one-node.Caddyfile", map[string]string{"tallygate:8080": controlNode, "tallygate:8081": dataNode})

	settings := overTest(service.Environment, strings.TrimPrefix(control, "http://"), strings.TrimPrefix(data, "http://"))
	settings["TALLYGATE_TRUSTED_PROXIES"] = "127.0.0.1"
	settings["TALLYGATE_DATA_DIR"] = filepath.Join(t.TempDir(), "data")
	settings["TALLYGATE_CONTROL_ADDR"], settings["TALLYGATE_DATA_ADDR"] = controlNode, dataNode
	start(t, settings, []string{"control", "data"}, service.Command...)
	wantFirstHit(t, control, data)

	if findings, status := (&installation{T: t, settings: settings}).examine(); status != 0 {
		t.Errorf("status %d, findings %q", status, findings)
	}
}
