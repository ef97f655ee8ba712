package main

import (
	"bytes"
	"fmt"
	"sync"
)

// visitors is the source of one connection: it sends the mix and notes what is acknowledged.
type visitors struct {
	mixer     *mixer
	journal   *journal // nil: answers do not matter
	surprises *surprises
	current   hit
}

func (v *visitors) next() []byte {
	v.current = v.mixer.hit()
	return v.mixer.next(&v.current)
}

func (v *visitors) done(a answer, err error) {
	h := &v.current
	switch {
	case v.journal == nil || err != nil || a.status == 503 || a.status == 429:
		// nothing was promised
		return
	case a.status != h.want || h.kind == purchase && !accepted(a):
		v.surprises.add(fmt.Sprintf("%d %s instead of %d", a.status, codeOf(a.body), h.want))
	case h.kind != bot && h.kind != bad:
		v.journal.note(entry{mark: h.mark, site: uint16(h.site), kind: h.kind})
	}
}

// accepted reports whether a call that succeeded was stored, as far as the answer tells.
func accepted(a answer) bool { return a.status == 204 || bytes.Contains(a.body, []byte(`"recorded"`)) }

// surprises counts answers that no server of ours may give.
type surprises struct {
	mu    sync.Mutex
	count map[string]int64
}

func (s *surprises) add(what string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.count == nil {
		s.count = make(map[string]int64)
	}
	s.count[what]++
}
