package alerts

import (
	"os"
	"testing"

	"github.com/tallygate/tallygate/tools/dbtest"
)

func TestMain(m *testing.M) { os.Exit(dbtest.RunByTurns(m)) }
