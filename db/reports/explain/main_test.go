package explain_test

import (
	"os"
	"testing"

	"github.com/tallygate/tallygate/tools/dbtest"
)

func TestMain(m *testing.M) { os.Exit(dbtest.Run(m)) }
