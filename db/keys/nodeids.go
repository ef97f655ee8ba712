package keys

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"

	"github.com/tallygate/tallygate/db/nodeid"
)

// nodeIDSetting is the setting that holds the random key of all global ids.
const nodeIDSetting = "node_id_key"

// NodeIDs returns the global ids of this database's rows. The first call of any process creates
// their random key and stores it in the database, so that ids survive restarts and a rotation of
// the application key: clients store them.
func (s *Store) NodeIDs(ctx context.Context) (*nodeid.IDs, error) {
	if ids := s.nodeIDs.Load(); ids != nil {
		return ids, nil
	}

	var key [nodeid.KeySize]byte

	// rand.Read never fails.
	rand.Read(key[:])
	stored, err := s.db.Setting(ctx, nodeIDSetting, hex.EncodeToString(key[:]))
	if err != nil {
		return nil, fmt.Errorf("key of ids: %w", err)
	}

	ids, err := nodeid.New(stored)
	if err != nil {
		return nil, fmt.Errorf("setting %s: %w", nodeIDSetting, err)
	}

	s.nodeIDs.Store(ids)
	return ids, nil
}
