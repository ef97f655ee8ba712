package model

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// The names of the counters of a sitekey and day, in addition to those of CaptchaRefusal and
// CaptchaWork.
const (
	CaptchaChallenge = "challenge" // issued
	CaptchaSolved    = "solved"    // exchanged for a token
	CaptchaVerified  = "verified"  // tokens that were redeemed as valid
)

const (
	refusalPrefix = "refused "
	workPrefix    = "work "
)

// The codes of tokens that were redeemed and are not valid. They need no action of the owner.
const (
	RefusedToken     = "invalid_token" // forged, or of another sitekey
	RefusedUsedToken = "used_token"    // redeemed before, or expired
)

// CaptchaRefusal names the counter of calls of an endpoint that were refused with a code.
func CaptchaRefusal(endpoint, code string) string { return refusalPrefix + endpoint + " " + code }

// The buckets of work times: a quarter of a power of two wide, from 16 ms to 10 minutes.
const (
	workBuckets  = 64
	workPerPower = 4
	leastWork    = 16 * time.Millisecond
)

// workNames are the names of the counters of work times.
var workNames = func() (names [workBuckets]string) {
	for i := range names {
		names[i] = workPrefix + strconv.Itoa(i)
	}
	return names
}()

// CaptchaWork names the counter of a time from the issue of a challenge to its solution. Times differ
// by less than a fifth within one counter.
func CaptchaWork(d time.Duration) string {
	if d <= leastWork {
		return workNames[0]
	}
	bucket := int(math.Log2(float64(d)/float64(leastWork)) * workPerPower)
	return workNames[min(bucket, workBuckets-1)]
}

// workOf returns the middle of a bucket, in proportion.
func workOf(bucket int) time.Duration {
	return time.Duration(float64(leastWork) * math.Exp2((float64(bucket)+0.5)/workPerPower))
}

// CaptchaActivity is what happened with a sitekey on a UTC day.
type CaptchaActivity struct {
	Day                          Day
	Challenges, Solved, Verified int64
	MedianWork                   time.Duration     // within a tenth; 0 without a solution
	Refusals                     []CaptchaRefusals // by endpoint and code
}

// CaptchaRefusals is the number of calls of an endpoint that were refused with a code.
type CaptchaRefusals struct {
	Endpoint, Code string
	Count          int64
}

// NewCaptchaActivity returns the activity of a day from its counters. It ignores counters that it does
// not know.
func NewCaptchaActivity(day Day, counts map[string]int64) *CaptchaActivity {
	a := &CaptchaActivity{
		Day: day, Challenges: counts[CaptchaChallenge], Solved: counts[CaptchaSolved], Verified: counts[CaptchaVerified],
	}

	var work [workBuckets]int64
	for name, count := range counts {
		if refusal, ok := strings.CutPrefix(name, refusalPrefix); ok {
			if endpoint, code, ok := strings.Cut(refusal, " "); ok {
				a.Refusals = append(a.Refusals, CaptchaRefusals{endpoint, code, count})
			}
		}
		if number, ok := strings.CutPrefix(name, workPrefix); ok {
			if bucket, err := strconv.Atoi(number); err == nil && bucket >= 0 && bucket < workBuckets {
				work[bucket] += count
			}
		}
	}

	slices.SortFunc(a.Refusals, func(x, y CaptchaRefusals) int {
		return cmp.Or(cmp.Compare(x.Endpoint, y.Endpoint), cmp.Compare(x.Code, y.Code))
	})
	a.MedianWork = median(work[:])

	return a
}

// median returns the middle of the bucket that contains the lower median; 0 without any count.
func median(work []int64) time.Duration {
	var all, seen int64
	for _, count := range work {
		all += count
	}

	for bucket, count := range work {
		if seen += count; seen > 0 && seen*2 >= all {
			return workOf(bucket)
		}
	}

	return 0
}

// IsCaptchaNoise reports whether refusals with this code are the captcha's purpose and need no action
// of the owner: forged, repeated and late work and tokens.
func IsCaptchaNoise(code string) bool { return captchaNoise[code] }

var captchaNoise = map[string]bool{
	RefusedToken: true, RefusedUsedToken: true, "invalid_work": true, "too_many_challenges": true,
}

// CaptchaAdvice returns one sentence for the owner of a sitekey: what to do about calls that were
// refused with this code (captcha contract, section 7).
func CaptchaAdvice(code string) string {
	if advice, ok := captchaAdvice[code]; ok {
		return advice
	}
	return "Calls were refused for this reason; see the reference of the endpoint."
}

var captchaAdvice = map[string]string{
	"domain_not_allowed":  "The widget is on a domain that the sitekey is not bound to: add the domain if it is yours.",
	"wrong_secret":        "A server sent another secret: use the current one, or rotate it if it was not your server.",
	"missing_field":       "A field was missing or had the wrong type: correct the program that makes the call.",
	"quota_exceeded":      "The month's verifications are used up: choose a larger plan, or wait for the next month.",
	"unavailable":         "The service was temporarily unavailable: nothing to do.",
	"too_many_challenges": "One network asked for more challenges than people need: nothing to do.",
	"invalid_work":        "These solutions were wrong, late or repeated: nothing to do.",
	RefusedToken:          "These tokens were forged or belong to another sitekey: nothing to do, or use one sitekey for a form.",
	RefusedUsedToken:      "These tokens were redeemed twice or too late: nothing to do, or redeem each token once.",
}
