package cells

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	"github.com/uptrace/bun"
)

// referenceTables are the common tables that statements join with those of a cell. Citus keeps a
// copy of them on each node, so that such a statement runs on the cell's node alone. Other tables
// stay on the coordinator.
var referenceTables = []string{"accounts", "sites", "deleted_sites", "quota_notices", "claim_spaces"}

// distributeCommon makes referenceTables reference tables of Citus, unless they are.
func (s *Store) distributeCommon(ctx context.Context) error {
	for _, table := range referenceTables {
		is, err := s.db.Read.NewSelect().Table("citus_tables").
			Where("table_name = ?::regclass AND citus_table_type = 'reference'", table).Exists(ctx)
		if err == nil && !is {
			_, err = s.db.Write.ExecContext(ctx, "SELECT create_reference_table(?)", table)
		}
		if err != nil {
			return fmt.Errorf("copy the table %s to all nodes: %w", bun.Ident(table), err)
		}
	}
	return nil
}

// LayoutHash identifies what Add creates. Only package dbtest calls it, to reuse a database with a
// cell.
func LayoutHash() string {
	h := sha256.Sum256(fmt.Append(nil, layout, referenceTables))
	return hex.EncodeToString(h[:4])
}
