package difficulty

import (
	"time"

	"github.com/tallygate/tallygate/db/model"
)

// An attack is seen where challenges of a sitekey come from far more networks than usual. A single
// network, however many challenges it requests, meets more work by itself, and changes nothing for
// others.
const (
	usualShare = 16  // a window changes what is usual by 1/usualShare of the difference
	usualLeast = 100 // networks, or refused tokens, in a window that are usual for every sitekey
	mostGrowth = 2   // a window counts as at most so many times the usual, so that an attack does not become usual
)

// thresholds are the networks in a window, in multiples of the usual, from which the levels 1, 2
// and 3 begin. Four times as many attackers meet twice the work.
var thresholds = [model.MaxAttackLevel]float64{4, 16, 64}

// load counts what happens with a sitekey in a window.
type load struct {
	window     int64
	networks   gauge // that requested challenges
	refused    gauge // tokens that were refused
	challenges uint32
	isKnown    bool // the gauges know what is usual
	isPartial  bool // the start of the window was missed, so that its counts are not comparable
}

// gauge is a count of the current window, and a moving average of earlier ones.
type gauge struct {
	current uint32
	usual   float64
}

// add counts one challenge. isNewNetwork reports that its network requested none before in this
// window. stored is the last attack that any process saw. It returns the attack that is seen now.
func (l *load) add(now time.Time, isNewNetwork bool, stored model.CaptchaAttack) model.CaptchaAttack {
	l.moveTo(now)
	l.challenges++
	if isNewNetwork {
		l.networks.current++
	}

	// A process that starts during an attack must not take the attack for usual.
	if !l.isKnown && stored.LevelAt(model.At(now)) > 0 {
		l.isKnown, l.networks.usual = true, float64(stored.Usual)
	}

	level := l.level()
	if level == 0 {
		return model.CaptchaAttack{}
	}
	return model.CaptchaAttack{
		Level: level, Seen: model.At(now), Networks: int64(l.networks.current), Challenges: int64(l.challenges),
		Refused: int64(l.refused.current), Usual: int64(l.networks.usual),
	}
}

// refuse counts a token that was refused.
func (l *load) refuse(now time.Time) {
	l.moveTo(now)
	l.refused.current++
}

// moveTo makes the window of a time the current one.
func (l *load) moveTo(now time.Time) {
	number, _ := windowOf(now)
	if number == l.window {
		return
	}

	// Before the first window, and after the clock was set back, nothing has ended.
	isPartial := l.window == 0 || number < l.window
	if !isPartial {
		l.close()
	}
	l.window, l.challenges, l.isPartial = number, 0, isPartial
	l.networks.current, l.refused.current = 0, 0
}

// close adds a window that has ended to what is usual. Windows without a call are left out,
// because they say nothing about the load while a form is used.
func (l *load) close() {
	if l.isPartial {
		return
	}
	l.networks.close(l.isKnown)
	l.refused.close(l.isKnown)
	l.isKnown = true
}

func (g *gauge) close(isKnown bool) {
	if !isKnown {
		g.usual = float64(g.current)
		return
	}
	counted := min(float64(g.current), mostGrowth*max(g.usual, usualLeast))
	g.usual += (counted - g.usual) / usualShare
}

// level returns the level of attack of this window so far. Before the first whole window after the
// start nothing is known, and nothing is an attack. Refused tokens reach the first level only,
// because sending them to a form takes no work.
func (l *load) level() int {
	if !l.isKnown {
		return 0
	}
	return max(l.networks.level(), min(1, l.refused.level()))
}

func (g *gauge) level() int {
	level, usual := 0, max(g.usual, usualLeast)
	for level < len(thresholds) && float64(g.current) >= thresholds[level]*usual {
		level++
	}
	return level
}
