package load

import "sync"

// Counter counts by name. It is safe for concurrent use; Counts is read after the last Add.
type Counter struct {
	mu     sync.Mutex
	Counts map[string]int64
}

// Add counts one more of a name.
func (c *Counter) Add(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.Counts == nil {
		c.Counts = make(map[string]int64)
	}
	c.Counts[name]++
}
