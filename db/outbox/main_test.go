package outbox_test

import (
	"fmt"
	"os"
	"testing"

	"github.com/tallygate/tallygate/tools/dbtest"
)

func TestMain(m *testing.M) {
	if instruction := os.Getenv(victimVariable); instruction != "" {
		fmt.Fprintln(os.Stderr, runVictim(instruction))
		os.Exit(1)
	}
	os.Exit(dbtest.Run(m))
}
