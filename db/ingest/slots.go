package ingest

import (
	"slices"

	"github.com/tallygate/tallygate/db/model"
)

// A site with several slots has a usage row for each slot and month, so that batches with hits of
// different slots wait neither for each other's locks nor for each other's commits. The quota is
// leased to the slots: a batch may store hits up to the leases of the slots that it has locked. If
// these do not suffice, it begins again with the locks of all slots of the month, decides by the
// sum of their counts, and leases the remainder to all of them equally.
//
//   - The sum of the leases is below the next threshold of the quota (model.QuotaThresholds). So the
//     sum of the counts cannot exceed the quota, and the batch that reaches a threshold has all locks:
//     it sees that, and notes it in the row of the first slot.
//   - A lease is valid for one quota. After a change of the site's plan the next batch of each slot
//     needs all locks.
//   - When the quota is used up, each slot has the lease usedUp. A slot refuses hits only with that
//     lease or with all locks. So a refused hit costs one lookup, and no hit is refused while the
//     sum of the counts is below the quota.

// usedUp is the lease of every slot after the site's quota is used up.
const usedUp = -1

// limit returns the count up to which a slot may store.
func (u Usage) limit() int64 {
	if u.leaseQuota != u.Quota || u.lease == usedUp {
		return u.Used
	}
	return u.lease
}

// isUsedUp reports whether the lease of a slot states that the quota is used up.
func (u Usage) isUsedUp() bool { return u.leaseQuota == u.Quota && u.lease == usedUp }

// isUsedUp reports whether the quota of a month is used up.
func (h *hits) isUsedUp(state *HitState, key model.UsageKey, usage Usage) bool {
	if !usage.isSlot {
		return usage.Exhausted()
	}
	if sum, ok := state.Whole[key.First()]; ok {
		return sum.Used >= sum.Quota
	}
	return usage.isUsedUp()
}

// wholeMonth is a month of a site with all slots locked by the batch.
type wholeMonth struct {
	quota int64
	used  map[int16]int64 // by slot, for slots with a row
}

// widen begins again with the locks of all slots of the months for which the leases do not suffice.
func (h *hits) widen(keys HitKeys, state *HitState) (*HitState, []step) {
	h.whole = nil
	for key, n := range keys.Counting {
		usage, ok := state.Usage[key]

		// More locks do not help after the quota is used up.
		if !ok || usage.isUsedUp() || usage.Used+n <= usage.limit() {
			continue
		}
		if h.whole == nil {
			h.whole = make(map[model.UsageKey]*wholeMonth)
		}
		h.whole[key.First()] = &wholeMonth{used: make(map[int16]int64, key.Slots)}
	}
	if h.whole == nil {
		return nil, nil
	}

	wide := newHitState(&keys)
	wide.Whole = make(map[model.UsageKey]Usage)
	lock := lockUsage.rows(h.withAllSlots(keys.Usage), func(k *model.UsageKey, u *Usage) {
		u.isSlot = k.Slots > 1
		h.addToWhole(wide, *k, *u)
		if _, named := slices.BinarySearchFunc(keys.Usage, *k, model.UsageKey.Compare); named {
			wide.Usage[*k] = *u
		}
	}, h.cell)
	return wide, append([]step{lock}, readHits(keys.without(h.exhausted), wide)...)
}

// addToWhole adds a slot to the sum of its month, if the batch locks all of the month's slots. A slot
// without a row has no hits, and gets a lease when it has one.
func (h *hits) addToWhole(state *HitState, key model.UsageKey, usage Usage) {
	month := h.whole[key.First()]
	if month == nil {
		return
	}
	month.quota, month.used[key.Slot] = usage.Quota, usage.Used

	sum := state.Whole[key.First()]
	sum.Used += usage.Used
	sum.Quota = usage.Quota
	if key.Slot == 0 {
		sum.Reached = usage.Reached
	}
	state.Whole[key.First()] = sum
}

// withAllSlots returns keys together with the keys of all slots of the whole months, sorted.
func (h *hits) withAllSlots(keys []model.UsageKey) []model.UsageKey {
	all := slices.Clone(keys)
	for key := range h.whole {
		for key.Slot = range key.Slots {
			all = append(all, key)
		}
	}

	slices.SortFunc(all, model.UsageKey.Compare)
	return slices.Compact(all)
}

// slotLease is the new lease of a slot.
type slotLease struct {
	key          model.UsageKey
	lease, quota int64
}

// leases divides the remaining quotas of the whole months among their slots.
func (h *hits) leases(changes *HitChanges) []slotLease {
	var all []slotLease
	for key, month := range h.whole {
		for key.Slot = range month.used {
			if used, counted := changes.Used[key]; counted {
				month.used[key.Slot] = used
			}
		}
		all = append(all, month.leases(key)...)
	}
	return all
}

// leases returns the leases of a month's slots.
func (m *wholeMonth) leases(key model.UsageKey) []slotLease {
	var sum int64
	for _, used := range m.used {
		sum += used
	}

	// The batch that reaches the threshold must have all locks.
	left := max(model.NextThreshold(sum, m.quota)-1-sum, 0)
	slots := int64(len(m.used))
	leases := make([]slotLease, 0, slots)
	for slot, used := range m.used {
		key.Slot = slot
		lease := slotLease{key: key, lease: used + left/slots, quota: m.quota}
		if int64(len(leases)) < left%slots {
			lease.lease++
		}
		if sum >= m.quota {
			lease.lease = usedUp
		}
		leases = append(leases, lease)
	}
	return leases
}
