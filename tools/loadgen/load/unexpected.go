package load

import "sync"

// Unexpected counts responses that violate the service's contract. It is safe for concurrent use.
type Unexpected struct {
	mu     sync.Mutex
	Counts map[string]int64
}

// Add counts a response under its description.
func (s *Unexpected) Add(what string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.Counts == nil {
		s.Counts = make(map[string]int64)
	}
	s.Counts[what]++
}
