package test

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"

	"github.com/tallygate/tallygate/tools/testkit"
)

// TestDeployKubernetesNetwork: the network policy selects the pods of all deployments, opens
// exactly the ports on which they listen, and none of them to the whole cluster.
func TestDeployKubernetesNetwork(t *testing.T) {
	var policy struct {
		Spec struct {
			PodSelector struct {
				MatchLabels map[string]string `yaml:"matchLabels"`
			} `yaml:"podSelector"`
			Ingress []struct {
				From  []map[string]any
				Ports []struct{ Port int }
			}
		}
	}
	testkit.NoError(t, yaml.Unmarshal([]byte(readDeploy(t, "kubernetes/networkpolicy.yaml")), &policy))

	open := map[int]bool{}
	for i, rule := range policy.Spec.Ingress {
		if len(rule.From) == 0 || len(rule.Ports) == 0 {
			t.Errorf("rule %d is open to every pod, or opens every port", i)
		}
		for _, port := range rule.Ports {
			open[port.Port] = true
		}
	}

	want := map[int]bool{}
	for document := range strings.SplitSeq(readDeploy(t, "kubernetes/tallygate.yaml"), "\n---\n") {
		var m manifest
		var labels struct {
			Metadata struct{ Labels map[string]string }
		}
		for _, object := range []any{&m, &labels} {
			testkit.NoError(t, yaml.Unmarshal([]byte(document), object))
		}

		if address := m.Data["TALLYGATE_METRICS_ADDR"]; address != "" {
			port, err := strconv.Atoi(strings.TrimPrefix(address, ":"))
			testkit.NoError(t, err)
			want[port] = true
		}
		if m.Kind != "Deployment" {
			continue
		}

		for name, value := range policy.Spec.PodSelector.MatchLabels {
			testkit.Equal(t, labels.Metadata.Labels[name], value, "the policy does not select the pods of %s", m.Metadata.Name)
		}
		for _, port := range m.Spec.Template.Spec.Containers[0].Ports {
			want[port.ContainerPort] = true
		}
	}

	if got := slices.Sorted(maps.Keys(open)); !slices.Equal(got, slices.Sorted(maps.Keys(want))) {
		t.Errorf("the policy opens the ports %v, the pods listen on %v", got, slices.Sorted(maps.Keys(want)))
	}
}
