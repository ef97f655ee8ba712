package graph

import (
	"context"
	"crypto/sha256"
	"net/http"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
)

// refusals remembers callers that go on although they were told to wait. Their requests are refused
// without being read or looked up, after a pause, until the time that they were told. It knows
// callers by what they send to be recognised, so that no lookup is needed. It is bounded, and safe
// for concurrent use.
type refusals struct {
	mu   sync.Mutex
	seen *simplelru.LRU[credential, refusal]
}

// refusal is what is known of one caller.
type refusal struct {
	count int // since the first one
	first time.Time
	until time.Time // of the last one
}

const (
	patientRefusals  = 20 // in a minute, before a caller is refused unread
	refusalPause     = 500 * time.Millisecond
	rememberedCaller = 10_000
)

// credential is a hash of what a caller is recognised by.
type credential [sha256.Size]byte

// credentialOf returns the credential of a request. It is false for a request without one.
func credentialOf(r *http.Request) (credential, bool) {
	authorization, cookies := r.Header.Get("Authorization"), r.Header.Get("Cookie")
	return sha256.Sum256([]byte(authorization + "\x00" + cookies)), authorization != "" || cookies != ""
}

func newRefusals() *refusals {
	seen, err := simplelru.NewLRU[credential, refusal](rememberedCaller, nil)
	if err != nil {
		// only a limit below one fails
		panic(err)
	}
	return &refusals{seen: seen}
}

// note counts a refusal with the time after which the caller may try again.
func (s *refusals) note(c credential, retryAfter time.Duration, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()

	known, _ := s.seen.Get(c)
	if since := now.Sub(known.first); since < 0 || since >= time.Minute {
		known = refusal{first: now}
	}

	known.count++
	known.until = now.Add(retryAfter)
	s.seen.Add(c, known)
}

// wait returns how long a caller that was refused too often still has to wait, or zero.
func (s *refusals) wait(c credential, now time.Time) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	known, ok := s.seen.Peek(c)
	if !ok || known.count < patientRefusals {
		return 0
	}
	return min(max(known.until.Sub(now), 0), time.Minute)
}

// pause waits, or until ctx ends.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
