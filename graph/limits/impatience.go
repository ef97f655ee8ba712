package limits

import (
	"context"
	"crypto/sha256"
	"net/http"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
)

// impatience counts the callers that ignore Retry-After. Their further requests are refused after a
// pause, unread, until the time they were sent. It recognises a caller by its credentials, so no
// lookup is needed. It is bounded, and safe for concurrent use.
type impatience struct {
	mu   sync.Mutex
	seen *simplelru.LRU[credential, refusals]
}

// refusals are those of one caller.
type refusals struct {
	count int // since first
	first time.Time
	until time.Time // Retry-After of the last one
}

const (
	freeRefusals   = 20 // in a minute, before a caller is refused unread
	refusalPause   = 500 * time.Millisecond
	refusedCallers = 10_000
)

// credential is a hash of the headers that authenticate a caller.
type credential [sha256.Size]byte

// credentialOf returns the credential of a request. It is false for a request without one.
func credentialOf(r *http.Request) (credential, bool) {
	authorization, cookies := r.Header.Get("Authorization"), r.Header.Get("Cookie")
	return sha256.Sum256([]byte(authorization + "\x00" + cookies)), authorization != "" || cookies != ""
}

func newImpatience() *impatience {
	seen, err := simplelru.NewLRU[credential, refusals](refusedCallers, nil)
	if err != nil {
		// Only a size below 1 fails.
		panic(err)
	}
	return &impatience{seen: seen}
}

// add counts a refusal with the time after which the caller may try again.
func (i *impatience) add(c credential, retryAfter time.Duration, now time.Time) {
	i.mu.Lock()
	defer i.mu.Unlock()

	known, _ := i.seen.Get(c)
	if since := now.Sub(known.first); since < 0 || since >= time.Minute {
		known = refusals{first: now}
	}

	known.count++
	known.until = now.Add(retryAfter)
	i.seen.Add(c, known)
}

// wait returns the remaining wait of a caller that was refused too often, or 0.
func (i *impatience) wait(c credential, now time.Time) time.Duration {
	i.mu.Lock()
	defer i.mu.Unlock()
	known, ok := i.seen.Peek(c)
	if !ok || known.count < freeRefusals {
		return 0
	}
	return min(max(known.until.Sub(now), 0), time.Minute)
}

// pause waits for d, or until ctx ends.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
