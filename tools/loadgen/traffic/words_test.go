package traffic

import (
	"testing"

	botrule "github.com/tallygate/tallygate/dataplane/bot"
)

// TestAgents checks that the service classifies the browsers' and the bots' user agents as such.
func TestAgents(t *testing.T) {
	for _, agent := range Agents {
		if botrule.Is(agent) {
			t.Errorf("%q counts as a bot", agent)
		}
	}

	for _, agent := range bots {
		if !botrule.Is(agent) {
			t.Errorf("%q does not count as a bot", agent)
		}
	}
}
