package segment_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"testing"

	"github.com/tallygate/tallygate/db/reports/segment"
)

// bodyOf returns where the columns of a part begin and end: behind the checksum, the schema and the
// description of the batch, and before the end of the stream.
func bodyOf(part []byte) (from, to int) {
	const checksum, prefix, end = 8, 8, 8
	from = checksum
	for range 2 {
		from += prefix + int(binary.LittleEndian.Uint32(part[from+4:]))
	}
	return from, len(part) - end
}

// FuzzDecodeBody changes the columns of a part behind a right checksum, as a faulty writer could.
// Decode must refuse them or return a segment whose every index can be followed. Arrow's reader
// trusts the descriptions before the columns, and allocates what they say; only the checksum
// protects these.
func FuzzDecodeBody(f *testing.F) {
	parts := encode(f, build(f, day))
	for part := range segment.Parts {
		from, to := bodyOf(parts[part])
		for at := 0; at < to-from; at += 8 {
			f.Add(int16(part), uint16(at), []byte{0xff, 0xff, 0xff, 0x7f})
			f.Add(int16(part), uint16(at), []byte{2, 0, 0, 0, 1})
		}
	}

	f.Fuzz(func(t *testing.T, part int16, at uint16, data []byte) {
		if part < 0 || part >= int16(segment.Parts) {
			return
		}
		from, to := bodyOf(parts[part])
		if int(at) >= to-from {
			return
		}

		changed := parts
		changed[part] = bytes.Clone(parts[part])
		copy(changed[part][from+int(at):to], data)
		segment.Seal(changed[part])

		got, err := segment.Decode(changed)
		switch {
		case err == nil:
			follow(got)
		case !errors.Is(err, segment.ErrDamaged):
			t.Fatalf("error %v, want ErrDamaged", err)
		}
	})
}
