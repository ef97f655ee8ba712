package dbtest

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"strconv"
	"testing"

	"github.com/peterldowns/pgtestdb"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/model"
)

// slotsVariable is into how many slots the usage of each new site is divided, in databases of
// PostgreSQL. Tests that expect one usage row for a site fail then.
const slotsVariable = "TALLYGATE_TEST_SLOTS"

// withSlots returns the migrator of a template whose new sites have the slots that the variable demands.
func withSlots(tb testing.TB, m pgtestdb.Migrator) pgtestdb.Migrator {
	tb.Helper()
	value := os.Getenv(slotsVariable)
	if value == "" {
		return m
	}

	slots, err := strconv.Atoi(value)
	if err != nil || slots < 1 || slots > model.MaxUsageSlots {
		tb.Fatalf("%s is %q, which is not a number of slots", slotsVariable, value)
	}
	return slotsMigrator{m, slots}
}

type slotsMigrator struct {
	pgtestdb.Migrator
	slots int
}

func (m slotsMigrator) Hash() (string, error) {
	hash, err := m.Migrator.Hash()
	return fmt.Sprintf("%s_slots_%d", hash, m.slots), err
}

// Migrate adds a trigger, because the product creates sites with one slot.
func (m slotsMigrator) Migrate(ctx context.Context, pool *sql.DB, conf pgtestdb.Config) error {
	if err := m.Migrator.Migrate(ctx, pool, conf); err != nil {
		return err
	}

	d, err := db.Open(conf.URL())
	if err != nil {
		return err
	}
	for _, statement := range []string{
		`CREATE FUNCTION divide_usage() RETURNS trigger LANGUAGE plpgsql AS
		$$ BEGIN NEW.usage_slots := ` + strconv.Itoa(m.slots) + `; RETURN NEW; END $$`,
		"CREATE TRIGGER divide_usage BEFORE INSERT ON sites FOR EACH ROW EXECUTE FUNCTION divide_usage()",
	} {
		if err == nil {
			_, err = d.Write.ExecContext(ctx, statement)
		}
	}
	return errors.Join(err, d.Close())
}
