package segment_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"testing"

	"github.com/tallygate/tallygate/db/reports/segment"
)

const checksumSize = 8

// bodyOf returns where the columns of a part begin and end: behind the checksum, the schema and the
// description of the batch, and before the end of the stream.
func bodyOf(part []byte) (from, to int) {
	const prefix, end = 8, 8
	from = checksumSize
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

// FuzzRollup changes a rollup behind a right checksum. Decoding must refuse it or return values of
// the segment's dictionaries.
func FuzzRollup(f *testing.F) {
	texts := build(f, day)
	rollup := sample().Encode()
	for at := range len(rollup) - checksumSize {
		f.Add(uint16(at), []byte{0xff, 0xff, 0xff, 0xff, 0x7f})
		f.Add(uint16(at), []byte{0})
	}

	f.Fuzz(func(t *testing.T, at uint16, data []byte) {
		changed := bytes.Clone(rollup)
		if int(at) >= len(changed)-checksumSize {
			return
		}
		copy(changed[checksumSize+int(at):], data)
		segment.Seal(changed)

		err := followRollup(changed, texts)
		if err != nil && !errors.Is(err, segment.ErrDamaged) && !errors.Is(err, segment.ErrVersion) {
			t.Fatalf("error %v, want ErrDamaged or ErrVersion", err)
		}
	})
}

// followRollup reads all of a rollup and follows each of its values.
func followRollup(encoded []byte, s *segment.Segment) error {
	r, err := segment.DecodeRollup(encoded)
	if err != nil {
		return err
	}

	text := func(f segment.Field, value uint32) { _ = s.Texts[f.Domain()][value] }
	each := func(l *segment.List, follow func(segment.Pair)) {
		pairs, appendErr := l.Append(nil)
		err = errors.Join(err, appendErr)
		for _, p := range pairs {
			follow(p)
		}
	}
	user := func(p segment.Pair) { text(segment.User, p.Value) }

	for i := range r.Spans() {
		totals, err := r.Totals(i, s)
		if err != nil {
			return err
		}
		each(&totals.Users, user)
		for f := segment.Field(0); int(f) < len(totals.Values); f++ {
			each(&totals.Values[f].Visitors, func(p segment.Pair) { text(f, p.Value) })
			each(&totals.Values[f].Users, func(p segment.Pair) { text(f, p.Value); text(segment.User, p.N) })
		}
		for _, n := range append(totals.Names, totals.Across...) {
			text(segment.EventName, n.Name)
			each(&n.Users, user)
		}
		for _, set := range totals.Sets {
			for _, name := range set.Names {
				text(segment.EventName, name)
			}
		}
		for _, sale := range totals.Sales {
			text(segment.EventName, sale.Name)
			text(segment.Currency, sale.Currency)
		}
		for _, h := range totals.Hidden {
			text(h.Field, h.Value)
			text(segment.EventName, h.Name)
		}
	}
	return err
}
