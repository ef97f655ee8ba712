package model

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/netip"
	"slices"
	"time"
)

// PhoneRate is the rate of a mid-range phone, in hashes per millisecond. It is an estimate: a core
// of the machine of docs/operator/performance.md reaches 13,000 in Chromium, and a phone about a quarter of
// a desktop (docs/owner/captcha.md, "What the work costs").
const PhoneRate = 3_000

// WorkMS converts seconds of work to whole milliseconds; nil stays nil. Numbers that no policy
// accepts stay such numbers.
func WorkMS(seconds *float64) *int {
	if seconds == nil {
		return nil
	}

	ms := int(math.Round(max(-1, min(*seconds, MaxCaptchaWorkMS)) * 1000))
	if ms == 0 && *seconds != 0 {
		ms = -1
	}
	return &ms
}

// PhoneSeconds returns the median time of work on a mid-range phone, to the millisecond.
func PhoneSeconds(hashes uint32) float64 {
	return math.Round(float64(hashes)/PhoneRate) / 1000
}

// Limits of a captcha policy. The contract has no policies.
const (
	MinCaptchaWorkMS      = 1      // median on a mid-range phone
	MaxCaptchaWorkMS      = 60_000 // the same; see checkWork
	MaxFreeChallenges     = 1_000
	MaxExemptNetworks     = 50
	DefaultFreeChallenges = 8
)

// CaptchaAutomation is how a sitekey treats browsers that say that they are automated.
type CaptchaAutomation string

// The ways to treat automation.
const (
	AutomationHarder CaptchaAutomation = "HARDER" // much more work
	AutomationAllow  CaptchaAutomation = "ALLOW"  // like any browser
	AutomationLimit  CaptchaAutomation = "LIMIT"  // a few challenges, then 429
)

// CaptchaAttackMode is whether an attack on a sitekey makes all its challenges harder.
type CaptchaAttackMode string

// The attack modes.
const (
	AttackAuto CaptchaAttackMode = "AUTO" // while an attack is seen
	AttackOn   CaptchaAttackMode = "ON"   // always
	AttackOff  CaptchaAttackMode = "OFF"  // never
)

// CaptchaPolicy is the work that a sitekey asks for. It is stored as JSON. Zero values stand for
// the installation's settings and the first constant of each kind.
type CaptchaPolicy struct {
	BaseMS int `json:"baseMs,omitempty"` // median work on a mid-range phone, in milliseconds
	MaxMS  int `json:"maxMs,omitempty"`  // work that a network can reach, the same way

	// Free is the number of a network's challenges in ten minutes at the base.
	Free int `json:"free,omitempty"`

	Automation CaptchaAutomation `json:"automation,omitempty"`
	Strict     bool              `json:"strict,omitempty"` // missing headers count as automation, too
	AttackMode CaptchaAttackMode `json:"attackMode,omitempty"`

	// Exempt are the owner's own networks, for monitoring and tests: at the base, and without
	// limits.
	Exempt []netip.Prefix `json:"exempt,omitempty"`
}

// Base returns the base difficulty in expected hashes. installation is the one of the installation.
func (p *CaptchaPolicy) Base(installation uint32) uint32 {
	if p.BaseMS == 0 {
		return installation
	}
	return uint32(p.BaseMS * PhoneRate)
}

// Bounds of a challenge's difficulty, in expected hashes.
const (
	DefaultDifficulty = 1 << 19 // base of an installation
	UsualMostHashes   = 1 << 24 // that a network can reach without a policy
	HighestDifficulty = 1 << 28 // of any challenge; a desktop browser takes about 20 seconds
)

// Most returns the highest difficulty that a network can reach, for a base difficulty.
func (p *CaptchaPolicy) Most(base uint32) uint32 {
	if p.MaxMS != 0 {
		return max(base, uint32(p.MaxMS*PhoneRate))
	}
	return max(UsualMostHashes, min(8*base, MaxCaptchaWorkMS*PhoneRate))
}

// AttackOnLevel is the least level of attack mode ON.
const AttackOnLevel = 2

// AttackLevel returns the level that sets the difficulty, for the level of attack that is seen.
func (p *CaptchaPolicy) AttackLevel(seen int) int {
	switch p.AttackMode {
	case AttackOn:
		return max(AttackOnLevel, seen)
	case AttackOff:
		return 0
	}
	return seen
}

// FreeChallenges returns the number of a network's challenges in ten minutes at the base.
func (p *CaptchaPolicy) FreeChallenges() int {
	if p.Free == 0 {
		return DefaultFreeChallenges
	}
	return p.Free
}

// AutomationOrDefault returns how automation is treated.
func (p *CaptchaPolicy) AutomationOrDefault() CaptchaAutomation {
	if p.Automation == "" {
		return AutomationHarder
	}
	return p.Automation
}

// AttackModeOrDefault returns the attack mode.
func (p *CaptchaPolicy) AttackModeOrDefault() CaptchaAttackMode {
	if p.AttackMode == "" {
		return AttackAuto
	}
	return p.AttackMode
}

// Exempts reports whether an address is in a network of the owner's own.
func (p *CaptchaPolicy) Exempts(addr netip.Addr) bool {
	return slices.ContainsFunc(p.Exempt, func(network netip.Prefix) bool { return network.Contains(addr) })
}

// Text returns the policy as JSON, as it is stored. Equal policies have equal texts.
func (p CaptchaPolicy) Text() string {
	if p.Automation == AutomationHarder {
		p.Automation = ""
	}
	if p.AttackMode == AttackAuto {
		p.AttackMode = ""
	}

	text, err := json.Marshal(p)
	if err != nil {
		// Numbers, texts and networks always marshal.
		panic(err)
	}
	return string(text)
}

// Check returns the mistakes of a policy, as joined errors. The networks are sorted, and each
// occurs once.
func (p *CaptchaPolicy) Check() error {
	return errors.Join(
		checkWork("baseSeconds", p.BaseMS), checkWork("maxSeconds", p.MaxMS), p.checkOrder(),
		p.checkFree(), p.checkKinds(), p.checkExempt(),
	)
}

// checkWork checks a number of milliseconds. 0 is the installation's setting.
//
// A challenge is valid for ten minutes. So a browser with a tenth of the phone's rate, such as one
// without WebAssembly, still solves the most that a policy can ask for.
func checkWork(field string, ms int) error {
	if ms == 0 || ms >= MinCaptchaWorkMS && ms <= MaxCaptchaWorkMS {
		return nil
	}
	return InvalidField(field, "invalid_work", fmt.Sprintf(
		"The work is 0 (the installation's) or from %.3f to %d seconds on a mid-range phone: a browser with a tenth of its "+
			"speed has ten minutes for a challenge.", float64(MinCaptchaWorkMS)/1000, MaxCaptchaWorkMS/1000))
}

func (p *CaptchaPolicy) checkOrder() error {
	if p.MaxMS == 0 || p.MaxMS >= p.BaseMS {
		return nil
	}
	return InvalidField("maxSeconds", "invalid_work", "The highest work is not less than the base.")
}

func (p *CaptchaPolicy) checkFree() error {
	if p.Free >= 0 && p.Free <= MaxFreeChallenges {
		return nil
	}
	return InvalidField("freeChallenges", "invalid_number",
		fmt.Sprintf("The number is from 1 to %d, or 0 for the installation's.", MaxFreeChallenges))
}

func (p *CaptchaPolicy) checkKinds() error {
	var wrong []error
	switch p.AutomationOrDefault() {
	case AutomationAllow, AutomationHarder, AutomationLimit:
	default:
		wrong = append(wrong, InvalidField("automation", "invalid_choice", "Automation is ALLOW, HARDER or LIMIT."))
	}
	switch p.AttackModeOrDefault() {
	case AttackAuto, AttackOn, AttackOff:
	default:
		wrong = append(wrong, InvalidField("attackMode", "invalid_choice", "The attack mode is AUTO, ON or OFF."))
	}
	return errors.Join(wrong...)
}

func (p *CaptchaPolicy) checkExempt() error {
	var wrong []error
	for i, network := range p.Exempt {
		if !network.IsValid() && len(wrong) < MaxListErrors {
			wrong = append(wrong, InvalidItem("exemptNetworks", i, "invalid_network", "This is not an address or a network."))
		}
	}
	if len(wrong) > 0 {
		return errors.Join(wrong...)
	}

	for i, network := range p.Exempt {
		p.Exempt[i] = network.Masked()
	}
	slices.SortFunc(p.Exempt, netip.Prefix.Compare)
	p.Exempt = slices.Compact(p.Exempt)

	if len(p.Exempt) > MaxExemptNetworks {
		return &Error{Kind: Conflict, Code: "too_many_exempt_networks", Field: "exemptNetworks",
			Message: fmt.Sprintf("At most %d networks are exempt.", MaxExemptNetworks)}
	}
	return nil
}

// MaxAttackLevel is the highest level of an attack. Each level doubles the work.
const MaxAttackLevel = 3

// AttackStep is how long an attack's level lasts after it was last seen, and then each lower level.
const AttackStep = 10 * time.Minute

// CaptchaAttack is the last attack on a sitekey. It is stored as JSON; the zero value is no attack.
type CaptchaAttack struct {
	Level int     `json:"level,omitempty"` // 1 to MaxAttackLevel
	Since Instant `json:"since,omitempty"`
	Seen  Instant `json:"seen,omitempty"` // for the last time at this level

	// The busiest ten minutes.
	Networks   int64 `json:"networks,omitempty"`
	Challenges int64 `json:"challenges,omitempty"`
	Refused    int64 `json:"refused,omitempty"` // tokens
	Usual      int64 `json:"usual,omitempty"`   // networks in ten minutes
}

// LevelAt returns the level at a time: the stored one until AttackStep after it was last seen, then
// one less for each AttackStep. 0 means that the attack is over.
func (a *CaptchaAttack) LevelAt(at Instant) int {
	passed := int(at.Time().Sub(a.Seen.Time()) / AttackStep)
	return max(0, min(a.Level, a.Level-passed))
}

// Merge adds what a process saw. It reports whether a new attack began.
func (a *CaptchaAttack) Merge(seen CaptchaAttack) (began bool) {
	level := a.LevelAt(seen.Seen)
	if level == 0 {
		*a = seen
		a.Since = seen.Seen
		return true
	}

	if seen.Level >= level {
		a.Level, a.Seen = seen.Level, max(a.Seen, seen.Seen)
	}
	a.Networks, a.Challenges = max(a.Networks, seen.Networks), max(a.Challenges, seen.Challenges)
	a.Refused = max(a.Refused, seen.Refused)
	return false
}
