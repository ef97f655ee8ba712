package segment

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"strconv"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/tallygate/tallygate/db/model"
)

// Version is the version of the form, which every part carries. Segments are derived data: a reader
// that meets another version treats the segment as not built.
const Version = 1

// Part is one of the encoded pieces of a segment. A piece is an Arrow IPC stream with one record
// batch, uncompressed, so that its columns are read in place, behind the stream's checksum.
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

// ErrDamaged is returned for parts that cannot be the encoding of one segment.
var ErrDamaged = errors.New("segment: damaged")

// ErrVersion is returned for parts of another version.
var ErrVersion = errors.New("segment: other version")

// Encode returns the segment's parts.
func (s *Segment) Encode() ([Parts][]byte, error) {
	var parts [Parts][]byte
	for part := range Parts {
		var err error
		if parts[part], err = encode(s.First, s.record(part)); err != nil {
			return parts, fmt.Errorf("segment: encode part %d: %w", part, err)
		}
	}
	return parts, nil
}

// record lists the columns of a part.
func (s *Segment) record(part Part) *record {
	r := new(record)

	switch part {
	case PartDays:
		r.u32("visits", daysOf(s, func(d *Day) uint32 { return d.Visits }))
		r.u32("views", daysOf(s, func(d *Day) uint32 { return d.Views }))
		r.u32("events", daysOf(s, func(d *Day) uint32 { return d.Events }))
	case PartTexts:
		r.texts(s)
	case PartVisits:
		r.u8("new", s.New)
		r.u32("start", s.Start)
		r.u32("engaged", s.Engaged)
		r.u8("bounced", s.Bounced)
		r.u32("views_end", s.ViewsEnd)
		r.u32("events_end", s.EventsEnd)
		r.fields(s, visits)
	case PartViews:
		r.u32("at", s.ViewAt)
		r.u32("engaged", s.ViewEngaged)
		r.u8("scroll", s.Scroll)
		r.fields(s, views)
	case PartEvents:
		r.u32("at", s.EventAt)
		r.i64("value", s.Value)
		r.u32("props_end", s.PropsEnd)
		if s.Before.Len() == len(s.EventAt) {
			r.column(beforeName, &s.Before)
		}
		r.fields(s, events)
	case PartProps:
		r.fields(s, props)
	}

	return r
}

func daysOf(s *Segment, count func(*Day) uint32) []uint32 {
	counts := make([]uint32, len(s.Days))
	for i := range s.Days {
		counts[i] = count(&s.Days[i])
	}
	return counts
}

// record is a record batch that is being put together.
type record struct {
	schema  []arrow.Field
	columns []arrow.Array
}

func (r *record) add(name string, column arrow.Array) {
	r.schema = append(r.schema, arrow.Field{Name: name, Type: column.DataType()})
	r.columns = append(r.columns, column)
}

func (r *record) u8(name string, values []uint8) {
	b := array.NewUint8Builder(memory.DefaultAllocator)
	b.AppendValues(values, nil)
	r.add(name, b.NewArray())
}

func (r *record) u16(name string, values []uint16) {
	b := array.NewUint16Builder(memory.DefaultAllocator)
	b.AppendValues(values, nil)
	r.add(name, b.NewArray())
}

func (r *record) u32(name string, values []uint32) {
	b := array.NewUint32Builder(memory.DefaultAllocator)
	b.AppendValues(values, nil)
	r.add(name, b.NewArray())
}

func (r *record) i64(name string, values []int64) {
	b := array.NewInt64Builder(memory.DefaultAllocator)
	b.AppendValues(values, nil)
	r.add(name, b.NewArray())
}

// fields adds the dictionary indexes of a table, named by the field's number.
func (r *record) fields(s *Segment, t table) {
	for f := range fieldCount {
		if f.table() != t {
			continue
		}

		r.column(fieldName(f), &s.Columns[f])
	}
}

// column adds a column in its width.
func (r *record) column(name string, c *Column) {
	switch {
	case c.U8 != nil:
		r.u8(name, c.U8)
	case c.U16 != nil:
		r.u16(name, c.U16)
	default:
		r.u32(name, c.U32)
	}
}

// beforeName names the column Segment.Before.
const beforeName = "before"

func fieldName(f Field) string { return "f" + strconv.Itoa(int(f)) }

// texts adds all dictionaries, one after the other, without their empty first texts.
func (r *record) texts(s *Segment) {
	domain := array.NewUint8Builder(memory.DefaultAllocator)
	text := array.NewBinaryBuilder(memory.DefaultAllocator, arrow.BinaryTypes.Binary)

	for f, texts := range s.Texts {
		for i := 1; i < len(texts); i++ {
			domain.Append(uint8(f))
			text.AppendString(texts[i])
		}
	}

	r.add("domain", domain.NewArray())
	r.add("text", text.NewArray())
}

// encode writes one part. first and the version travel in the schema's metadata.
func encode(first model.Day, r *record) ([]byte, error) {
	metadata := arrow.NewMetadata([]string{"version", "first"},
		[]string{strconv.Itoa(Version), strconv.Itoa(int(first))})
	schema := arrow.NewSchema(r.schema, &metadata)

	rows := int64(0)
	if len(r.columns) > 0 {
		rows = int64(r.columns[0].Len())
	}

	batch := array.NewRecordBatch(schema, r.columns, rows)
	defer batch.Release()

	var buffer bytes.Buffer
	buffer.Write(make([]byte, checksumSize))

	w := ipc.NewWriter(&buffer, ipc.WithSchema(schema))
	if err := w.Write(batch); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return seal(buffer.Bytes()), nil
}

// castagnoli is the polynomial that processors compute by themselves.
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// seal writes the checksum of a stream before it, in the place that encode left.
func seal(part []byte) []byte {
	binary.LittleEndian.PutUint64(part, uint64(crc32.Checksum(part[checksumSize:], castagnoli)))
	return part
}

// checksumSize is 8, so that the stream and with it each column stays aligned.
const checksumSize = 8
