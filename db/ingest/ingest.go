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

// NewHitStore returns a new writer of hits of the sites in a cell. The caller closes it.
func NewHitStore(cell *db.Cell) *HitStore {
	return &HitStore{
		engine:     newEngine(cell),
		statements: &hits{cell: cell.ID, exhausted: make(map[usageKey]bool)},
	}
}

// ClaimStore claims challenges and tokens in batches.
type ClaimStore = Batches[ClaimKeys, ClaimState, ClaimChanges]

// NewClaimStore returns a new writer of claims of the accounts in a cell. The caller closes it.
func NewClaimStore(cell *db.Cell) *ClaimStore {
	return &ClaimStore{
		engine:     newEngine(cell),
		common:     newCommon(cell),
		statements: &claims{cell: cell.ID, others: make(map[string]claimStatements)},
	}
}
