package test

import (
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml"

	"github.com/tallygate/tallygate/tools/dbtest"
	"github.com/tallygate/tallygate/tools/testkit"
)

// manifest is what the tests read of a Kubernetes object.
type manifest struct {
	Kind     string
	Metadata struct{ Name string }
	Data     map[string]string
	Spec     struct {
		Template struct {
			Spec struct {
				TerminationGracePeriodSeconds int `yaml:"terminationGracePeriodSeconds"`
				Containers                    []struct {
					Args    []string
					Env     []manifestVariable
					EnvFrom []any `yaml:"envFrom"`
					Ports   []struct {
						Name          string
						ContainerPort int `yaml:"containerPort"`
					}
				}
			}
		}
	}
}

type manifestVariable struct {
	Name, Value string
	ValueFrom   struct {
		SecretKeyRef struct{ Name, Key string } `yaml:"secretKeyRef"`
	} `yaml:"valueFrom"`
}

// proxiesPlaceholder is in the place of the networks that only the operator knows.
const proxiesPlaceholder = "REPLACE-WITH-NETWORK-OF-PROXY-PODS,REPLACE-WITH-NETWORK-OF-NODES"

// TestDeployKubernetesPlaceholder: a container whose proxies were not named ends with a line that
// says what to replace.
func TestDeployKubernetesPlaceholder(t *testing.T) {
	t.Parallel()

	settings := settingsFor(t, "sqlite:")
	settings["TALLYGATE_TRUSTED_PROXIES"] = proxiesPlaceholder
	for _, roles := range []string{"control", "data", "worker"} {
		settings["TALLYGATE_ROLES"] = roles
		status, _, log := tallygate(t, settings, "serve")
		if status != 2 || !strings.Contains(log, "TALLYGATE_TRUSTED_PROXIES") || !strings.Contains(log, "REPLACE-WITH-NETWORK-OF-PROXY-PODS") {
			t.Errorf("%s: exit status %d, log %s", roles, status, log)
		}
	}
}

// TestDeployKubernetes: the containers of each deployment, with the manifests' arguments and
// environment, store a hit on PostgreSQL.
func TestDeployKubernetes(t *testing.T) {
	testkit.SkipLong(t, "the files of deploy")
	t.Parallel()

	database := onPostgres(t, startPostgres(t, true)).settings["TALLYGATE_DATABASE_URL"]
	secret := map[string]string{"database-url": database, "secret": "0123456789abcdef0123456789ABCDEF", "smtp-url": ""}
	control, data := dbtest.FreeAddress(t), dbtest.FreeAddress(t)

	var config map[string]string
	deployments := 0
	for document := range strings.SplitSeq(readDeploy(t, "kubernetes/tallygate.yaml"), "\n---\n") {
		var m manifest
		testkit.NoError(t, yaml.Unmarshal([]byte(document), &m))
		if m.Kind == "ConfigMap" {
			config = m.Data
			testkit.Equal(t, config["TALLYGATE_TRUSTED_PROXIES"], proxiesPlaceholder, "the manifest trusts")
			config["TALLYGATE_TRUSTED_PROXIES"] = "10.244.0.0/16,192.168.4.0/24"
		}
		if m.Kind != "Deployment" {
			continue
		}
		deployments++

		container := m.Spec.Template.Spec.Containers[0]
		settings := maps.Clone(config)
		for _, variable := range container.Env {
			settings[variable.Name] = variable.Value
			if key := variable.ValueFrom.SecretKeyRef.Key; key != "" {
				value, found := secret[key]
				if !found {
					t.Errorf("%s needs the key %s of the secret", m.Metadata.Name, key)
				}
				settings[variable.Name] = value
			}
		}

		delay, err := time.ParseDuration(settings["TALLYGATE_DRAIN_DELAY"])
		if grace := m.Spec.Template.Spec.TerminationGracePeriodSeconds; err != nil || time.Duration(grace)*time.Second < delay+30*time.Second {
			t.Errorf("%s: %d s to stop with a delay of %v, %v", m.Metadata.Name, grace, delay, err)
		}

		settings = overTest(settings, control, data)
		settings["TALLYGATE_DATA_DIR"] = filepath.Join(t.TempDir(), "unused")
		settings["TALLYGATE_CONTROL_ADDR"], settings["TALLYGATE_DATA_ADDR"] = control, data
		settings["TALLYGATE_METRICS_ADDR"], settings["TALLYGATE_REDIS_URL"] = dbtest.FreeAddress(t), ""
		settings["TALLYGATE_DRAIN_DELAY"] = "0s"
		listens := []string{"metrics"}
		if container.Ports[0].Name == "http" {
			listens = append(listens, m.Metadata.Name)
		}
		start(t, settings, listens, container.Args...)
		if _, err := os.Stat(settings["TALLYGATE_DATA_DIR"]); err == nil {
			t.Errorf("%s writes to its read-only file system", m.Metadata.Name)
		}
	}
	testkit.Require(t, deployments, 3, "deployments")

	wantFirstHit(t, "http://"+control, "http://"+data)
}
