package acme

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/tallygate/tallygate/db/certificates"
	"github.com/tallygate/tallygate/db/model"
)

// state returns the state of the certificate that this process serves for a host.
func (h *host) state() certificates.Host {
	state := certificates.Host{Host: h.name}
	if served := h.served.Load(); served != nil {
		state.IssuedAt, state.ExpiresAt = model.At(served.Leaf.NotBefore), model.At(served.Leaf.NotAfter)
	}
	return state
}

// Problem returns in one line why one of the hosts has no certificate that lasts, or "".
func (m *Manager) Problem(host string) string { return m.hosts[host].state().Problem(m.Now()) }

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
	for _, name := range m.Hosts {
		state, late := m.hosts[name].state(), 0.0
		if state.IsLate(m.Now()) {
			late = 1
		}
		out <- prometheus.MustNewConstMetric(expiryDesc, prometheus.GaugeValue, float64(state.ExpiresAt.Time().Unix()), name)
		out <- prometheus.MustNewConstMetric(lateDesc, prometheus.GaugeValue, late, name)
	}
}
