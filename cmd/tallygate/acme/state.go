package acme

import (
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tallygate/tallygate/db/certificates"
	"github.com/tallygate/tallygate/db/model"
)

// parseChain returns the certificates of a PEM text, the host's first.
func parseChain(text []byte) ([]*x509.Certificate, error) {
	var der []byte
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		der = append(der, block.Bytes...)
	}
	chain, err := x509.ParseCertificates(der)
	if err == nil && len(chain) == 0 {
		err = errors.New("no certificate in PEM form")
	}
	return chain, err
}

// served returns the certificate that this process serves for a host, or nil.
func (m *Manager) served(host string) (newest *x509.Certificate) {
	for _, c := range m.cache.AllMatchingCertificates(host) {
		if newest == nil || c.Leaf.NotAfter.After(newest.NotAfter) {
			newest = c.Leaf
		}
	}
	return newest
}

// Warnings returns a line for each host without a certificate, or with one that expires soon.
func (m *Manager) Warnings() []string {
	var states map[string]certificates.Host
	if read := m.states.Load(); read != nil {
		states = *read
	}

	var lines []string
	for _, host := range m.Options.Hosts {
		reason := ""
		if state := states[host]; state.Failures > 0 {
			reason = fmt.Sprintf("; the last order failed at %s: %s", state.FailedAt.Time().UTC().Format(time.RFC3339), state.Failure)
		}

		switch leaf := m.served(host); {
		case leaf == nil:
			lines = append(lines, "no TLS certificate for "+host+" yet"+reason)
		case !m.Now().Before(leaf.NotAfter):
			lines = append(lines, "the TLS certificate for "+host+" has expired"+reason)
		case model.IsCertificateLate(leaf.NotBefore, leaf.NotAfter, m.Now()):
			lines = append(lines, fmt.Sprintf("the TLS certificate for %s expires at %s%s", host,
				leaf.NotAfter.UTC().Format(time.RFC3339), reason))
		}
	}
	return lines
}

var (
	expiryDesc = prometheus.NewDesc("tallygate_tls_certificate_expiry_timestamp_seconds",
		"Unix time at which the certificate that this process serves for a host expires; 0 without a certificate.",
		[]string{"host"}, nil)
	failuresDesc = prometheus.NewDesc("tallygate_tls_certificate_failures",
		"Orders of a host's certificate that failed since the last success, on all nodes.", []string{"host"}, nil)
)

// Describe implements prometheus.Collector.
func (m *Manager) Describe(out chan<- *prometheus.Desc) {
	out <- expiryDesc
	out <- failuresDesc
}

// Collect implements prometheus.Collector.
func (m *Manager) Collect(out chan<- prometheus.Metric) {
	states := m.states.Load()
	for _, host := range m.Options.Hosts {
		var expires float64
		if leaf := m.served(host); leaf != nil {
			expires = float64(leaf.NotAfter.Unix())
		}
		out <- prometheus.MustNewConstMetric(expiryDesc, prometheus.GaugeValue, expires, host)

		if states != nil {
			out <- prometheus.MustNewConstMetric(failuresDesc, prometheus.GaugeValue, float64((*states)[host].Failures), host)
		}
	}
}
