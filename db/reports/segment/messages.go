package segment

import (
	"encoding/binary"
	"fmt"
	"io"

	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// messages reads the messages of an Arrow IPC stream without copying them, which Arrow's own reader
// of streams does. It implements ipc.MessageReader.
type messages struct {
	rest []byte
}

// A message begins with a marker and the size of its metadata, which the body follows.
const (
	messageMarker     = 0xffffffff
	messagePrefixSize = 8
)

// Message returns the next message, or io.EOF at the end of the stream.
func (m *messages) Message() (*ipc.Message, error) {
	if len(m.rest) < messagePrefixSize || binary.LittleEndian.Uint32(m.rest) != messageMarker {
		return nil, fmt.Errorf("%w: no message", ErrDamaged)
	}
	size := binary.LittleEndian.Uint32(m.rest[4:])
	m.rest = m.rest[messagePrefixSize:]
	if size == 0 {
		return nil, io.EOF
	}

	metadata, err := m.take(uint64(size))
	if err != nil {
		return nil, err
	}
	body, err := m.take(uint64(ipc.NewMessage(metadata, memory.NewBufferBytes(nil)).BodyLen()))
	if err != nil {
		return nil, err
	}
	return ipc.NewMessage(metadata, body), nil
}

// take returns the next bytes.
func (m *messages) take(n uint64) (*memory.Buffer, error) {
	if n > uint64(len(m.rest)) {
		return nil, fmt.Errorf("%w: a message of %d bytes", ErrDamaged, n)
	}
	taken := m.rest[:n:n]
	m.rest = m.rest[n:]
	return memory.NewBufferBytes(taken), nil
}

// Retain does nothing: the memory of messages is the garbage collector's.
func (m *messages) Retain() {}

// Release does nothing.
func (m *messages) Release() {}
