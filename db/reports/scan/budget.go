package scan

import (
	"errors"
	"sync/atomic"
	"time"

	"github.com/tallygate/tallygate/db/cputime"
)

// ErrBudget is returned for a report that needs more memory than its Budget.
var ErrBudget = errors.New("scan: the report needs more memory than its budget")

// Budget bounds the memory of the scanners that share it, and measures their processor time. Memory
// is counted where it grows: texts, buckets of tables, user ids, currencies. What one segment adds
// can exceed the bound, before the next check. It is safe for concurrent use. A nil Budget has no
// bound.
type Budget struct {
	most int64
	used atomic.Int64
	time cputime.Meter
}

// NewBudget returns a budget of so many bytes.
func NewBudget(bytes int64) *Budget { return &Budget{most: bytes} }

// Take counts bytes.
func (b *Budget) Take(bytes int) {
	if b != nil {
		b.used.Add(int64(bytes))
	}
}

// Used returns the bytes counted so far.
func (b *Budget) Used() int64 { return b.used.Load() }

// Begin begins work of this goroutine. Its processor time counts at the End of the span. The
// scanners measure the goroutines that they start.
func (b *Budget) Begin() cputime.Span {
	if b == nil {
		return cputime.Span{}
	}
	return b.time.Begin()
}

// Time returns the processor time counted so far, of spans that have ended.
func (b *Budget) Time() time.Duration { return b.time.Spent() }

// Err returns ErrBudget as soon as more bytes were counted than the budget has.
func (b *Budget) Err() error {
	if b != nil && b.used.Load() > b.most {
		return ErrBudget
	}
	return nil
}

// The memory of entries, in bytes.
const (
	textBytes     = 64  // of a numbered text, without its characters
	currencyBytes = 120 // of the revenue of a currency
	userBytes     = 48  // of a user id in a funnel
	valueBytes    = 80  // of a property's value that is counted, without its characters
)

// checkEvery is how many texts or events are counted between two looks at the context.
const checkEvery = 1 << 12

// err returns why the count must end: its context has ended, or its budget is used up.
func (s *Scanner) err() error {
	if err := s.ctx.Err(); err != nil {
		return err
	}
	return s.budget.Err()
}

// mustEnd reports whether the count must end, at the n-th of many steps. It looks at every
// checkEvery-th step.
func (s *Scanner) mustEnd(n int) bool { return n%checkEvery == checkEvery-1 && s.err() != nil }
