package certificates

import (
	"context"
	"time"

	"github.com/uptrace/bun"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/model"
)

// Host is the state of a host's certificate.
type Host struct {
	Host      string
	IssuedAt  model.Instant // 0: none was obtained yet
	ExpiresAt model.Instant
	FailedAt  model.Instant // of the last order that failed, also before the last success; 0: none
	Failures  int           // since the last success
	Failure   Failure       // of the last order; "" after a success
}

// Failure is the class of the reason why an order failed.
type Failure string

// The classes of failures.
const (
	FailureAuthority  Failure = "authority"  // the authority does not answer, or has a fault
	FailureRateLimit  Failure = "rate_limit" // the authority's rate limit was reached
	FailureDNS        Failure = "dns"        // the host does not resolve for the authority
	FailureConnection Failure = "connection" // the authority does not reach ports 80 and 443 of the host
	FailureResponse   Failure = "response"   // something else answers there
	FailureCAA        Failure = "caa"        // a CAA record of the domain forbids this authority
	FailureRefused    Failure = "refused"    // the authority refuses the host or the account
	FailureStorage    Failure = "storage"    // the database cannot be read or written
	FailureOther      Failure = "other"
)

// Pause returns the time without an order after failures in a row. It keeps within 5 failed validations of a
// host in an hour, which is Let's Encrypt's limit: two orders, each with up to two validations.
func Pause(failures int) time.Duration {
	pauses := []time.Duration{0, 5 * time.Minute, time.Hour}
	return pauses[min(failures, len(pauses)-1)]
}

// NextOrderAt returns the earliest time of the next order after a failure.
func (h Host) NextOrderAt() model.Instant { return h.FailedAt.Add(Pause(h.Failures)) }

// forgetAfter is the age of a host's last sight from which Hosts leaves it out: the settings of all
// processes name other hosts.
const forgetAfter = 24 * time.Hour

// Hosts returns the state of each host with which a process was configured within the last day, by name. Its
// callers are processes with and without TLS, for instance to notify an operator.
func (s *Store) Hosts(ctx context.Context, now model.Instant) ([]Host, error) {
	var hosts []Host
	err := s.recent(now).Order("host").Scan(ctx, &hosts)
	return hosts, err
}

// HostList returns at most n of the states that Hosts returns. Hosts with a failure come first, so that the
// limit does not hide them, then all by name.
func (s *Store) HostList(ctx context.Context, now model.Instant, n int) ([]Host, error) {
	var hosts []Host
	err := s.recent(now).OrderExpr("failures = 0, host").Limit(int64(n)).Scan(ctx, &hosts)
	return hosts, err
}

// recent selects the hosts with which a process was configured within the last day.
func (s *Store) recent(now model.Instant) *bun.SelectQuery {
	return s.db.Read.NewSelect().Table("certificate_hosts").
		Column("host", "issued_at", "expires_at", "failed_at", "failures", "failure").
		Where("seen_at > ?", now.Add(-forgetAfter))
}

// See records that a process is configured with these hosts.
func (s *Store) See(ctx context.Context, hosts []string, now model.Instant) error {
	return s.db.InTx(ctx, func(ctx context.Context, tx *db.Tx) error {
		for _, host := range hosts {
			_, err := tx.ExecContext(ctx, "INSERT INTO certificate_hosts (host, seen_at) VALUES (?, ?) "+
				"ON CONFLICT (host) DO UPDATE SET seen_at = EXCLUDED.seen_at", host, now)
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// Obtained records a new certificate of a host.
func (s *Store) Obtained(ctx context.Context, host string, issued, expires, now model.Instant) error {
	return s.db.InTx(ctx, func(ctx context.Context, tx *db.Tx) error {
		_, err := tx.ExecContext(ctx, "INSERT INTO certificate_hosts (host, issued_at, expires_at, seen_at) VALUES (?, ?, ?, ?) "+
			"ON CONFLICT (host) DO UPDATE SET issued_at = EXCLUDED.issued_at, expires_at = EXCLUDED.expires_at, failures = 0, "+
			"failure = '', seen_at = EXCLUDED.seen_at", host, issued, expires, now)
		return err
	})
}

// Failed records an order that failed.
func (s *Store) Failed(ctx context.Context, host string, failure Failure, now model.Instant) error {
	return s.db.InTx(ctx, func(ctx context.Context, tx *db.Tx) error {
		_, err := tx.ExecContext(ctx, "INSERT INTO certificate_hosts (host, failed_at, failures, failure, seen_at) "+
			"VALUES (?, ?, 1, ?, ?) ON CONFLICT (host) DO UPDATE SET failed_at = EXCLUDED.failed_at, "+
			"failures = certificate_hosts.failures + 1, failure = EXCLUDED.failure, seen_at = EXCLUDED.seen_at",
			host, now, failure, now)
		return err
	})
}

// Host returns the state of one host. A host that is not recorded has the zero state.
func (s *Store) Host(ctx context.Context, host string) (Host, error) {
	var found []Host
	err := s.db.Read.NewSelect().Table("certificate_hosts").
		Column("host", "issued_at", "expires_at", "failed_at", "failures", "failure").
		Where("host = ?", host).Scan(ctx, &found)
	if err != nil || len(found) == 0 {
		return Host{Host: host}, err
	}
	return found[0], nil
}
