package background

import (
	"encoding/gob"
	"errors"
	"log/slog"
	"os"
	"testing"
	"time"

	"github.com/tallygate/tallygate/cmd/tallygate/config"
	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/tools/testkit"
)

// TestFollowRefusal checks that the parent learns which failures no further start cures.
func TestFollowRefusal(t *testing.T) {
	t.Parallel()
	for _, refused := range []bool{false, true} {
		reports, written, err := os.Pipe()
		testkit.NoError(t, err)
		child := &Parent{reports: gob.NewEncoder(written)}
		child.Fail("the key is wrong", refused)
		testkit.NoError(t, written.Close())

		failure, served := New(new(config.Config), time.Second, slog.Default()).follow(reports, func() {})
		_, isFailure := errors.AsType[*Failure](failure)
		_, isRefusal := errors.AsType[*db.Refusal](failure)
		if served || !isFailure || isRefusal != refused || failure.Error() != "the key is wrong" {
			t.Errorf("refused %t: %v, served %t", refused, failure, served)
		}
	}
}
