// Package captcha drives the captcha of a running instance and checks that each token counts
// exactly once.
package captcha

import (
	"errors"
	"fmt"
	"io"

	"github.com/tallygate/tallygate/tools/loadgen/target"
)

// LapTokens is the largest number of challenges in flight (a benchmark uses three times as many).
// Challenges and tokens expire after five minutes, so they must all be used before.
const LapTokens = 20_000

// ErrFaults is the error of a run with a verdict other than OK, or with unexpected responses.
var ErrFaults = errors.New("tokens were lost, accepted twice or miscounted, none was accepted, or responses violated the contract")

// Verdict is the result of checking the challenges and tokens of a run.
type Verdict struct {
	Challenges int64    `json:"challenges"` // received
	Tokens     int64    `json:"tokens"`     // received for challenges
	Accepted   int64    `json:"accepted"`   // tokens
	Repeats    int64    `json:"repeats"`    // repeated tokens and challenges that were refused, as required
	Later      int64    `json:"later"`      // refused temporarily: over the quota, or too many challenges from one network
	Unknown    int64    `json:"unknown"`    // tokens without a conclusive response
	Doubled    int64    `json:"doubled"`    // fault: two successes with one challenge or token
	Lost       int64    `json:"lost"`       // fault: no success, although every attempt was answered
	Wrong      int64    `json:"wrong"`      // fault: the account's usage differs from the accepted tokens
	Details    []string `json:"details,omitempty"`
}

// OK reports whether tokens were accepted and no fault was found.
func (v *Verdict) OK() bool {
	return v.Accepted > 0 && v.Doubled == 0 && v.Lost == 0 && v.Wrong == 0
}

// fault counts a fault, and keeps the details of the first 20.
func (v *Verdict) fault(count *int64, format string, args ...any) {
	if *count++; len(v.Details) < 20 {
		v.Details = append(v.Details, fmt.Sprintf(format, args...))
	}
}

// Add adds another verdict's counts and details.
func (v *Verdict) Add(other *Verdict) {
	v.Challenges += other.Challenges
	v.Tokens += other.Tokens
	v.Accepted += other.Accepted
	v.Repeats += other.Repeats
	v.Later += other.Later
	v.Unknown += other.Unknown
	v.Doubled += other.Doubled
	v.Lost += other.Lost
	v.Wrong += other.Wrong
	v.Details = append(v.Details, other.Details...)
}

// Compare compares the account's usage with the accepted tokens. Tokens without a conclusive
// response may have been counted.
func (v *Verdict) Compare(before, after target.CaptchaUsage) {
	grown := after.Verifications - before.Verifications

	// A new month started between the two readings.
	if before.Period != after.Period {
		if grown = after.Verifications; grown > v.Accepted+v.Unknown {
			v.fault(&v.Wrong, "%d verifications are counted in %s, but only %d were accepted", grown, after.Period,
				v.Accepted)
		}

		return
	}

	if grown < v.Accepted || grown > v.Accepted+v.Unknown {
		v.fault(&v.Wrong, "%d verifications are counted, but %d were accepted and %d are unknown", grown, v.Accepted,
			v.Unknown)
	}
}

// Print writes the verdict for people.
func (v *Verdict) Print(w io.Writer) {
	fmt.Fprintf(w, "%d challenges, %d tokens, %d accepted; %d repeats refused, %d refused temporarily, %d without a conclusive response; %d doubled, %d lost, %d wrong\n",
		v.Challenges, v.Tokens, v.Accepted, v.Repeats, v.Later, v.Unknown, v.Doubled, v.Lost, v.Wrong)
	for _, detail := range v.Details {
		fmt.Fprintln(w, "fault:", detail)
	}
}
