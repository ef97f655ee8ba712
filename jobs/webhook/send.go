package webhook

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"math"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/netip"
	"strconv"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/outbox"
)

// Limits of one call.
const (
	callTimeout   = 10 * time.Second // until the response's header has arrived
	dialTimeout   = 5 * time.Second
	tlsTimeout    = 5 * time.Second
	answerTimeout = time.Second // for the stored beginning of the response's body
	maxHeader     = 16 << 10
)

// sender calls receivers. It connects only to hosts on the internet and in the allowed networks,
// over verified TLS, follows no redirect, uses no proxy and reads no more than it stores.
type sender struct {
	client     *http.Client
	timeout    time.Duration                  // of one call
	showAnswer func(receiver netip.Addr) bool // see Options
	now        func() time.Time
}

// errBlocked is returned instead of connecting to an address that must not be called.
var errBlocked = errors.New("the address must not be called")

func newSender(o Options) *sender {
	s := &sender{now: o.Clock.Estimate, timeout: cmp.Or(o.CallTimeout, callTimeout), showAnswer: o.ShowAnswer}
	if s.showAnswer == nil {
		s.showAnswer = model.IsPublic
	}

	s.client = newClient(o)
	return s
}

// NewClient returns a client that connects as webhooks do, for calls to other addresses that owners
// enter. For an address that must not be called, and for a redirect, it fails or returns the
// answer.
func NewClient(allowed []netip.Prefix, authorities *x509.CertPool, timeout time.Duration) *http.Client {
	client := newClient(Options{AllowedNets: allowed, Authorities: authorities})
	client.Timeout = timeout
	return client
}

// ErrBlocked is the error of a client instead of a connection to an address that must not be
// called.
var ErrBlocked = errBlocked

func newClient(o Options) *http.Client {
	dialer := &net.Dialer{
		Timeout:  dialTimeout,
		Resolver: o.Resolver,
		// The check is made for the address that is connected to, after name resolution: a name may
		// lead elsewhere than when it was set.
		ControlContext: func(_ context.Context, _, address string, _ syscall.RawConn) error {
			to, err := netip.ParseAddrPort(address)
			if err != nil || !model.MayCall(to, o.AllowedNets) {
				return errBlocked
			}
			return nil
		},
	}

	return &http.Client{
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport: &http.Transport{
			Proxy:                  nil, // behind a proxy only the proxy's own address could be checked
			DialContext:            dialer.DialContext,
			ForceAttemptHTTP2:      true,
			TLSClientConfig:        &tls.Config{RootCAs: o.Authorities, MinVersion: tls.VersionTLS12},
			TLSHandshakeTimeout:    tlsTimeout,
			MaxResponseHeaderBytes: maxHeader,
			DisableCompression:     true,
			MaxIdleConns:           100,
			MaxIdleConnsPerHost:    2,
			IdleConnTimeout:        30 * time.Second,
		},
	}
}

// send makes one attempt of a delivery with the given body.
func (s *sender) send(ctx context.Context, c *outbox.Leased, body []byte) outbox.AttemptResult {
	// The monotonic clock: only elapsed time matters here.
	began := time.Now()
	result := s.call(ctx, c, body)
	result.Duration = time.Since(began)
	return result
}

func (s *sender) call(ctx context.Context, c *outbox.Leased, body []byte) outbox.AttemptResult {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()

	var receiver atomic.Pointer[net.TCPAddr]
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(got httptrace.GotConnInfo) {
		addr, _ := got.Conn.RemoteAddr().(*net.TCPAddr)
		receiver.Store(addr)
	}})

	request, err := http.NewRequestWithContext(ctx, http.MethodPost, c.URL, bytes.NewReader(body))
	if err != nil || !model.IsWebhookURL(c.URL) {
		return outbox.AttemptResult{Error: model.AttemptBadURL}
	}

	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("User-Agent", "Tallygate-Webhook/1")
	sign(request.Header, c.Secret, c.OldSecret, c.MessageID, s.now(), body)

	response, err := s.client.Do(request)
	if err != nil {
		return failure(err)
	}
	defer response.Body.Close()

	result := outbox.AttemptResult{
		Status:     response.StatusCode,
		Error:      classOfStatus(response.StatusCode),
		RetryAfter: retryAfter(response, s.now()),
	}

	// The response of a host in a private network is not shown to the tenants.
	if addr := receiver.Load(); addr == nil || !s.showAnswer(addr.AddrPort().Addr()) {
		return result
	}

	// The body does not change the outcome: it is only stored for the site's users.
	timer := time.AfterFunc(answerTimeout, cancel)
	defer timer.Stop()

	answer, _ := io.ReadAll(io.LimitReader(response.Body, model.MaxAnswer))
	result.Answer = string(answer)
	return result
}

// classOfStatus returns the class of failure of a status, or "" for success.
func classOfStatus(status int) string {
	switch {
	case status >= 200 && status < 300:
		return ""
	case status >= 300 && status < 400:
		return model.AttemptRedirect
	case status == http.StatusGone:
		return model.AttemptGone
	case status == http.StatusTooManyRequests:
		return model.AttemptRateLimited
	case status >= 400 && status < 500:
		return model.AttemptClientError
	case status >= 500 && status < 600:
		return model.AttemptServerError
	}

	return model.AttemptBadAnswer
}

// failure returns the result of an attempt without a response.
func failure(err error) outbox.AttemptResult {
	if errors.Is(err, errBlocked) {
		return outbox.AttemptResult{Error: model.AttemptNoAddress, Reason: model.ReasonBlocked}
	}
	if dns, ok := errors.AsType[*net.DNSError](err); ok && !dns.IsTimeout {
		return outbox.AttemptResult{Error: model.AttemptNoAddress, Reason: model.ReasonDNS}
	}
	return outbox.AttemptResult{Error: classOf(err)}
}

// classOf returns the class of failure of a call without a response.
func classOf(err error) string {
	if timeout, ok := errors.AsType[net.Error](err); ok && timeout.Timeout() || errors.Is(err, context.DeadlineExceeded) {
		return model.AttemptTimeout
	}
	if isTLS(err) {
		return model.AttemptTLS
	}
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Op == "dial" {
		return model.AttemptConnect
	}

	if isHangUp(err) {
		return model.AttemptHangUp
	}

	return model.AttemptBadAnswer
}

// isTLS reports whether no trusted TLS connection was made.
func isTLS(err error) bool {
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return true
	}
	if _, ok := errors.AsType[tls.RecordHeaderError](err); ok {
		return true
	}
	if _, ok := errors.AsType[tls.AlertError](err); ok {
		return true
	}

	if errors.Is(err, http.ErrSchemeMismatch) {
		return true
	}

	// The receiver sent a TLS alert.
	op, ok := errors.AsType[*net.OpError](err)
	return ok && (op.Op == "remote error" || op.Op == "local error")
}

// isHangUp reports whether the receiver closed the connection, or the HTTP/2 stream.
func isHangUp(err error) bool {
	for _, end := range []error{io.EOF, io.ErrUnexpectedEOF, syscall.ECONNRESET, syscall.EPIPE} {
		if errors.Is(err, end) {
			return true
		}
	}
	_, ok := errors.AsType[streamReset](err)
	return ok
}

// streamReset receives net/http's HTTP/2 stream error, which is not exported. net/http's error has
// an As method that fills any type with these fields.
type streamReset struct {
	StreamID uint32
	Code     uint32
	Cause    error
}

func (streamReset) Error() string { return "the stream was reset" }

// retryAfter returns the pause that a receiver asked for in either form of the Retry-After header,
// or 0. Only responses with status 429 and 503 count.
func retryAfter(response *http.Response, now time.Time) time.Duration {
	if response.StatusCode != http.StatusTooManyRequests && response.StatusCode != http.StatusServiceUnavailable {
		return 0
	}

	text := response.Header.Get("Retry-After")
	// Discord sends a fraction of seconds.
	if seconds, err := strconv.ParseFloat(text, 64); err == nil && seconds >= 0 && seconds <= math.MaxInt32 {
		return time.Duration(seconds * float64(time.Second))
	}
	if at, err := http.ParseTime(text); err == nil {
		return max(0, at.Sub(now))
	}

	return 0
}
