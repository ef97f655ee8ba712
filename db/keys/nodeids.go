package keys

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"

	"github.com/tallygate/tallygate/db/model"
)

// nodeIDSetting names the random key of all global ids.
const nodeIDSetting = "node_id_key"

// NodeIDs returns how the rows of this database are named outside. The key is random and stored in
// the database by the first process that asks, so that ids outlive restarts and a change of the
// application key: scripts store them.
func (s *Store) NodeIDs(ctx context.Context) (*model.NodeIDs, error) {
	if ids := s.nodeIDs.Load(); ids != nil {
		return ids, nil
	}

	var key [model.NodeIDKeySize]byte

	// never fails
	rand.Read(key[:])
	stored, err := s.db.Setting(ctx, nodeIDSetting, hex.EncodeToString(key[:]))
	if err != nil {
		return nil, fmt.Errorf("key of ids: %w", err)
	}

	ids, err := model.NewNodeIDs(stored)
	if err != nil {
		return nil, fmt.Errorf("setting %s: %w", nodeIDSetting, err)
	}

	s.nodeIDs.Store(ids)
	return ids, nil
}
