package model

import "math/rand/v2"

// idEpoch is 2020-01-01 00:00 UTC, so that time-based ids fit 63 bits until 2091.
const idEpoch = Instant(1_577_836_800_000_000)

// NewTimeID returns an id for a row of the given time: microseconds since 2020 in the upper 51
// bits, 12 random bits below. Such ids increase with time, which keeps their index dense and lets a
// table be partitioned by month.
func NewTimeID(at Instant) int64 { return FirstTimeID(at) | rand.Int64N(1<<12) }

// FirstTimeID returns the smallest id that NewTimeID returns for the given time.
func FirstTimeID(at Instant) int64 { return int64(at-idEpoch) << 12 }

// TimeOfID returns the time from which NewTimeID made an id.
func TimeOfID(id int64) Instant { return Instant(id>>12) + idEpoch }
