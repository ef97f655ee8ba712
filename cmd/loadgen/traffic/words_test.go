package traffic

import (
	"testing"

	botrule "github.com/tallygate/tallygate/dataplane/analytics/bot"
)

// TestAgents: the service takes our browsers for browsers and our bots for bots.
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
