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

	"github.com/tallygate/tallygate/cmd/loadgen/target"
)

// Journal is the file in which a run notes each acknowledged hit: a line of JSON on the run, then
// entrySize bytes per hit. It holds the password of the run's account, so only its owner can read
// it.
type Journal struct {
	mu   sync.Mutex
	file *os.File
	out  *bufio.Writer
	err  error // the first one
}

// Entry is one acknowledged hit. Engagement and repetition share the mark of what they belong to.
type Entry struct {
	Mark Mark
	Site uint16 // index in journalHead.Sites
	Kind kind
}

const entrySize = 11

// JournalHead tells what the entries belong to.
type JournalHead struct {
	Target   target.Target   `json:"target"`
	Run      uint16          `json:"run"`
	Seed     uint64          `json:"seed"`
	Started  int64           `json:"started"` // microseconds since 1970
	Features target.Features `json:"features"`
	Sites    []target.Site   `json:"sites"`
}

func CreateJournal(path string, head JournalHead) (*Journal, error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}

	// of an old file too
	if err := file.Chmod(0o600); err != nil {
		return nil, errors.Join(err, file.Close())
	}

	j := &Journal{file: file, out: bufio.NewWriterSize(file, 64<<10)}
	if err := json.NewEncoder(j.out).Encode(head); err != nil {
		return nil, errors.Join(err, file.Close())
	}

	return j, nil
}

// note adds an entry. Errors are told by close.
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

func (j *Journal) Close() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	return errors.Join(j.err, j.out.Flush(), j.file.Close())
}

// ReadJournal reads the head and calls each with every entry.
func ReadJournal(path string, each func(Entry) error) (head JournalHead, err error) {
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

		e := Entry{Mark: Mark(binary.LittleEndian.Uint64(b[:])), Site: binary.LittleEndian.Uint16(b[8:]), Kind: kind(b[10])}
		if int(e.Site) >= len(head.Sites) {
			return head, fmt.Errorf("%s names a site that it does not have", path)
		}
		if err := each(e); err != nil {
			return head, err
		}
	}
}
