package serve

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"net/url"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tallygate/tallygate/cmd/tallygate/config"
)

const (
	// certificatesEvery is the time between two readings of the proxy's certificates.
	certificatesEvery = 10 * time.Minute

	// certificateTimeout bounds a connection to the proxy.
	certificateTimeout = 5 * time.Second
)

// OriginCertificate connects to a public origin as a browser does, and returns the certificate that
// the proxy shows. A certificate that browsers refuse is a *tls.CertificateVerificationError.
func OriginCertificate(ctx context.Context, origin config.Origin) (*x509.Certificate, error) {
	u, err := url.Parse(string(origin))
	if err != nil {
		return nil, err
	}
	port := u.Port()
	if port == "" {
		port = "443"
	}

	dialer := tls.Dialer{NetDialer: &net.Dialer{Timeout: certificateTimeout}, Config: &tls.Config{MinVersion: tls.VersionTLS12}}
	ctx, cancel := context.WithTimeout(ctx, certificateTimeout)
	defer cancel()

	conn, err := dialer.DialContext(ctx, "tcp", net.JoinHostPort(u.Hostname(), port))
	if err != nil {
		return nil, err
	}
	defer conn.Close()

	return conn.(*tls.Conn).ConnectionState().PeerCertificates[0], nil
}

// newCertificateGauge returns the metric that watchCertificates sets.
func newCertificateGauge() *prometheus.GaugeVec {
	return prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "tallygate_certificate_expiry_timestamp_seconds",
		Help: "Unix time at which the certificate of a public address with https expires, by the setting of the address; 0 if " +
			"browsers refuse the certificate. Read every 10 minutes; no value before this process has reached the address.",
	}, []string{"setting"})
}

// watchCertificates reads the certificates of the public origins until ctx ends, if the metrics are
// served. An origin that cannot be reached keeps its last value.
func (a *App) watchCertificates(ctx context.Context) {
	if a.metrics == nil {
		return
	}

	ticker := time.NewTicker(certificatesEvery)
	defer ticker.Stop()
	for {
		for _, o := range a.whole.Origins() {
			if o.Origin.IsHTTPS() {
				a.readCertificate(ctx, o)
			}
		}

		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

func (a *App) readCertificate(ctx context.Context, o config.NamedOrigin) {
	certificate, err := OriginCertificate(ctx, o.Origin)
	if _, refused := errors.AsType[*tls.CertificateVerificationError](err); refused {
		a.certificates.WithLabelValues(o.Setting).Set(0)
	} else if err == nil {
		a.certificates.WithLabelValues(o.Setting).Set(float64(certificate.NotAfter.Unix()))
	}
}
