package files

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"

	"github.com/tallygate/tallygate/db"
)

// SQLite's write-ahead log holds commits that are not yet copied into the database file. A killed
// process leaves the log behind, and the next process reads it. SQLite does not detect a log that
// was removed or replaced by an older copy in between: it starts with the remaining commits.
//
// The log's shared index (-shm) detects it. Each commit writes the number of the last frame, its
// checksum and the log's salts to the index's header, and the mapped file survives the process. So
// this check costs a commit nothing. A clean close, also by the sqlite3 tool, removes both files. A
// power failure can leave an older index, never a newer one than the log.
//
// For the layouts see SQLite's file format, sections "The WAL File Format" and "The WAL-Index File
// Format".

// LogState is the state of a SQLite database's log while no process has the database open.
type LogState int

// The states of a log.
const (
	LogGood   LogState = iota // it holds every commit that the index records, or there is no usable index
	LogAbsent                 // the database has neither log nor index, as after a clean close
	LogLost                   // it was removed, with commits that are not in the database file
	LogStale                  // it is another log, or only a part of the log, than the last process wrote
)

// CheckLog compares the log of an embedded database with its index. No process, including this one,
// must have the database open: closing the index would release SQLite's locks on it. For PostgreSQL
// it returns LogGood.
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
			// There is no database yet.
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

// stateWithoutLog returns the state of a missing or empty log.
func stateWithoutLog(index *logIndex) LogState {
	switch {
	case index == nil:
		return LogAbsent
	case index.lastFrame > index.copied:
		return LogLost
	}

	// All frames were copied into the database file.
	return LogGood
}

// logIndex is the header of a log's index.
type logIndex struct {
	pageSize  int
	lastFrame uint32    // of the last commit, from 1; 0 after a restart of the log
	checksum  [2]uint32 // of the last frame
	salt      [8]byte   // as in the log
	copied    uint32    // frames up to this one are in the database file
	bigEndian bool      // how the log's checksums are computed
}

// used reports whether the log was written since the index was created.
func (i *logIndex) used() bool { return i.salt != [8]byte{} }

// The layout of the index's header, which is stored twice, and of the field after it.
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

// readLogIndex reads an index. It returns nil if the index is missing, incomplete or invalid.
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
		// A shorter file was never written.
		return nil, nil
	}

	// A process that was killed during an update leaves one of the two copies intact.
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

// addChecksum continues SQLite's checksum over bytes. Their number must be a multiple of 8.
func addChecksum(sum *[2]uint32, b []byte, order binary.ByteOrder) {
	for ; len(b) >= 8; b = b[8:] {
		sum[0] += order.Uint32(b) + sum[1]
		sum[1] += order.Uint32(b[4:]) + sum[0]
	}
}

// equalChecksum reports whether b begins with a checksum.
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

// maxNewerLogs is how many generations a log can be ahead of its index, after a power failure that
// kept an older index. The first half of a log's salt counts generations, from a random number.
const maxNewerLogs = 1 << 16

// compareLog reads the log as SQLite does, up to the last frame in the index.
func compareLog(file io.Reader, index *logIndex) (LogState, error) {
	log := bufio.NewReaderSize(file, 1<<20)
	var header [logHeaderSize]byte
	if _, err := io.ReadFull(log, header[:]); err != nil {
		// The log is empty.
		return stateWithoutLog(index), nil
	}

	salt := [8]byte(header[logAtSalt:])
	ahead := int32(binary.BigEndian.Uint32(salt[:]) - binary.BigEndian.Uint32(index.salt[:]))
	switch {
	case salt == index.salt:
	case ahead > 0 && ahead <= maxNewerLogs:
		return LogGood, nil
	case ahead == -1 && index.lastFrame == 0:
		// The log was restarted in the index, but not in the file yet. All frames were copied
		// before.
		return LogGood, nil
	default:
		return LogStale, nil
	}

	if !hasFrames(log, header, index) {
		return LogStale, nil
	}
	return LogGood, nil
}

// hasFrames reports whether a log, read after its header, has all frames up to the last one in the
// index, with the index's salt and checksums.
func hasFrames(log io.Reader, header [logHeaderSize]byte, index *logIndex) bool {
	var order binary.ByteOrder = binary.LittleEndian
	if index.bigEndian {
		order = binary.BigEndian
	}

	var sum [2]uint32
	addChecksum(&sum, header[:logAtChecksum], order)

	frame := make([]byte, frameHeaderSize+index.pageSize)
	for range index.lastFrame {
		if _, err := io.ReadFull(log, frame); err != nil {
			return false
		}

		addChecksum(&sum, frame[:8], order)
		addChecksum(&sum, frame[frameHeaderSize:], order)

		if !bytes.Equal(frame[frameAtSalt:frameAtChecksum], index.salt[:]) ||
			!equalChecksum(sum, frame[frameAtChecksum:], binary.BigEndian) {
			return false
		}
	}

	return index.lastFrame == 0 || sum == index.checksum
}

// SetLogAside renames a stale log, which SQLite would otherwise apply, and removes its index. It
// returns the log's new name, or "" without a log. No process must have the database open.
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
