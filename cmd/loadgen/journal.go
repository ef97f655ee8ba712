package main

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
)

// journal is the file in which a run notes each acknowledged hit: a line of JSON on the run, then
// entrySize bytes per hit. It holds the password of the run's account, so only its owner can read
// it.
type journal struct {
	mu   sync.Mutex
	file *os.File
	out  *bufio.Writer
	err  error // the first one
}

// entry is one acknowledged hit. Engagement and repetition share the mark of what they belong to.
type entry struct {
	mark mark
	site uint16 // index in journalHead.Sites
	kind kind
}

const entrySize = 11

// journalHead tells what the entries belong to.
type journalHead struct {
	Target   target   `json:"target"`
	Run      uint16   `json:"run"`
	Seed     uint64   `json:"seed"`
	Started  int64    `json:"started"` // microseconds since 1970
	Features features `json:"features"`
	Sites    []site   `json:"sites"`
}

func createJournal(path string, head journalHead) (*journal, error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}

	// of an old file too
	if err := file.Chmod(0o600); err != nil {
		return nil, errors.Join(err, file.Close())
	}

	j := &journal{file: file, out: bufio.NewWriterSize(file, 64<<10)}
	if err := json.NewEncoder(j.out).Encode(head); err != nil {
		return nil, errors.Join(err, file.Close())
	}

	return j, nil
}

// note adds an entry. Errors are told by close.
func (j *journal) note(e entry) {
	var b [entrySize]byte
	binary.LittleEndian.PutUint64(b[:], uint64(e.mark))
	binary.LittleEndian.PutUint16(b[8:], e.site)
	b[10] = byte(e.kind)
	j.mu.Lock()
	defer j.mu.Unlock()

	if _, err := j.out.Write(b[:]); err != nil && j.err == nil {
		j.err = err
	}
}

func (j *journal) close() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	return errors.Join(j.err, j.out.Flush(), j.file.Close())
}

// readJournal reads the head and calls each with every entry.
func readJournal(path string, each func(entry) error) (head journalHead, err error) {
	file, err := os.Open(path)
	if err != nil {
		return head, err
	}
	defer file.Close()

	in := bufio.NewReaderSize(file, 64<<10)
	line, err := in.ReadBytes('\n')
	if err != nil {
		return head, fmt.Errorf("%s is no journal: %w", path, err)
	}
	if err := json.Unmarshal(line, &head); err != nil {
		return head, fmt.Errorf("%s is no journal: %w", path, err)
	}

	var b [entrySize]byte
	for {
		if _, err := io.ReadFull(in, b[:]); err == io.EOF {
			return head, nil
		} else if err != nil {
			return head, fmt.Errorf("%s ends within an entry: %w", path, err)
		}

		e := entry{mark: mark(binary.LittleEndian.Uint64(b[:])), site: binary.LittleEndian.Uint16(b[8:]), kind: kind(b[10])}
		if int(e.site) >= len(head.Sites) {
			return head, fmt.Errorf("%s names a site that it does not have", path)
		}
		if err := each(e); err != nil {
			return head, err
		}
	}
}
