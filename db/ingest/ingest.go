// Package ingest stores the data plane's rows: batches of hits, batches of captcha claims, the
// counts of rejected calls, and the salts of the days. The data plane calls it, jobs delete expired
// rows, and graph reads usage and counts.
//
// It decides nothing: the rules are functions of the data plane that a batch calls between reading
// and writing. Package tables describes the columns.
package ingest

import "github.com/tallygate/tallygate/db"

// Store reads and writes the data plane's rows. It is safe for concurrent use.
type Store struct {
	db *db.DB
}

// New returns the store of a database.
func New(d *db.DB) *Store { return &Store{db: d} }

// HitStore stores batches of hits.
type HitStore = Batches[HitKeys, HitState, HitChanges]

// HitStore returns a new writer of hits of the sites in the store's cell. The caller closes it.
func (s *Store) HitStore() *HitStore {
	return &HitStore{
		engine:     newEngine(s.db),
		statements: &hits{cell: s.db.CellID(), exhausted: make(map[usageKey]bool)},
	}
}

// ClaimStore claims challenges and tokens in batches.
type ClaimStore = Batches[ClaimKeys, ClaimState, ClaimChanges]

// ClaimStore returns a new writer of claims of the accounts in the store's cell. The caller closes it.
func (s *Store) ClaimStore() *ClaimStore {
	return &ClaimStore{
		engine:     newEngine(s.db),
		common:     newCommon(s.db),
		statements: &claims{cell: s.db.CellID(), others: make(map[string]claimStatements)},
	}
}
