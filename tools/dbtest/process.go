package dbtest

import (
	"os/exec"
	"testing"

	"github.com/tallygate/tallygate/tools/pgserver"
	"github.com/tallygate/tallygate/tools/testkit"
)

// StartBound starts a command that ends with this process, see pgserver.StartBound.
func StartBound(cmd *exec.Cmd) error { return pgserver.StartBound(cmd) }

// FreeAddress returns host:port of 127.0.0.1 on which no process listens.
func FreeAddress(tb testing.TB) string {
	tb.Helper()
	address, err := pgserver.FreeAddress()
	testkit.NoError(tb, err)
	return address
}
