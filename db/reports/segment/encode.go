package segment

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"slices"
	"unsafe"

	"github.com/tallygate/tallygate/db/model"
)

// Version is the version of the form, which every part carries.
const Version = 1

// Part is one of the encoded pieces of a segment. A piece is a head and the columns of one table.
// All numbers are little-endian. The head has 16 bytes:
//
//   - 4 bytes: the CRC-32C of all that follows
//   - 4 bytes: Version
//   - 4 bytes: the number of the part
//   - 4 bytes: the first day
//
// A column has the width of its values in bytes (4 bytes), the number of its values (4 bytes), the
// values, and zeros up to a multiple of 8 bytes. So each column is aligned and can be read in
// place.
type Part int16

// The parts of a segment.
const (
	PartDays Part = iota
	PartTexts
	PartVisits
	PartViews
	PartEvents
	PartProps
	Parts // the number of parts
)

// The sizes of heads in bytes, and the multiple of each column's size.
const (
	checksumSize = 4
	partHead     = 16
	columnHead   = 8
	alignment    = 8
)

// ErrDamaged is returned for parts that cannot be the encoding of one segment.
var ErrDamaged = errors.New("segment: damaged")

// ErrVersion is returned for parts of another version.
var ErrVersion = errors.New("segment: other version")

// Encode returns the segment's parts.
func (s *Segment) Encode() (parts [Parts][]byte) {
	for part := range Parts {
		parts[part] = seal(s.appendColumns(newPart(part, s.First), part))
	}
	return parts
}

// newPart returns the head of a part, without its checksum.
func newPart(part Part, first model.Day) []byte {
	data := make([]byte, checksumSize, partHead)
	for _, n := range [...]uint32{Version, uint32(part), uint32(first)} {
		data = binary.LittleEndian.AppendUint32(data, n)
	}
	return data
}

// appendColumns appends the columns of a part. Segment.readColumns reads them in the same order.
func (s *Segment) appendColumns(data []byte, part Part) []byte {
	switch part {
	case PartDays:
		var visits, views, events []uint32
		for _, d := range s.Days {
			visits, views, events = append(visits, d.Visits), append(views, d.Views), append(events, d.Events)
		}
		return appendValues(appendValues(appendValues(data, visits), views), events)

	case PartTexts:
		return s.appendTexts(data)

	case PartVisits:
		data = appendValues(appendValues(data, s.New), s.Bounced)
		data = appendValues(appendValues(data, s.Start), s.Engaged)
		data = appendValues(appendValues(data, s.ViewsEnd), s.EventsEnd)
		return s.appendFields(data, visits)

	case PartViews:
		data = appendValues(appendValues(data, s.ViewAt), s.ViewEngaged)
		return s.appendFields(appendValues(data, s.Scroll), views)

	case PartEvents:
		data = appendValues(appendValues(data, s.EventAt), s.Value)
		data = appendColumn(appendValues(data, s.PropsEnd), &s.Before)
		return s.appendFields(data, events)

	default:
		data = s.appendFields(data, props)
		return appendValues(appendValues(data, s.NumbersEnd), s.Numbers)
	}
}

// appendTexts appends two columns for each dictionary: where each text ends, and the bytes of all.
// The empty first text is left out.
func (s *Segment) appendTexts(data []byte) []byte {
	for f, texts := range s.Texts {
		if Field(f).Domain() != Field(f) {
			continue
		}

		ends, all := make([]uint32, 0, len(texts)), []byte(nil)
		for _, text := range texts[min(1, len(texts)):] {
			all = append(all, text...)
			ends = append(ends, uint32(len(all)))
		}
		data = appendValues(appendValues(data, ends), all)
	}
	return data
}

// appendFields appends the dictionary indexes of a table.
func (s *Segment) appendFields(data []byte, t table) []byte {
	for f := range fieldCount {
		if f.table() == t {
			data = appendColumn(data, &s.Columns[f])
		}
	}
	return data
}

// appendColumn appends a column in its width.
func appendColumn(data []byte, c *Column) []byte {
	switch {
	case c.U8 != nil:
		return appendValues(data, c.U8)
	case c.U16 != nil:
		return appendValues(data, c.U16)
	default:
		return appendValues(data, c.U32)
	}
}

// number is the type of a column's values.
type number interface {
	uint8 | uint16 | uint32 | int64 | Number
}

// sizeOf returns the bytes of a value.
func sizeOf[T number]() int { return int(unsafe.Sizeof(*new(T))) }

func appendValues[T number](data []byte, values []T) []byte {
	data = slices.Grow(data, columnHead+sizeOf[T]()*len(values)+alignment)
	data = binary.LittleEndian.AppendUint32(data, uint32(sizeOf[T]()))
	data = binary.LittleEndian.AppendUint32(data, uint32(len(values)))

	// Numbers of a fixed size cannot fail.
	data, _ = binary.Append(data, binary.LittleEndian, values)
	return append(data, make([]byte, padding(len(data)))...)
}

// padding returns how many bytes come after so many up to the next multiple of alignment.
func padding(size int) int { return -size & (alignment - 1) }

// castagnoli is the polynomial that processors compute by themselves.
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// seal writes the checksum of a part at its begin, where newPart left room.
func seal(part []byte) []byte {
	binary.LittleEndian.PutUint32(part, crc32.Checksum(part[checksumSize:], castagnoli))
	return part
}
