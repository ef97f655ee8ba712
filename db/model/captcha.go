package model

import (
	"bytes"
	"cmp"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// CaptchaPlan is an account's captcha plan (captcha contract, section 8).
type CaptchaPlan string

// The captcha plans.
const (
	CaptchaPlanFree       CaptchaPlan = "FREE"
	CaptchaPlanPro100K    CaptchaPlan = "PRO_100K"
	CaptchaPlanPro250K    CaptchaPlan = "PRO_250K"
	CaptchaPlanPro500K    CaptchaPlan = "PRO_500K"
	CaptchaPlanPro1M      CaptchaPlan = "PRO_1M"
	CaptchaPlanEnterprise CaptchaPlan = "ENTERPRISE"
)

var captchaQuotas = map[CaptchaPlan]int64{
	CaptchaPlanFree:       10_000,
	CaptchaPlanPro100K:    100_000,
	CaptchaPlanPro250K:    250_000,
	CaptchaPlanPro500K:    500_000,
	CaptchaPlanPro1M:      1_000_000,
	CaptchaPlanEnterprise: Unlimited,
}

// Unlimited is the quota of a plan without a quota.
const Unlimited int64 = -1

// UnmarshalFlag reads a plan, and unlimited as Enterprise. It does not check that the plan exists.
func (p *CaptchaPlan) UnmarshalFlag(text string) error {
	*p = CaptchaPlan(planOf(text))
	return nil
}

// Quota returns how many verifications the plan includes in a UTC month, for all sitekeys of the
// account together, or Unlimited. It returns false for an unknown plan.
func (p CaptchaPlan) Quota() (int64, bool) {
	n, ok := captchaQuotas[p]
	return n, ok
}

// QuotaOrUnlimited returns the quota of a stored plan. A plan that this program does not know,
// because a newer version set it, counts as Unlimited: it must not stop the account's forms.
func (p CaptchaPlan) QuotaOrUnlimited() int64 {
	if quota, ok := p.Quota(); ok {
		return quota
	}
	return Unlimited
}

// CaptchaQuota is the monthly quota of a plan that has one.
type CaptchaQuota struct {
	Plan  CaptchaPlan
	Quota int64
}

// CaptchaQuotas returns the plans with a quota, smallest first.
func CaptchaQuotas() []CaptchaQuota {
	var quotas []CaptchaQuota
	for plan, quota := range captchaQuotas {
		if quota != Unlimited {
			quotas = append(quotas, CaptchaQuota{plan, quota})
		}
	}

	slices.SortFunc(quotas, func(a, b CaptchaQuota) int { return cmp.Compare(a.Quota, b.Quota) })
	return quotas
}

// CaptchaUsageKey names the verifications of an account in a UTC month.
type CaptchaUsageKey struct {
	AccountID AccountID
	Month     Month
}

// Compare orders by account, then month.
func (k CaptchaUsageKey) Compare(other CaptchaUsageKey) int {
	return cmp.Or(cmp.Compare(k.AccountID, other.AccountID), cmp.Compare(k.Month, other.Month))
}

// CaptchaUsage is how much of a month's quota an account has used.
type CaptchaUsage struct {
	Quota       int64   // of the account's plan now, or Unlimited
	Used        int64   // successful verifications, including the reserve's
	ReserveFrom Instant // time of the first verification after the quota; 0 before it
	OverQuota   int64   // the quota in force at ReserveFrom
	Noticed     int     // highest threshold in percent that Count has returned, of any quota; 0 before the first
}

// The reserve (captcha contract, section 3): a tenth of the quota, for at most 7 days from the
// first verification after the quota.
const (
	reserveShare  = 10
	ReservePeriod = 7 * 24 * time.Hour
)

// CaptchaStanding is the state of an account's quota when a genuine token is verified.
type CaptchaStanding uint8

// The states of the contract's quota table.
const (
	WithinQuota CaptchaStanding = iota
	InReserve
	Exhausted
)

// Standing returns the account's state at the given time, before the next verification is counted.
func (u *CaptchaUsage) Standing(at Instant) CaptchaStanding {
	switch {
	case u.Quota == Unlimited || u.Used < u.Quota:
		return WithinQuota
	case u.Used >= u.Quota+u.Reserve():
		return Exhausted
	case u.reserveBegan() && at >= u.ReserveFrom.Add(ReservePeriod):
		return Exhausted
	}

	return InReserve
}

// Reserve returns how many verifications are accepted after the quota. It is meaningless for an
// unlimited quota.
func (u *CaptchaUsage) Reserve() int64 { return u.Quota / reserveShare }

// reserveBegan reports whether verifications of the current quota's reserve were counted. A change
// of the plan starts a new reserve.
func (u *CaptchaUsage) reserveBegan() bool { return u.ReserveFrom != 0 && u.OverQuota == u.Quota }

// ReserveEnds returns the time from which the reserve is refused. It returns false if the reserve
// has not begun.
func (u *CaptchaUsage) ReserveEnds() (Instant, bool) {
	return u.ReserveFrom.Add(ReservePeriod), u.reserveBegan()
}

// Count counts a verification. It returns the highest threshold in percent that the verification
// reaches, or that a smaller quota reached before; else 0. After a change of the plan the
// thresholds of the new quota are returned as well. The caller must have checked Standing.
func (u *CaptchaUsage) Count(at Instant) (threshold int) {
	if u.Quota != Unlimited && u.Used >= u.Quota && !u.reserveBegan() {
		u.ReserveFrom, u.OverQuota = at, u.Quota
	}

	u.Used++
	if u.Quota == Unlimited {
		return 0
	}

	before, reached := int(QuotaReached(u.Used-1, u.Quota)), int(QuotaReached(u.Used, u.Quota))
	if reached <= before && reached <= u.Noticed {
		return 0
	}

	u.Noticed = max(u.Noticed, reached)
	return reached
}

// ConsumedRetention is how long a used challenge or token is stored after its issue. It exceeds the
// validity of both, with a margin for different clocks of processes.
const ConsumedRetention = time.Hour

// ConsumedKey identifies a used challenge or token. It includes the time of issue, so that rows are
// stored in the order of time. Time and id come from the signed text, and a sitekey's
// account here never changes, so that one challenge or token has one key.
type ConsumedKey struct {
	AccountID AccountID // see Sitekey.Claims; 0 for the test sitekey
	IssuedAt  Instant
	ID        [16]byte // random
}

// Compare orders by account, time of issue and id.
func (k ConsumedKey) Compare(other ConsumedKey) int {
	return cmp.Or(cmp.Compare(k.AccountID, other.AccountID), cmp.Compare(k.IssuedAt, other.IssuedAt),
		bytes.Compare(k.ID[:], other.ID[:]))
}

// Sitekey is a captcha sitekey with the secret that belongs to it (captcha contract, section 2).
// The secret itself is shown once and stored as a hash.
type Sitekey struct {
	ID         SitekeyID `bun:",pk,autoincrement"`
	AccountID  AccountID `bun:",notnull"`
	Sitekey    string    `bun:",notnull"` // public; see NewSitekey
	Name       string    `bun:",notnull"` // display name, 1 to 100 characters
	Domains    []string  `bun:",notnull"` // normalised, sorted; subdomains are implied; empty: valid on every domain
	SecretHash []byte    `bun:",notnull"` // SHA-256, see HashToken
	SecretHint string    `bun:",notnull"` // the last characters of the secret
	CreatedAt  Instant   `bun:",notnull"`

	// The secret that a rotation replaced and that is valid until a time; nil and 0 without such a
	// secret.
	OldSecretHash  []byte  `bun:",nullzero"` // SHA-256
	OldSecretHint  string  `bun:",nullzero"`
	OldSecretUntil Instant `bun:",nullzero"`

	Policy CaptchaPolicy `bun:",notnull"` // as JSON
	Attack CaptchaAttack `bun:",notnull"` // the last one, as JSON; processes change it

	ClaimSpace AccountID `bun:",notnull"` // see Claims; 0 before the first transfer

	// The rest is set only for the data plane.
	Suspended bool  `bun:",scanonly"` // the account is
	Cell      int64 `bun:",scanonly"` // of the account
	ClaimCell int64 `bun:",scanonly"` // stores the claims of challenges and tokens; Cell before the first transfer
}

// Claims returns the number under which the sitekey's consumed challenges and tokens are stored:
// the account that created it. A transfer to another account keeps the number, so that processes
// that have not heard of the transfer, and tokens from before it, meet the same rows.
func (k *Sitekey) Claims() AccountID {
	if k.ClaimSpace != 0 {
		return k.ClaimSpace
	}
	return k.AccountID
}

// Limits of sitekeys. The contract does not limit them.
const (
	MaxSitekeys       = 1_000 // of an account
	MaxSitekeyDomains = 50    // that a sitekey may be bound to
)

// CaptchaSecretPrefix is the prefix of every sitekey's secret, see NewSecret.
const CaptchaSecretPrefix = "svcc_"

const (
	sitekeyPrefix = "svck_"
	sitekeyRandom = 24 // base62 characters, 142 bits
)

// NewSitekey returns a public sitekey: "svck_" and 24 random base62 characters.
func NewSitekey() string { return sitekeyPrefix + randomBase62(sitekeyRandom) }

// IsSitekey reports whether s has the form of a sitekey.
func IsSitekey(s string) bool {
	random, ok := strings.CutPrefix(s, sitekeyPrefix)
	if !ok || len(random) != sitekeyRandom {
		return false
	}

	for i := range len(random) {
		if !isBase62(random[i]) {
			return false
		}
	}

	return true
}

// The test credentials (captcha contract, section 5), the same in every installation. The sitekey
// is valid on every domain and requires the real work; its tokens are accepted once like others and
// never count against a quota. No other secret accepts the sitekey's tokens. They must not be used
// in production: the secret is public.
const (
	TestSitekey       = "svck_TestTestTestTestTestTest"
	TestSitekeySecret = "svcc_TestTestTestTestTestTestTestTe0kP4So"
)

// The names of the counters of a sitekey and day, in addition to the counters of CaptchaRefusal and
// CaptchaWork.
const (
	CaptchaChallenge = "challenge" // issued
	CaptchaAutomated = "automated" // issued to a browser that says that it is automated
	CaptchaSolved    = "solved"    // exchanged for a token
	CaptchaRenewed   = "renewed"   // solved to replace a token that was about to expire
	CaptchaVerified  = "verified"  // tokens that were redeemed as valid
)

const (
	refusalPrefix = "refused "
	workPrefix    = "work "
)

// The codes of tokens that were redeemed and are not valid. They need no action of the owner.
const (
	RefusedToken        = "invalid_token" // forged
	RefusedForeignToken = "foreign_token" // of another sitekey
	RefusedUsedToken    = "used_token"    // redeemed before
	RefusedExpiredToken = "expired_token"
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

// CaptchaWork names the counter of a time from the issue of a challenge to its solution. Times
// differ by less than a fifth within one counter.
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
	Automated                    int64             // of Challenges
	Renewed                      int64             // of Solved
	MedianWork                   time.Duration     // within a tenth; 0 without a solution
	Refusals                     []CaptchaRefusals // by endpoint and code
}

// CaptchaRefusals is the number of calls of an endpoint that were refused with a code.
type CaptchaRefusals struct {
	Endpoint, Code string
	Count          int64
}

// NewCaptchaActivity returns the activity of a day from its counters. It ignores counters that it
// does not know.
func NewCaptchaActivity(day Day, counts map[string]int64) *CaptchaActivity {
	a := &CaptchaActivity{
		Day: day, Challenges: counts[CaptchaChallenge], Solved: counts[CaptchaSolved], Verified: counts[CaptchaVerified],
		Automated: counts[CaptchaAutomated], Renewed: counts[CaptchaRenewed],
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

// Unredeemed returns the number of tokens without any redemption. Tokens of the last minutes may
// still be redeemed.
func (a *CaptchaActivity) Unredeemed() int64 {
	late := int64(0)
	for _, refused := range a.Refusals {
		if refused.Code == RefusedExpiredToken {
			late += refused.Count
		}
	}
	return max(0, a.Solved-a.Renewed-a.Verified-late)
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

// IsCaptchaNoise reports whether refusals with this code are the captcha's purpose and need no
// action of the owner: forged, repeated and late work and tokens.
func IsCaptchaNoise(code string) bool { return captchaNoise[code] }

var captchaNoise = map[string]bool{
	RefusedToken: true, RefusedForeignToken: true, RefusedUsedToken: true, RefusedExpiredToken: true, "invalid_work": true, "too_many_challenges": true,
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
	RefusedSuspended:      "An operator has suspended the account: ask the operator of this installation.",
	"unavailable":         "The service was temporarily unavailable: nothing to do.",
	"too_many_challenges": "One network asked for more challenges than people need: nothing to do.",
	"invalid_work":        "These solutions were wrong, late or repeated: nothing to do.",
	RefusedToken:          "These tokens were forged: nothing to do.",
	RefusedForeignToken:   "These tokens belong to another sitekey: nothing to do, or use the form's own sitekey and secret.",
	RefusedUsedToken:      "These tokens were redeemed twice: nothing to do, or redeem each token once.",
	RefusedExpiredToken:   "These tokens were redeemed more than 5 minutes after the work: nothing to do.",
}
