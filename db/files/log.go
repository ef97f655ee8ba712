package files

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"

	"github.com/tallygate/tallygate/db"
)

// SQLite's write-ahead log holds what was committed and not yet copied into the database file. A
// process that is killed leaves the log behind, and the next one reads it. A log that was removed,
// or replaced by an older copy, in between is an error that SQLite itself does not see: it starts
// with what is left.
//
// The shared index of the log (-shm) notices: each commit ends with the number of the last frame,
// its checksum and the log's salts in the index's header, and a mapped file survives the process.
// So this check costs a commit nothing. A clean close, also that of the sqlite3 tool, removes both
// files. A power cut may leave an older index, never a newer one than the log.
//
// The layouts are those of SQLite's file format, sections "The WAL File Format" and "The WAL-Index
// File Format".

// LogState is what the files beside a SQLite database show while no process has it open.
type LogState int

// The states of a log.
const (
	LogGood   LogState = iota // it holds every commit that its index knows of, or nothing says otherwise
	LogAbsent                 // there is a database without log and index, as after a clean close
	LogLost                   // it was removed with commits that are not in the database file
	LogStale                  // it is not the log, or not all of the log, that the last process wrote
)

// CheckLog compares the log of an embedded database with its index. No process, this one included,
// may have the database open: closing the index would drop the locks that SQLite holds on it.
// Elsewhere than on SQLite a log is good.
func CheckLog(databaseURL string) (LogState, error) {
	path, ok := db.SQLiteFile(databaseURL)
	if !ok {
		return LogGood, nil
	}

	index, err := readLogIndex(path + "-shm")
	if err != nil {
		return LogGood, err
	}

	log, err := os.Open(path + "-wal")
	if errors.Is(err, fs.ErrNotExist) {
		if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
			// there is no database yet
			return LogGood, nil
		}

		return stateWithoutLog(index), nil
	}

	if err != nil {
		return LogGood, err
	}
	defer log.Close()

	if index == nil || !index.used() {
		return LogGood, nil
	}

	return compareLog(log, index)
}

func stateWithoutLog(index *logIndex) LogState {
	switch {
	case index == nil:
		return LogAbsent
	case index.lastFrame > index.copied:
		return LogLost
	}

	// all of it was copied into the database file
	return LogGood
}

// logIndex is the header of a log's index.
type logIndex struct {
	pageSize  int
	lastFrame uint32    // of the last commit; frames are numbered from 1, and 0 means that the log was begun again
	checksum  [2]uint32 // of the last frame
	salt      [8]byte   // as in the log
	copied    uint32    // frames up to this one are in the database file
	bigEndian bool      // how the log's checksums are computed
}

// used reports whether the log was written to since the index was made.
func (i *logIndex) used() bool { return i.salt != [8]byte{} }

// The layout of the index's header, which it has twice, and of what follows.
const (
	indexHeaderSize = 48
	indexVersion    = 3_007_000
	atInitialised   = 12
	atBigEndian     = 13
	atPageSize      = 14
	atLastFrame     = 16
	atFrameChecksum = 24
	atSalt          = 32
	atChecksum      = 40
	atCopied        = 2 * indexHeaderSize
)

// readLogIndex reads an index. It is nil when there is none, or none that can be relied on.
func readLogIndex(path string) (*logIndex, error) {
	file, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer file.Close()

	var b [atCopied + 4]byte
	if _, err := io.ReadFull(file, b[:]); err != nil {
		// shorter: nothing was written yet
		return nil, nil
	}

	// A process that was killed in the middle of an update leaves one of the two copies whole.
	native := binary.NativeEndian
	for _, h := range [][]byte{b[:indexHeaderSize], b[indexHeaderSize : 2*indexHeaderSize]} {
		var sum [2]uint32
		addChecksum(&sum, h[:atChecksum], native)

		if native.Uint32(h) != indexVersion || h[atInitialised] == 0 || !equalChecksum(sum, h[atChecksum:], native) {
			continue
		}

		size := int(native.Uint16(h[atPageSize:]))
		return &logIndex{
			pageSize:  size&0xfe00 + size&1<<16,
			lastFrame: native.Uint32(h[atLastFrame:]),
			checksum:  [2]uint32{native.Uint32(h[atFrameChecksum:]), native.Uint32(h[atFrameChecksum+4:])},
			salt:      [8]byte(h[atSalt:]),
			copied:    native.Uint32(b[atCopied:]),
			bigEndian: h[atBigEndian] != 0,
		}, nil
	}

	return nil, nil
}

// addChecksum continues SQLite's checksum over bytes whose number is a multiple of 8.
func addChecksum(sum *[2]uint32, b []byte, order binary.ByteOrder) {
	for ; len(b) >= 8; b = b[8:] {
		sum[0] += order.Uint32(b) + sum[1]
		sum[1] += order.Uint32(b[4:]) + sum[0]
	}
}

func equalChecksum(sum [2]uint32, b []byte, order binary.ByteOrder) bool {
	return sum[0] == order.Uint32(b) && sum[1] == order.Uint32(b[4:])
}

// The layout of a log.
const (
	logHeaderSize   = 32
	logAtSalt       = 16
	logAtChecksum   = 24
	frameHeaderSize = 24
	frameAtSalt     = 8
	frameAtChecksum = 16
)

// maxNewerLogs is by how many generations a log may be ahead of its index, after a power cut that
// kept an older index. The first half of a log's salt counts generations, from a random number.
const maxNewerLogs = 1 << 16

// compareLog reads the log as SQLite will, up to the last frame that the index knows.
func compareLog(file io.Reader, index *logIndex) (LogState, error) {
	log := bufio.NewReaderSize(file, 1<<20)
	var header [logHeaderSize]byte
	if _, err := io.ReadFull(log, header[:]); err != nil {
		// emptied
		return stateWithoutLog(index), nil
	}

	salt := [8]byte(header[logAtSalt:])
	ahead := int32(binary.BigEndian.Uint32(salt[:]) - binary.BigEndian.Uint32(index.salt[:]))
	switch {
	case salt == index.salt:
	case ahead > 0 && ahead <= maxNewerLogs:
		return LogGood, nil
	case ahead == -1 && index.lastFrame == 0:
		// begun again in the index, not in the file yet; all of it was copied before
		return LogGood, nil
	default:
		return LogStale, nil
	}

	var order binary.ByteOrder = binary.LittleEndian

	if index.bigEndian {
		order = binary.BigEndian
	}

	var sum [2]uint32
	addChecksum(&sum, header[:logAtChecksum], order)

	frame := make([]byte, frameHeaderSize+index.pageSize)
	for range index.lastFrame {
		if _, err := io.ReadFull(log, frame); err != nil {
			return LogStale, nil
		}

		addChecksum(&sum, frame[:8], order)
		addChecksum(&sum, frame[frameHeaderSize:], order)

		if !bytes.Equal(frame[frameAtSalt:frameAtChecksum], salt[:]) || !equalChecksum(sum, frame[frameAtChecksum:], binary.BigEndian) {
			return LogStale, nil
		}
	}

	if index.lastFrame > 0 && sum != index.checksum {
		return LogStale, nil
	}

	return LogGood, nil
}

// SetLogAside renames a stale log, which SQLite would otherwise apply, and removes its index. It
// returns the log's new name, or "" when there was none. No process may have the database open.
func SetLogAside(databaseURL string, now time.Time) (name string, err error) {
	path, ok := db.SQLiteFile(databaseURL)
	if !ok {
		return "", nil
	}

	name = fmt.Sprintf("%s-wal.unused-%d", path, now.Unix())
	if err := os.Rename(path+"-wal", name); errors.Is(err, fs.ErrNotExist) {
		name = ""
	} else if err != nil {
		return "", err
	}

	if err := os.Remove(path + "-shm"); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}

	return name, nil
}

// QuickCheck reads the whole of a SQLite database and returns an error that names its first
// inconsistency. On PostgreSQL it does nothing.
func (s *Store) QuickCheck(ctx context.Context) error {
	if s.db.IsPostgres() {
		return nil
	}

	var found string
	if err := s.db.Read.QueryRowContext(ctx, "PRAGMA quick_check(1)").Scan(&found); err != nil {
		return err
	}
	if found != "ok" {
		return errors.New(found)
	}

	return nil
}
