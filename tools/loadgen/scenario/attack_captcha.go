package scenario

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/tools/loadgen/report"
)

// AttackCaptcha simulates attacks on a sitekey: what the attacker gets, and how long people wait.
// It starts no server. The service's difficulty control runs in virtual time, so that a day takes
// seconds.
type AttackCaptcha struct {
	report.Output
	People   int    `long:"people" default:"1000" value-name:"N" description:"People a day, each in a network of its own. 50 more share an office and its address."`
	Networks int    `long:"networks" default:"10000" value-name:"N" description:"Networks of an attack from many."`
	Cores    int    `long:"cores" default:"16" value-name:"N" description:"Cores of the attacker, for all networks together."`
	Rounds   int    `long:"rounds" default:"10" value-name:"N" description:"Days of each case, with different people. Percentiles are of all days together, the last column is the longest, other figures are the median day's."`
	Seed     uint64 `long:"seed" default:"1" value-name:"N" description:"Seed of the first day. The same seed prints the same table."`
}

// Validate checks the limits of the flags.
func (c *AttackCaptcha) Validate() error {
	return errors.Join(within("--people", c.People, 1, 1<<16), within("--networks", c.Networks, 2, 1<<16),
		within("--cores", c.Cores, 1, 1024), within("--rounds", c.Rounds, 1, 100))
}

// coreHour is the price of a rented core for an hour, in dollars (docs/owner/captcha.md, "What the work
// costs").
const coreHour = 0.04

// The units of the simulation's figures.
const (
	attackTokens = "tokens"
	attackHours  = "core-hours"
	attackPrice  = "dollars"
	peopleMS     = "people-ms-" // and the percentile
	officeMS     = "office-ms-"
	backMinutes  = "back-min"
)

var captchaColumns = []report.Column{
	{Title: "attack", Format: "%s", Names: []string{"attack"}},
	{Title: "says that it is automated", Format: "%s", Names: []string{"declared"}},
	{Title: "policy", Format: "%s", Names: []string{"policy"}},
	{Title: "tokens", Of: grouped, Names: []string{attackTokens}},
	{Title: "core hours", Format: "%.2f", Names: []string{attackHours}},
	{Title: "price", Format: "%.3f $", Names: []string{attackPrice}},
	{Title: "people wait, ms: p50, p95, p99", Format: "%.0f, %.0f, %.0f", Names: []string{peopleMS + "50", peopleMS + "95", peopleMS + "99"}},
	{Title: "office waits, ms", Format: "%.0f, %.0f, %.0f", Names: []string{officeMS + "50", officeMS + "95", officeMS + "99"}},
	{Title: "back at the base after", Format: "%.0f min", Names: []string{backMinutes}},
}

// captchaAttack is how an attacker proceeds.
type captchaAttack struct {
	name     string
	networks int           // used in turn; 0 is no attack
	cores    int           // that solve one challenge after another
	pace     time.Duration // least time between two challenges of a core
}

// attacks returns the kinds of attack.
func (c *AttackCaptcha) attacks() []captchaAttack {
	many := grouped(float64(c.Networks)) + " networks"
	drip := attackLasts * time.Duration(c.Cores) / time.Duration(c.Networks)
	return []captchaAttack{
		{"one network", 1, c.Cores, 0},
		{many, c.Networks, c.Cores, 0},
		{many + ", one challenge an hour each", c.Networks, c.Cores, drip},
	}
}

// captchaTreatment is a policy and an attacker that it meets.
type captchaTreatment struct {
	policy     string
	declared   string // whether the attacker says that it is automated
	isDeclared bool
	settings   model.CaptchaPolicy
}

// captchaTreatments are the treatments of each attack. The first one has the rule on networks only,
// and no policy to compare with.
var captchaTreatments = []captchaTreatment{
	{"`ALLOW`, attacks `OFF`", "either", true, model.CaptchaPolicy{Automation: model.AutomationAllow, AttackMode: model.AttackOff}},
	{"default", "no", false, model.CaptchaPolicy{}},
	{"default (`HARDER`)", "yes", true, model.CaptchaPolicy{}},
	{"`LIMIT`", "yes", true, model.CaptchaPolicy{Automation: model.AutomationLimit}},
}

// Play implements Scenario.
func (c *AttackCaptcha) Play(ctx context.Context, progress io.Writer) (*report.Outcome, error) {
	o := &report.Outcome{Scenario: "attack-captcha"}
	c.simulate(o, captchaAttack{name: "none"}, captchaTreatment{policy: "any", declared: "–"})
	for _, attack := range c.attacks() {
		for _, treatment := range captchaTreatments {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			began := time.Now()
			c.simulate(o, attack, treatment)
			fmt.Fprintf(progress, "%s, %s: %d days in %.1f s\n", attack.name, treatment.policy, c.Rounds, time.Since(began).Seconds())
		}
	}
	o.Write("%s", report.Table(captchaColumns, o.Cases))
	return o, nil
}

// simulate adds the case of an attack and a treatment.
func (c *AttackCaptcha) simulate(o *report.Outcome, attack captchaAttack, treatment captchaTreatment) *report.Case {
	one := o.Case("attack", attack.name, "declared", treatment.declared, "policy", treatment.policy)
	var people, office []float64
	for round := range c.Rounds {
		d := newCaptchaDay(c.Seed+uint64(round), c.People, attack, treatment)
		d.run()

		if attack.networks > 0 {
			hours := d.hashes / coreRate / 3600
			one.Add(attackTokens, float64(d.tokens))
			one.Add(attackHours, hours)
			one.Add(attackPrice, hours*coreHour)
			one.Worst(backMinutes, math.Ceil(d.back.Minutes()))
		}
		people, office = append(people, d.people...), append(office, d.office...)
	}

	for _, percent := range []int{50, 95, 99} {
		one.Add(peopleMS+strconv.Itoa(percent), percentile(people, percent))
		one.Add(officeMS+strconv.Itoa(percent), percentile(office, percent))
	}
	return one
}

// percentile returns the least value that so many percent of the values do not exceed, or 0 without
// values.
func percentile(values []float64, percent int) float64 {
	if len(values) == 0 {
		return 0
	}
	slices.Sort(values)
	return values[(len(values)*percent+99)/100-1]
}

// grouped formats a whole number with thousands separators.
func grouped(value float64) string {
	text := strconv.FormatFloat(value, 'f', 0, 64)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}
