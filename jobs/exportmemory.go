package jobs

import "sync"

const (
	exportsAtOnce  = 32       // parts of daily exports under way, so that they leave places to lanes of other kinds
	exportsWritten = 4        // parts of daily exports whose bodies are written at once
	exportBytes    = 32 << 20 // no further one is begun while those under way have so many bytes
)

// exportMemory bounds the bodies of daily exports in memory: exportBytes and what exportsWritten
// parts have.
type exportMemory struct {
	mu      sync.Mutex
	parts   int
	writing int
	bytes   int
}

// exportPart is one body's share of an exportMemory.
type exportPart struct {
	memory *exportMemory
	bytes  int // -1 while it is written
}

// begin returns nil if there is no room.
func (m *exportMemory) begin() *exportPart {
	m.mu.Lock()
	defer m.mu.Unlock()

	if m.parts >= exportsAtOnce || m.writing >= exportsWritten || m.bytes >= exportBytes {
		return nil
	}

	m.parts++
	m.writing++
	return &exportPart{memory: m, bytes: -1}
}

// written says how long the body is. A part has an end whether or not it was written.
func (p *exportPart) written(bytes int) {
	p.memory.mu.Lock()
	defer p.memory.mu.Unlock()
	p.memory.writing--
	p.bytes = bytes
	p.memory.bytes += bytes
}

func (p *exportPart) end() {
	if p.bytes < 0 {
		p.written(0)
	}
	p.memory.mu.Lock()
	defer p.memory.mu.Unlock()
	p.memory.parts--
	p.memory.bytes -= p.bytes
}
