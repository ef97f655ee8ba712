package jobs

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/netip"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/outbox"
)

// Limits of one call of an owner's address.
const (
	callTimeout   = 10 * time.Second // until the answer's header has come
	dialTimeout   = 5 * time.Second
	tlsTimeout    = 5 * time.Second
	answerTimeout = time.Second // for the part of the answer's body that is kept
	maxHeader     = 16 << 10
)

// sender calls owners' addresses. It connects to hosts on the internet only, over verified TLS,
// follows no redirect, uses no proxy and reads no more than it keeps.
type sender struct {
	client  *http.Client
	dialer  *net.Dialer
	timeout time.Duration                  // for one call
	shows   func(receiver netip.Addr) bool // whether the site's owners may see the receiver's answer
	now     func() time.Time
}

// errBlocked is the refusal to connect to an address.
var errBlocked = errors.New("the address may not be called")

// newSender returns a sender that may call the allowed networks beside the internet, and trusts the
// authorities; nil means the system's.
func newSender(allowed []netip.Prefix, authorities *x509.CertPool, now func() time.Time) *sender {
	dialer := &net.Dialer{
		Timeout: dialTimeout,
		// The last moment before the connection: whatever the name led to when it was checked, this
		// is where it leads to now.
		ControlContext: func(_ context.Context, _, address string, _ syscall.RawConn) error {
			to, err := netip.ParseAddrPort(address)
			if err != nil || !model.MayCall(to, allowed) {
				return errBlocked
			}
			return nil
		},
	}

	return &sender{now: now, dialer: dialer, timeout: callTimeout, shows: model.IsPublic, client: &http.Client{
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport: &http.Transport{
			Proxy:                  nil, // with one, only the proxy's own address could be checked
			DialContext:            dialer.DialContext,
			ForceAttemptHTTP2:      true,
			TLSClientConfig:        &tls.Config{RootCAs: authorities, MinVersion: tls.VersionTLS12},
			TLSHandshakeTimeout:    tlsTimeout,
			MaxResponseHeaderBytes: maxHeader,
			DisableCompression:     true,
			MaxIdleConns:           100,
			MaxIdleConnsPerHost:    2,
			IdleConnTimeout:        30 * time.Second,
		},
	}}
}

// send makes one attempt of a delivery with the given body.
func (s *sender) send(ctx context.Context, c *outbox.Claim, body []byte) outbox.AttemptResult {
	// not the program's clock: only time that passes matters here
	began := time.Now()
	result := s.call(ctx, c, body)
	result.Duration = time.Since(began)
	return result
}

func (s *sender) call(ctx context.Context, c *outbox.Claim, body []byte) outbox.AttemptResult {
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
	sign(request.Header, c.Secret, c.MessageID, s.now(), body)

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

	// The answer of a host in a private network that the operator allowed is not for every tenant
	// to read.
	if addr := receiver.Load(); addr == nil || !s.shows(addr.AddrPort().Addr()) {
		return result
	}

	// what the status says is decided; the rest is for the log
	timer := time.AfterFunc(answerTimeout, cancel)
	defer timer.Stop()

	answer, _ := io.ReadAll(io.LimitReader(response.Body, model.MaxAnswer))
	result.Answer = string(answer)
	return result
}

// sign sets the headers that name and, with a secret, sign a message: the contract's
// X-Service-Signature over the body alone (analytics contract, section 5), and those of Standard
// Webhooks, which also protect against replay.
func sign(header http.Header, secret, id string, at time.Time, body []byte) {
	timestamp := strconv.FormatInt(at.Unix(), 10)
	header.Set("webhook-id", id)
	header.Set("webhook-timestamp", timestamp)

	if secret == "" {
		return
	}

	header.Set("X-Service-Signature", "sha256="+hex.EncodeToString(mac([]byte(secret), body)))
	signature := mac(standardKey(secret), []byte(id), []byte("."), []byte(timestamp), []byte("."), body)
	header.Set("webhook-signature", "v1,"+base64.StdEncoding.EncodeToString(signature))
}

// standardKey is the key of Standard Webhooks: of a secret in their form, whsec_ and base64, the
// bytes it encodes; of any other one its own bytes.
func standardKey(secret string) []byte {
	if encoded, ok := strings.CutPrefix(secret, model.StandardSecretPrefix); ok {
		if key, err := base64.StdEncoding.DecodeString(encoded); err == nil && len(key) > 0 {
			return key
		}
	}
	return []byte(secret)
}

func mac(key []byte, parts ...[]byte) []byte {
	h := hmac.New(sha256.New, key)
	for _, part := range parts {
		h.Write(part)
	}
	return h.Sum(nil)
}

// classOfStatus is the class of the failure that a status means, or empty for success.
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

// failure is the result of an attempt without an answer.
func failure(err error) outbox.AttemptResult {
	if errors.Is(err, errBlocked) {
		return outbox.AttemptResult{Error: model.AttemptNoAddress, Reason: model.ReasonBlocked}
	}
	if dns, ok := errors.AsType[*net.DNSError](err); ok && !dns.IsTimeout {
		return outbox.AttemptResult{Error: model.AttemptNoAddress, Reason: model.ReasonDNS}
	}
	return outbox.AttemptResult{Error: classOf(err)}
}

// classOf is the class of an attempt that had an address to call, and no answer.
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

	// an alert of the other side
	op, ok := errors.AsType[*net.OpError](err)
	return ok && (op.Op == "remote error" || op.Op == "local error")
}

// isHangUp reports whether the other side ended the connection, or HTTP/2's stream.
func isHangUp(err error) bool {
	for _, end := range []error{io.EOF, io.ErrUnexpectedEOF, syscall.ECONNRESET, syscall.EPIPE} {
		if errors.Is(err, end) {
			return true
		}
	}
	_, ok := errors.AsType[streamReset](err)
	return ok
}

// streamReset is how net/http shows its own error of HTTP/2 to those that ask for a type with these
// fields.
type streamReset struct {
	StreamID uint32
	Code     uint32
	Cause    error
}

func (streamReset) Error() string { return "the stream was reset" }

// retryAfter is for how long a receiver asked to be left alone, in either form of the header; 0 for
// not at all. It counts for the two answers that mean it.
func retryAfter(response *http.Response, now time.Time) time.Duration {
	if response.StatusCode != http.StatusTooManyRequests && response.StatusCode != http.StatusServiceUnavailable {
		return 0
	}

	text := response.Header.Get("Retry-After")
	if seconds, err := strconv.ParseInt(text, 10, 32); err == nil && seconds >= 0 {
		return time.Duration(seconds) * time.Second
	}
	if at, err := http.ParseTime(text); err == nil {
		return max(0, at.Sub(now))
	}

	return 0
}
