package segment_test

import (
	"bytes"
	"errors"
	"testing"

	"github.com/tallygate/tallygate/db/reports/segment"
)

// The sizes of checksums, in bytes.
const (
	checksumSize = 4
	rollupHead   = 8
)

// FuzzDecodeBody changes what follows the right checksum of a part, as a faulty writer could.
// Decode must refuse it or return a segment whose every index can be followed.
func FuzzDecodeBody(f *testing.F) {
	parts := build(f, day).Encode()
	for part := range segment.Parts {
		for at := 0; at < len(parts[part])-checksumSize; at += 4 {
			f.Add(int16(part), uint16(at), []byte{0xff, 0xff, 0xff, 0x7f})
			f.Add(int16(part), uint16(at), []byte{2, 0, 0, 0, 1})
		}
		for _, cut := range []int{1, 4, 8, 20} {
			f.Add(int16(part), uint16(len(parts[part])-checksumSize+cut), []byte{})
		}
	}

	f.Fuzz(func(t *testing.T, part int16, at uint16, data []byte) {
		if part < 0 || part >= int16(segment.Parts) {
			return
		}
		changed := parts
		changed[part] = changedPart(parts[part], at, data)
		segment.Seal(changed[part])

		got, err := segment.Decode(changed)
		switch {
		case err == nil:
			follow(got)
		case !errors.Is(err, segment.ErrDamaged) && !errors.Is(err, segment.ErrVersion):
			t.Fatalf("error %v, want ErrDamaged or ErrVersion", err)
		}
	})
}

// changedPart returns a part with other bytes from a place on. A place beyond its end cuts off its
// last bytes instead, as many as the place is beyond.
func changedPart(part []byte, at uint16, data []byte) []byte {
	changed := bytes.Clone(part)
	body := changed[checksumSize:]
	if int(at) < len(body) {
		copy(body[at:], data)
		return changed
	}
	return changed[:checksumSize+len(body)-min(int(at)-len(body), len(body))]
}

// FuzzRollup changes a rollup behind a right checksum. Decoding must refuse it or return values of
// the segment's dictionaries.
func FuzzRollup(f *testing.F) {
	texts := build(f, day)
	rollup := sample().Encode()
	for at := range len(rollup) - rollupHead {
		f.Add(uint16(at), []byte{0xff, 0xff, 0xff, 0xff, 0x7f})
		f.Add(uint16(at), []byte{0})
	}

	f.Fuzz(func(t *testing.T, at uint16, data []byte) {
		changed := bytes.Clone(rollup)
		if int(at) >= len(changed)-rollupHead {
			return
		}
		copy(changed[rollupHead+int(at):], data)
		segment.SealRollup(changed)

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
		each(&totals.Joined, func(p segment.Pair) { text(segment.Source, p.Value) })
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
