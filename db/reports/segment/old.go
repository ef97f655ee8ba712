package segment

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"strconv"
	"unsafe"

	"github.com/tallygate/tallygate/db/model"
)

// Programs of before the first release wrote parts of version 1: a checksum of 8 bytes, then a stream of
// Arrow IPC with a schema and one record batch. The worker rewrites them. Delete this file in the release
// after the first one.

// DecodeOld is Decode for parts of version 1.
func DecodeOld(parts [Parts][]byte) (*Segment, error) {
	s := new(Segment)
	for part := range Parts {
		if err := s.readOld(part, parts[part]); err != nil {
			return nil, err
		}
	}
	if err := s.check(); err != nil {
		return nil, err
	}
	return s, nil
}

// DecodeOldTexts is DecodeTexts for parts of version 1.
func DecodeOldTexts(days, texts []byte) (*Segment, error) {
	s := new(Segment)
	if err := s.readOld(PartDays, days); err != nil {
		return nil, err
	}
	if err := s.readOld(PartTexts, texts); err != nil {
		return nil, err
	}
	return s, nil
}

func (s *Segment) readOld(part Part, data []byte) error {
	first, c, err := openOld(data)
	switch {
	case err != nil:
		return fmt.Errorf("part %d: %w", part, err)
	case part == PartDays:
		s.First = first
	case first != s.First:
		return fmt.Errorf("%w: part %d begins on %v, not on %v", ErrDamaged, part, first, s.First)
	}

	s.readOldColumns(c, part)
	if c.err != nil {
		return fmt.Errorf("part %d: %w", part, c.err)
	}
	return nil
}

func (s *Segment) readOldColumns(c *oldColumns, part Part) {
	switch part {
	case PartDays:
		s.setDays(&c.columns, oldValues[uint32](c, "visits"), oldValues[uint32](c, "views"), oldValues[uint32](c, "events"))
	case PartTexts:
		s.readOldTexts(c)

	case PartVisits:
		s.New, s.Bounced = oldValues[uint8](c, "new"), oldValues[uint8](c, "bounced")
		s.Start, s.Engaged = oldValues[uint32](c, "start"), oldValues[uint32](c, "engaged")
		s.ViewsEnd, s.EventsEnd = oldValues[uint32](c, "views_end"), oldValues[uint32](c, "events_end")
		s.readOldFields(c, visits)

	case PartViews:
		s.ViewAt, s.ViewEngaged = oldValues[uint32](c, "at"), oldValues[uint32](c, "engaged")
		s.Scroll = oldValues[uint8](c, "scroll")
		s.readOldFields(c, views)

	case PartEvents:
		s.EventAt, s.Value = oldValues[uint32](c, "at"), oldValues[int64](c, "value")
		s.PropsEnd = oldValues[uint32](c, "props_end")
		if _, ok := c.byName["before"]; ok {
			s.Before = c.column("before")
		}
		s.readOldFields(c, events)

	default:
		s.readOldFields(c, props)
	}
}

func (s *Segment) readOldFields(c *oldColumns, t table) {
	for f := range addedFields {
		if f.table() == t {
			s.Columns[f] = c.column("f" + strconv.Itoa(int(f)))
		}
	}
	if t == visits {
		s.addFields()
	}
}

// readOldTexts reads the texts of all dictionaries, which are in one column.
func (s *Segment) readOldTexts(c *oldColumns) {
	domains, texts := oldValues[uint8](c, "domain"), c.byName["text"]
	if c.err != nil {
		return
	}
	ends := view[uint32](texts.offsets)
	if c.rows > 0 && len(ends) > 0 {
		ends = ends[1:]
	}
	if len(ends) < c.rows {
		c.fail("texts are missing")
		return
	}
	for f := range addedFields {
		if f.Domain() == f {
			s.Texts[f] = []string{""}
		}
	}

	begin := uint32(0)
	for i, domain := range domains {
		end := ends[i]
		if domain >= uint8(addedFields) || Field(domain).Domain() != Field(domain) || end < begin || int(end) > len(texts.data) {
			c.fail("a text out of range")
			return
		}
		s.Texts[domain] = append(s.Texts[domain], unsafe.String(unsafe.SliceData(texts.data[begin:]), end-begin))
		begin = end
	}
	s.addTexts()
}

// oldColumn is a column of a record batch.
type oldColumn struct {
	width   int    // of an integer, in bytes; 0 for texts
	offsets []byte // of texts
	data    []byte // integers, or the bytes of all texts
}

// oldColumns are the columns of a part by name.
type oldColumns struct {
	columns // for its err
	byName  map[string]oldColumn
	rows    int
}

func oldValues[T number](c *oldColumns, name string) []T {
	column := c.byName[name]
	if column.width != sizeOf[T]() || len(column.data)/column.width < c.rows {
		c.fail("no column " + name)
		return nil
	}
	return view[T](column.data[:column.width*c.rows])
}

func (c *oldColumns) column(name string) Column {
	switch c.byName[name].width {
	case 1:
		return Column{U8: oldValues[uint8](c, name)}
	case 2:
		return Column{U16: oldValues[uint16](c, name)}
	default:
		return Column{U32: oldValues[uint32](c, name)}
	}
}

// openOld verifies the checksum of a part and reads the descriptions of its columns.
func openOld(part []byte) (model.Day, *oldColumns, error) {
	const checksum = 8
	if len(part) < checksum || len(part) > MaxPart ||
		binary.LittleEndian.Uint64(part) != uint64(crc32.Checksum(part[checksum:], castagnoli)) {
		return 0, nil, fmt.Errorf("%w: wrong checksum", ErrDamaged)
	}

	stream := flat{data: part[checksum:]}
	schema := stream.message()
	batch := stream.message()
	rows := batch.u64(batch.field(batch.at, 0))
	if stream.failed || rows > MaxPart {
		return 0, nil, fmt.Errorf("%w: no record batch", ErrDamaged)
	}
	c := &oldColumns{byName: make(map[string]oldColumn), rows: int(rows)}
	c.read(&schema, &batch)

	metadata := make(map[string]string)
	for _, pair := range schema.vector(schema.field(schema.at, 2), 4) {
		pair = schema.follow(pair)
		metadata[schema.text(schema.field(pair, 0))] = schema.text(schema.field(pair, 1))
	}
	if version := metadata["version"]; version != "1" && !schema.failed {
		return 0, nil, fmt.Errorf("%w: %q", ErrVersion, version)
	}
	first, err := strconv.ParseInt(metadata["first"], 10, 32)
	if schema.failed || batch.failed || err != nil {
		return 0, nil, fmt.Errorf("%w: descriptions of columns", ErrDamaged)
	}
	return model.Day(first), c, nil
}

// read lists the columns of a schema with their buffers of a record batch. Each column has a buffer of
// nulls, which are not used, and texts have one of offsets.
func (c *oldColumns) read(schema, batch *flat) {
	const aText = 4 // the number of the type Binary
	buffers := batch.vector(batch.field(batch.at, 2), 16)
	next := func() []byte {
		if len(buffers) == 0 {
			batch.failed = true
			return nil
		}
		at := buffers[0]
		buffers = buffers[1:]
		return batch.buffer(batch.u64(at), batch.u64(at+8))
	}

	for _, field := range schema.vector(schema.field(schema.at, 1), 4) {
		field = schema.follow(field)
		var column oldColumn
		next()
		if schema.u8(schema.field(field, 2)) == aText {
			column.offsets = next()
		} else {
			column.width = int(schema.u32(schema.field(schema.follow(schema.field(field, 3)), 0))) / 8
		}
		column.data = next()
		c.byName[schema.text(schema.field(field, 0))] = column
	}
}

// flat reads a message of FlatBuffers. Positions are those in data, and 0 is the position of an absent
// value. A position out of range makes the message failed.
type flat struct {
	data   []byte
	at     int    // the table of the message's header
	body   []byte // the buffers of a record batch
	failed bool
}

// message returns the next message of a stream, which it shortens.
func (f *flat) message() flat {
	const prefix = 8 // a marker and the size of the description
	size := int(f.u32(4))
	if f.failed || size > len(f.data)-prefix {
		f.failed = true
		return flat{failed: true}
	}

	m := flat{data: f.data[prefix : prefix+size]}
	root := m.follow(0)
	m.at = m.follow(m.field(root, 2))
	length := m.u64(m.field(root, 3))
	rest := f.data[prefix+size:]
	if m.failed || length > uint64(len(rest)) {
		f.failed = true
		return flat{failed: true}
	}
	m.body, f.data = rest[:length], rest[length:]
	return m
}

// bytes returns n bytes at a position.
func (f *flat) bytes(at, n int) []byte {
	if f.failed || at < 0 || n < 0 || at > len(f.data)-n {
		f.failed = true
		return make([]byte, 8)[:min(8, max(n, 0))]
	}
	return f.data[at : at+n]
}

func (f *flat) u8(at int) uint8   { return f.bytes(at, 1)[0] }
func (f *flat) u16(at int) uint16 { return binary.LittleEndian.Uint16(f.bytes(at, 2)) }
func (f *flat) u32(at int) uint32 { return binary.LittleEndian.Uint32(f.bytes(at, 4)) }

// u64 returns a number, 0 if it is absent.
func (f *flat) u64(at int) uint64 {
	if at == 0 {
		return 0
	}
	return binary.LittleEndian.Uint64(f.bytes(at, 8))
}

// follow returns the position that an offset leads to.
func (f *flat) follow(at int) int { return at + int(f.u32(at)) }

// field returns the position of the n-th field of a table, 0 if it is absent.
func (f *flat) field(table, n int) int {
	fields := table - int(int32(f.u32(table)))
	if entry := 4 + 2*n; entry+2 <= int(f.u16(fields)) {
		if offset := int(f.u16(fields + entry)); offset > 0 {
			return table + offset
		}
	}
	return 0
}

// vector returns the positions of a vector's elements of so many bytes.
func (f *flat) vector(at, size int) (elements []int) {
	if at == 0 {
		return nil
	}
	at = f.follow(at)
	n := int(f.u32(at))
	f.bytes(at+4, n*size)
	for i := 0; i < n && !f.failed; i++ {
		elements = append(elements, at+4+i*size)
	}
	return elements
}

// text returns a text, which is empty if it is absent.
func (f *flat) text(at int) string {
	if at == 0 {
		return ""
	}
	at = f.follow(at)
	return string(f.bytes(at+4, int(f.u32(at))))
}

// buffer returns bytes of the body.
func (f *flat) buffer(from, size uint64) []byte {
	if size > uint64(len(f.body)) || from > uint64(len(f.body))-size {
		f.failed = true
		return nil
	}
	return f.body[from : from+size]
}
