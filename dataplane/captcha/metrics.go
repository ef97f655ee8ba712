package captcha

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tallygate/tallygate/dataplane/batch"
	"github.com/tallygate/tallygate/db/model"
)

// The names of successful outcomes.
const (
	outcomeIssued   = "issued"
	outcomeSolved   = "solved"
	outcomeVerified = "verified"
	outcomeReserve  = "reserve" // verified, with the account's quota used up
	outcomeUnknown  = "unknown" // the sitekey's account was deleted meanwhile
)

// refusals are the codes of errors that every endpoint has.
var refusals = []string{errMethod.Code, errBodySize.Code, errBadJSON.Code, errNoSitekey.Code, errDomain.Code, errSitekey.Code,
	errSuspended.Code, codeUnavailable}

// verdicts are the outcomes of redeemed tokens.
var verdicts = map[outcome]string{
	notOurs: model.RefusedToken, foreign: model.RefusedForeignToken, claimed: outcomeVerified, claimedFromReserve: outcomeReserve,
	duplicate: model.RefusedUsedToken, expired: model.RefusedExpiredToken,
	overQuota: "quota_exceeded", accountSuspended: errSuspended.Code, sitekeyDeleted: outcomeUnknown,
}

// compatRefusals are the outcomes under which refusals of /siteverify before a token is redeemed
// count.
var compatRefusals = map[string]string{
	codeMissingSecret: errNoSitekey.Code, codeMissingResponse: errNoSitekey.Code, codeInvalidSecret: errSecret.Code,
	codeInvalidResponse: errSitekey.Code, codeBadRequest: errBodySize.Code,
}

// counters count by outcome. They are resolved once and never changed.
type counters map[string]prometheus.Counter

func newCounters(vec *prometheus.CounterVec, outcomes ...string) counters {
	c := make(counters)
	for _, outcome := range append(outcomes, refusals...) {
		c[outcome] = vec.WithLabelValues(outcome)
	}
	return c
}

// count counts an outcome. One that is not listed is an internal fault.
func (c counters) count(outcome string) {
	counter, known := c[outcome]
	if !known {
		counter = c[codeUnavailable]
	}
	counter.Inc()
}

// countCall counts a call with the outcome ok, or with the code of its error.
func (c counters) countCall(ok string, err error) {
	if err != nil {
		ok = codeUnavailable
		if e, known := errors.AsType[*model.Error](err); known {
			ok = e.Code
		}
	}
	c.count(ok)
}

// metrics are the metrics of the endpoints and their writer.
type metrics struct {
	vecs                                 []*prometheus.CounterVec
	challenges, solutions, verifications counters
	batches                              *batch.Observer
}

// newMetrics returns the metrics of a service. waiting returns how many claims wait for the
// writer.
func newMetrics(waiting func() int) *metrics {
	m := &metrics{batches: batch.NewObserver("claims", waiting)}
	vec := func(name, help string) *prometheus.CounterVec {
		v := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, []string{"outcome"})
		m.vecs = append(m.vecs, v)
		return v
	}

	m.challenges = newCounters(vec("tallygate_captcha_challenges_total",
		"Requests for a captcha challenge by outcome: issued, or the error's code."), outcomeIssued, "too_many_challenges")
	m.solutions = newCounters(vec("tallygate_captcha_solutions_total",
		"Solutions of challenges by outcome: solved, or the error's code."), outcomeSolved, errWork.Code)
	m.verifications = newCounters(vec("tallygate_captcha_verifications_total",
		"Verifications of tokens by customers' servers, by outcome: verified, reserve (verified, with the quota used up), "+
			"or the reason against it."), errSecret.Code,
		outcomeVerified, outcomeReserve, model.RefusedToken, model.RefusedForeignToken, model.RefusedUsedToken, model.RefusedExpiredToken,
		"quota_exceeded", outcomeUnknown)

	return m
}

// Measure registers the metrics of the service.
func (s *Service) Measure(r prometheus.Registerer) error {
	dropped := prometheus.NewCounterFunc(prometheus.CounterOpts{
		Name: "tallygate_dropped_counts_total", ConstLabels: prometheus.Labels{"of": "captcha"},
		Help: "Calls that are missing in the counters for owners, because too many different ones waited to be stored.",
	}, func() float64 { return float64(s.counts.Dropped()) })

	err := errors.Join(s.metrics.batches.Register(r), r.Register(dropped),
		s.bySitekey.Measure(r, "sitekeys"), s.bySecret.Measure(r, "sitekey_secrets"))
	for _, vec := range s.metrics.vecs {
		err = errors.Join(err, r.Register(vec))
	}
	return err
}
