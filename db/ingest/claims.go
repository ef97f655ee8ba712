package ingest

import (
	"slices"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/model"
)

// ClaimKeys contains the keys that a batch of captcha claims reads and claims. Each list is sorted
// and has no duplicates, so that all writers lock in one order.
type ClaimKeys struct {
	Usage    []model.CaptchaUsageKey
	Consumed []model.ConsumedKey

	// Elsewhere contains the keys that are claimed in other cells, in the order of the cells'
	// numbers. After the transfer of a sitekey its challenges and tokens are claimed in the cell of
	// its first account, see model.Sitekey.Claims.
	Elsewhere []ClaimsInCell
}

// ClaimsInCell are the claims of a batch in another cell than its own.
type ClaimsInCell struct {
	Cell     int64
	Schema   string // see db.Cell.QuotedSchema
	Consumed []model.ConsumedKey
}

// ClaimState holds the rows that a batch read and claimed under its locks.
type ClaimState struct {
	Usage   map[model.CaptchaUsageKey]model.CaptchaUsage // no entry: the account is in another cell, moved to one, or deleted
	Claimed map[model.ConsumedKey]bool                   // this batch is the first to claim it

	// Astray are the keys that nothing can claim in the cell where the batch tried: their account
	// was or is being moved to another cell, or deleted.
	Astray map[model.ConsumedKey]bool
}

// ClaimChanges are the writes of a batch.
type ClaimChanges struct {
	Release []model.ConsumedKey // claimed by this batch but not consumed; sorted
	Usage   map[model.CaptchaUsageKey]model.CaptchaUsage
	Notices []QuotaNotice
}

// QuotaNotice records that an account reached a threshold of its captcha quota in a month. It
// becomes a row of quota_notices unless that row exists.
type QuotaNotice struct {
	model.CaptchaUsageKey
	Threshold int   // percent: 80 or 100
	Quota     int64 // the threshold's
	CreatedAt model.Instant
}

// claims are the statements of a batch of claims.
type claims struct {
	cell   int64
	others map[string]claimStatements // by schema
}

// in returns the statements for a schema.
func (c *claims) in(schema string) claimStatements {
	s, known := c.others[schema]
	if !known {
		s = newClaimStatements(schema + ".")
		c.others[schema] = s
	}
	return s
}

// needsCommon reports whether a batch claims in the default cell. Its tables are local to the
// coordinator of Citus. Each worker can use the tables of all other cells.
func (*claims) needsCommon(keys ClaimKeys) bool {
	return len(keys.Elsewhere) > 0 && keys.Elsewhere[0].Cell == db.DefaultCell
}

func (c *claims) read(keys ClaimKeys) (*ClaimState, []step) {
	state := &ClaimState{
		Usage:   make(map[model.CaptchaUsageKey]model.CaptchaUsage, len(keys.Usage)),
		Claimed: make(map[model.ConsumedKey]bool, len(keys.Consumed)),
	}
	claimed := func(k *model.ConsumedKey) { state.Claimed[*k] = true }

	steps := []step{lockCaptchaUsage.rows(keys.Usage, func(k *model.CaptchaUsageKey, found *planUsage) {
		found.usage.Quota = found.plan.QuotaOrUnlimited()
		state.Usage[*k] = found.usage
	}, c.cell)}

	// All writers claim in the order of the cells.
	others := keys.Elsewhere
	for ; len(others) > 0 && others[0].Cell < c.cell; others = others[1:] {
		steps = append(steps, c.in(others[0].Schema).claim.rows(others[0].Consumed, claimed, others[0].Cell))
	}
	steps = append(steps, ownClaims.claim.rows(keys.Consumed, claimed, c.cell))
	for ; len(others) > 0; others = others[1:] {
		steps = append(steps, c.in(others[0].Schema).claim.rows(others[0].Consumed, claimed, others[0].Cell))
	}

	return state, steps
}

func (*claims) missing(keys ClaimKeys, state *ClaimState) bool {
	return len(state.Usage) < len(keys.Usage)
}

func (c *claims) add(keys ClaimKeys) []step { return []step{addCaptchaUsage.rows(keys.Usage, c.cell)} }

// complete reads whether the accounts of keys that were not claimed are in other cells. It reads
// after the claims. So a key that is not astray was consumed earlier.
func (c *claims) complete(keys ClaimKeys, state *ClaimState) (steps []step) {
	if len(state.Claimed) == len(keys.Consumed) && len(keys.Elsewhere) == 0 {
		return steps
	}

	state.Astray = make(map[model.ConsumedKey]bool)
	for _, in := range append(slices.Clone(keys.Elsewhere), ClaimsInCell{Cell: c.cell, Consumed: keys.Consumed}) {
		left := slices.DeleteFunc(slices.Clone(in.Consumed), func(k model.ConsumedKey) bool { return state.Claimed[k] })
		steps = append(steps, readAstray.rows(left, func(k *model.ConsumedKey, _ *struct{}) {
			state.Astray[*k] = true
		}, in.Cell))
	}

	return steps
}

func (c *claims) write(keys ClaimKeys, changes *ClaimChanges) []step {
	used := make([]accountUsed, 0, len(changes.Usage))
	for key, usage := range changes.Usage {
		used = append(used, accountUsed{key, usage})
	}

	steps := []step{ownClaims.release.rows(released(keys.Consumed, changes.Release))}
	for _, other := range keys.Elsewhere {
		steps = append(steps, c.in(other.Schema).release.rows(released(other.Consumed, changes.Release)))
	}
	return append(steps, setCaptchaUsage.rows(used), newNotices.rows(changes.Notices))
}

// released returns the keys of a cell that are released. Both lists are sorted.
func released(of, release []model.ConsumedKey) []model.ConsumedKey {
	return slices.DeleteFunc(slices.Clone(release), func(key model.ConsumedKey) bool {
		_, found := slices.BinarySearchFunc(of, key, model.ConsumedKey.Compare)
		return !found
	})
}
