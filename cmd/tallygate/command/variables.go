package command

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/tallygate/tallygate/cmd/commandline"
)

// variablePrefix is how the variables of all settings begin.
const variablePrefix = "TALLYGATE_"

// otherVariables match variables, with their values, that have the prefix and another purpose.
var otherVariables = []*regexp.Regexp{
	// Tests set them for their own processes, and programs that tests start inherit them.
	regexp.MustCompile(`^TALLYGATE_TEST_[A-Z_]+=`),

	// Scripts that call the API, such as docs/owner/configure-site.sh, read them.
	regexp.MustCompile(`^TALLYGATE_(URL|API_TOKEN)=`),

	// Kubernetes sets them in each container, for services with names such as tallygate and
	// tallygate-control.
	regexp.MustCompile(`^TALLYGATE_(\w+_)?SERVICE_(HOST|PORT(_\w+)?)=`),
	regexp.MustCompile(`^TALLYGATE_(\w+_)?PORT(_[0-9]+_(TCP|UDP|SCTP))?=(tcp|udp|sctp)://`),
	regexp.MustCompile(`^TALLYGATE_(\w+_)?PORT_[0-9]+_(TCP|UDP|SCTP)_(PROTO|PORT|ADDR)=`),
}

// unknownVariables returns a message, without the value, for each variable of the environment that
// looks like a setting and is not one. An empty variable counts as unset.
func unknownVariables(parser *commandline.Parser) []string {
	known := parser.Variables()

	var messages []string
	for _, variable := range os.Environ() {
		name, value, _ := strings.Cut(variable, "=")
		isOther := func(other *regexp.Regexp) bool { return other.MatchString(variable) }
		if value == "" || !strings.HasPrefix(name, variablePrefix) || slices.Contains(known, name) ||
			slices.ContainsFunc(otherVariables, isOther) {
			continue
		}
		messages = append(messages, describeUnknown(name, known))
	}

	slices.Sort(messages)
	return messages
}

// describeUnknown returns the message about a variable that is no setting.
func describeUnknown(name string, known []string) string {
	// The common prefix would make all names similar.
	short := make([]string, len(known))
	for i, setting := range known {
		short[i] = strings.TrimPrefix(setting, variablePrefix)
	}

	nearest := commandline.Nearest(strings.TrimPrefix(name, variablePrefix), short)
	if nearest == "" {
		return name + " is not a setting"
	}
	return fmt.Sprintf("%s is not a setting; did you mean %s%s?", name, variablePrefix, nearest)
}
