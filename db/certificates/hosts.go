package certificates

import (
	"context"
	"time"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/model"
)

// Host is the state of a host's certificate.
type Host struct {
	Host      string
	IssuedAt  model.Instant // 0: none was obtained yet
	ExpiresAt model.Instant
}

// forgetAfter is the age of a host's last sight from which Hosts leaves it out: the settings of all
// processes name other hosts.
const forgetAfter = 24 * time.Hour

// Hosts returns the state of each host with which a process was configured within the last day.
// Hosts without a certificate come first, then the certificate that expires first. Its callers are
// processes with and without TLS.
func (s *Store) Hosts(ctx context.Context, now model.Instant) ([]Host, error) {
	var hosts []Host
	err := s.db.Read.NewSelect().Table("certificate_hosts").
		Column("host", "issued_at", "expires_at").
		Where("seen_at > ?", now.Add(-forgetAfter)).
		Order("expires_at", "host").Scan(ctx, &hosts)
	return hosts, err
}

// IsLate reports whether a host has no certificate, or one that renewals should have replaced.
func (h Host) IsLate(now time.Time) bool {
	return h.ExpiresAt == 0 || model.IsCertificateLate(h.IssuedAt.Time(), h.ExpiresAt.Time(), now)
}

// Problem returns in one line why a host has no certificate that lasts, or "".
func (h Host) Problem(now time.Time) string {
	switch {
	case h.ExpiresAt == 0:
		return "no TLS certificate for " + h.Host + " yet"
	case !now.Before(h.ExpiresAt.Time()):
		return "the TLS certificate for " + h.Host + " has expired"
	case h.IsLate(now):
		return "the TLS certificate for " + h.Host + " expires at " + h.ExpiresAt.Time().UTC().Format(time.RFC3339)
	}
	return ""
}

// See records the state of a host with which a process is configured.
func (s *Store) See(ctx context.Context, h Host, now model.Instant) error {
	return s.db.InTx(ctx, func(ctx context.Context, tx *db.Tx) error {
		_, err := tx.ExecContext(ctx, "INSERT INTO certificate_hosts (host, issued_at, expires_at, seen_at) VALUES (?, ?, ?, ?) "+
			"ON CONFLICT (host) DO UPDATE SET issued_at = EXCLUDED.issued_at, expires_at = EXCLUDED.expires_at, "+
			"seen_at = EXCLUDED.seen_at", h.Host, h.IssuedAt, h.ExpiresAt, now)
		return err
	})
}
