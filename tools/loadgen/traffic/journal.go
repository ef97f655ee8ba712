package traffic

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"

	"github.com/tallygate/tallygate/tools/loadgen/target"
)

// Journal is the file that records each acknowledged hit of a run: one line of JSON about the run,
// then entrySize bytes per hit. It holds the account's password, so its mode is 0600. It is safe
// for concurrent use.
type Journal struct {
	mu   sync.Mutex
	file *os.File
	out  *bufio.Writer
	err  error // the first one
}

// Entry is one acknowledged hit. An engagement report has the mark of its page view, and a repeated
// purchase the mark of the first purchase.
type Entry struct {
	Mark Mark
	Site uint16 // index in JournalHead.Sites
	Kind Kind
}

const entrySize = 11

// JournalHead describes the run of a journal.
type JournalHead struct {
	Target   target.Target   `json:"target"`
	Run      uint16          `json:"run"`
	Seed     uint64          `json:"seed"`
	Started  int64           `json:"started"` // microseconds since 1970
	Features target.Features `json:"features"`
	Sites    []target.Site   `json:"sites"`
}

// CreateJournal creates or truncates a journal and writes its head.
func CreateJournal(path string, head JournalHead) (*Journal, error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}

	// An existing file may have another mode.
	if err := file.Chmod(0o600); err != nil {
		return nil, errors.Join(err, file.Close())
	}

	j := &Journal{file: file, out: bufio.NewWriterSize(file, 64<<10)}
	if err := json.NewEncoder(j.out).Encode(head); err != nil {
		return nil, errors.Join(err, file.Close())
	}

	return j, nil
}

// note adds an entry. Close returns write errors.
func (j *Journal) note(e Entry) {
	var b [entrySize]byte
	binary.LittleEndian.PutUint64(b[:], uint64(e.Mark))
	binary.LittleEndian.PutUint16(b[8:], e.Site)
	b[10] = byte(e.Kind)
	j.mu.Lock()
	defer j.mu.Unlock()

	if _, err := j.out.Write(b[:]); err != nil && j.err == nil {
		j.err = err
	}
}

// Close writes the buffered entries and closes the file. It returns the first error of all writes.
func (j *Journal) Close() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	return errors.Join(j.err, j.out.Flush(), j.file.Close())
}

// ReadJournal reads a journal and calls each with every entry.
func ReadJournal(path string, each func(Entry) error) (head JournalHead, err error) {
	file, err := os.Open(path)
	if err != nil {
		return head, err
	}
	defer file.Close()

	in := bufio.NewReaderSize(file, 64<<10)
	line, err := in.ReadBytes('\n')
	if err != nil {
		return head, fmt.Errorf("%s is not a journal: %w", path, err)
	}
	if err := json.Unmarshal(line, &head); err != nil {
		return head, fmt.Errorf("%s is not a journal: %w", path, err)
	}

	var b [entrySize]byte
	for {
		if _, err := io.ReadFull(in, b[:]); err == io.EOF {
			return head, nil
		} else if err != nil {
			return head, fmt.Errorf("%s ends within an entry: %w", path, err)
		}

		e := Entry{Mark: Mark(binary.LittleEndian.Uint64(b[:])), Site: binary.LittleEndian.Uint16(b[8:]),
			Kind: Kind(b[10])}
		if int(e.Site) >= len(head.Sites) {
			return head, fmt.Errorf("%s refers to a site that it does not list", path)
		}
		if err := each(e); err != nil {
			return head, err
		}
	}
}
