package acme

import (
	"crypto/x509"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tallygate/tallygate/db/model"
)

// leaf returns the certificate that this process serves for a host, or nil.
func (m *Manager) leaf(name string) *x509.Certificate {
	if served := m.hosts[name].served.Load(); served != nil {
		return served.Leaf
	}
	return nil
}

// Warnings returns a line for each host without a certificate, or with one that expires soon.
func (m *Manager) Warnings() []string {
	var lines []string
	for _, host := range m.Hosts {
		switch leaf := m.leaf(host); {
		case leaf == nil:
			lines = append(lines, "no TLS certificate for "+host+" yet")
		case !m.Now().Before(leaf.NotAfter):
			lines = append(lines, "the TLS certificate for "+host+" has expired")
		case model.IsCertificateLate(leaf.NotBefore, leaf.NotAfter, m.Now()):
			lines = append(lines, "the TLS certificate for "+host+" expires at "+leaf.NotAfter.UTC().Format(time.RFC3339))
		}
	}
	return lines
}

var expiryDesc = prometheus.NewDesc("tallygate_tls_certificate_expiry_timestamp_seconds",
	"Unix time at which the certificate that this process serves for a host expires; 0 without a certificate.",
	[]string{"host"}, nil)

var lateDesc = prometheus.NewDesc("tallygate_tls_certificate_late",
	"1 if a host has no certificate, or one that renewals should have replaced, else 0.", []string{"host"}, nil)

// Describe implements prometheus.Collector.
func (m *Manager) Describe(out chan<- *prometheus.Desc) {
	out <- expiryDesc
	out <- lateDesc
}

// Collect implements prometheus.Collector.
func (m *Manager) Collect(out chan<- prometheus.Metric) {
	for _, host := range m.Hosts {
		expires, late := 0.0, 1.0
		if leaf := m.leaf(host); leaf != nil {
			expires = float64(leaf.NotAfter.Unix())
			if !model.IsCertificateLate(leaf.NotBefore, leaf.NotAfter, m.Now()) {
				late = 0
			}
		}
		out <- prometheus.MustNewConstMetric(expiryDesc, prometheus.GaugeValue, expires, host)
		out <- prometheus.MustNewConstMetric(lateDesc, prometheus.GaugeValue, late, host)
	}
}
