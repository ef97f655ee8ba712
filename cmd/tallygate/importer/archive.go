package importer

import (
	"archive/zip"
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"math"
	"path"
	"strings"
)

// Limits of an archive's directory, the list of its files. Package archive/zip makes about 300
// bytes of an entry of 46, before it returns the first one.
const (
	maxDirectory = 1 << 20  // bytes
	maxTrailer   = 65 << 10 // bytes at the end in which archive/zip looks for the trailer
	entryBytes   = 300      // about what an entry takes in memory, apart from its texts
)

var errLongDirectory = tooLarge("the list of the archive's files has more than %d bytes", maxDirectory)

// openArchive calls take for each file of an archive.
func (r *reading) openArchive(name string, file Input) error {
	archive, size, err := newArchive(file)
	if err != nil {
		return placed(err, name, 0)
	}
	size += len(archive.File) * entryBytes
	r.days.spend(size)
	defer r.days.spend(-size)

	for _, entry := range archive.File {
		base := path.Base(strings.ReplaceAll(entry.Name, `\`, "/"))
		if entry.FileInfo().IsDir() || strings.HasPrefix(base, ".") || strings.HasPrefix(entry.Name, "__MACOSX/") {
			continue
		}
		plain, err := entry.Open()
		if err != nil {
			return placed(err, name+"/"+base, 0)
		}
		err = errors.Join(r.readTable(base, plain), plain.Close())
		if err != nil {
			return err
		}
	}
	return nil
}

// newArchive opens an archive whose directory is within the limits. It returns the bytes that this
// has read.
func newArchive(file Input) (archive *zip.Reader, read int, err error) {
	if err := checkTrailer(file); err != nil {
		return nil, 0, err
	}

	// archive/zip ignores the size in the trailer, and compares the number of files modulo 65,536
	// once it has read all of them. So its reads are bounded, too.
	const limit = maxDirectory + 2*maxTrailer
	bounded := &boundedArchive{ReaderAt: file.Data, left: limit}
	archive, err = zip.NewReader(bounded, file.Size)
	read = limit - int(bounded.left)
	bounded.left = math.MaxInt64 // the contents of files have a limit of their own
	return archive, read, err
}

// boundedArchive fails when more than left bytes are read, or before the start, where wrong offsets
// lead.
type boundedArchive struct {
	io.ReaderAt
	left int64
}

func (b *boundedArchive) ReadAt(to []byte, at int64) (int, error) {
	switch b.left -= int64(len(to)); {
	case b.left < 0:
		return 0, errLongDirectory
	case at < 0:
		return 0, zip.ErrFormat
	}
	return b.ReaderAt.ReadAt(to, at)
}

// checkTrailer fails if an archive's trailer states a directory beyond the limits: archive/zip
// reserves memory for the stated number of files. It looks where archive/zip does (APPNOTE.TXT,
// sections 4.3.14 to 4.3.16), and leaves a trailer that is damaged to it.
func checkTrailer(file Input) error {
	tail, err := readAt(file, max(0, file.Size-maxTrailer), maxTrailer)
	if err != nil {
		return err
	}
	const size = 22
	at := bytes.LastIndex(tail[:max(0, len(tail)-size+4)], []byte("PK\x05\x06"))
	if at < 0 {
		return nil
	}
	end := tail[at:]
	files, listed := uint64(binary.LittleEndian.Uint16(end[10:])), uint64(binary.LittleEndian.Uint32(end[12:]))

	// ZIP64 has another trailer for numbers that are all ones here. archive/zip takes a size of 16
	// ones for one, too.
	if files == math.MaxUint16 || listed == math.MaxUint16 || binary.LittleEndian.Uint32(end[16:]) == math.MaxUint32 {
		large, err := trailer64(file, file.Size-int64(len(end)))
		if err != nil {
			return err
		}
		if large != nil {
			files, listed = binary.LittleEndian.Uint64(large[32:]), binary.LittleEndian.Uint64(large[40:])
		}
	}

	switch {
	case files > maxFiles:
		return errManyFiles
	case listed > maxDirectory:
		return errLongDirectory
	}
	return nil
}

// trailer64 returns ZIP64's trailer, to which a locator before the trailer at an offset points. It
// returns nil without one.
func trailer64(file Input, before int64) ([]byte, error) {
	const size, locatorSize = 56, 20
	locator, err := readAt(file, before-locatorSize, locatorSize)
	if len(locator) < locatorSize || string(locator[:4]) != "PK\x06\x07" {
		return nil, err
	}
	large, err := readAt(file, int64(binary.LittleEndian.Uint64(locator[8:])), size)
	if len(large) < size || string(large[:4]) != "PK\x06\x06" {
		return nil, err
	}
	return large, nil
}

// readAt reads up to size bytes, or nothing at an offset outside of the file.
func readAt(file Input, at int64, size int) ([]byte, error) {
	if at < 0 || at > file.Size {
		return nil, nil
	}
	data := make([]byte, min(int64(size), file.Size-at))
	_, err := file.Data.ReadAt(data, at)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return data, err
}
