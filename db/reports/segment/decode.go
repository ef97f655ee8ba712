package segment

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math"
	"slices"
	"unsafe"

	"github.com/tallygate/tallygate/db/model"
)

// MaxPart bounds an encoded part, in bytes.
const MaxPart = 1 << 30

// Decode reads the parts of a segment and checks every index, so that a decoded segment cannot make
// a reader fail. The segment's columns and texts alias the parts. Parts that contradict each other
// or themselves are ErrDamaged, parts of another version ErrVersion.
func Decode(parts [Parts][]byte) (*Segment, error) {
	s := new(Segment)
	for part := range Parts {
		if err := s.read(part, parts[part]); err != nil {
			return nil, err
		}
	}
	if err := s.check(); err != nil {
		return nil, err
	}
	return s, nil
}

// DecodeTexts reads the days and the dictionaries of a segment, without its columns, for its
// rollup.
func DecodeTexts(days, texts []byte) (*Segment, error) {
	s := new(Segment)
	if err := s.read(PartDays, days); err != nil {
		return nil, err
	}
	if err := s.read(PartTexts, texts); err != nil {
		return nil, err
	}
	return s, nil
}

// read moves the columns of a part into the segment.
func (s *Segment) read(part Part, data []byte) error {
	first, columns, err := open(part, data)
	switch {
	case err != nil:
		return fmt.Errorf("part %d: %w", part, err)
	case part == PartDays:
		s.First = first
	case first != s.First:
		return fmt.Errorf("%w: part %d begins on %v, not on %v", ErrDamaged, part, first, s.First)
	}

	s.readColumns(columns, part)
	if columns.err == nil && len(columns.rest) > 0 {
		columns.fail("bytes behind the last column")
	}
	if columns.err != nil {
		return fmt.Errorf("part %d: %w", part, columns.err)
	}
	return nil
}

// open verifies the head of a part, and returns its first day and its columns.
func open(part Part, data []byte) (model.Day, *columns, error) {
	if len(data) < partHead || len(data) > MaxPart {
		return 0, nil, fmt.Errorf("%w: %d bytes", ErrDamaged, len(data))
	}
	if binary.LittleEndian.Uint32(data) != crc32.Checksum(data[checksumSize:], castagnoli) {
		return 0, nil, fmt.Errorf("%w: wrong checksum", ErrDamaged)
	}

	version, number := binary.LittleEndian.Uint32(data[4:]), binary.LittleEndian.Uint32(data[8:])
	switch {
	case version != Version:
		return 0, nil, fmt.Errorf("%w: %d", ErrVersion, version)
	case number != uint32(part):
		return 0, nil, fmt.Errorf("%w: it is part %d", ErrDamaged, number)
	}
	return model.Day(int32(binary.LittleEndian.Uint32(data[12:]))), &columns{rest: data[partHead:]}, nil
}

// readColumns reads the columns that Segment.appendColumns has written.
func (s *Segment) readColumns(c *columns, part Part) {
	switch part {
	case PartDays:
		s.setDays(c, values[uint32](c), values[uint32](c), values[uint32](c))
	case PartTexts:
		s.readTexts(c)

	case PartVisits:
		s.New, s.Bounced = values[uint8](c), values[uint8](c)
		s.Start, s.Engaged = values[uint32](c), values[uint32](c)
		s.ViewsEnd, s.EventsEnd = values[uint32](c), values[uint32](c)
		s.readFields(c, visits)

	case PartViews:
		s.ViewAt, s.ViewEngaged, s.Scroll = values[uint32](c), values[uint32](c), values[uint8](c)
		s.readFields(c, views)

	case PartEvents:
		s.EventAt, s.Value, s.PropsEnd, s.Before = values[uint32](c), values[int64](c), values[uint32](c), c.column()
		s.readFields(c, events)

	default:
		s.readFields(c, props)
		s.NumbersEnd, s.Numbers = values[uint32](c), values[Number](c)
	}
}

func (s *Segment) setDays(c *columns, visits, views, events []uint32) {
	if len(views) != len(visits) || len(events) != len(visits) {
		c.fail("days of different numbers")
		return
	}

	s.Days = make([]Day, len(visits))
	for i := range s.Days {
		s.Days[i] = Day{visits[i], views[i], events[i]}
	}
}

func (s *Segment) readTexts(c *columns) {
	for f := range fieldCount {
		if f.Domain() != f {
			continue
		}

		ends, all := values[uint32](c), values[uint8](c)
		if !areEnds(ends, len(all)) {
			c.fail("texts that do not follow each other")
			return
		}

		texts, begin := make([]string, 1, 1+len(ends)), uint32(0)
		for _, end := range ends {
			texts = append(texts, unsafe.String(unsafe.SliceData(all[begin:]), end-begin))
			begin = end
		}
		s.Texts[f] = texts
	}
}

func (s *Segment) readFields(c *columns, t table) {
	for f := range fieldCount {
		if f.table() == t {
			s.Columns[f] = c.column()
		}
	}
}

// columns reads the columns of a part. The first failure stays in err, and later columns are empty.
type columns struct {
	rest []byte
	err  error
}

func (c *columns) fail(what string) {
	if c.err == nil {
		c.err = fmt.Errorf("%w: %s", ErrDamaged, what)
	}
	c.rest = nil
}

// next returns the width and the values of the next column.
func (c *columns) next() (width int, data []byte) {
	if len(c.rest) < columnHead {
		c.fail("a column is missing")
		return 0, nil
	}

	size := uint64(binary.LittleEndian.Uint32(c.rest)) * uint64(binary.LittleEndian.Uint32(c.rest[4:]))
	width, c.rest = int(binary.LittleEndian.Uint32(c.rest)), c.rest[columnHead:]
	if size > uint64(len(c.rest)) || int(size)+padding(int(size)) > len(c.rest) {
		c.fail("a column is too short")
		return 0, nil
	}
	data, c.rest = c.rest[:size:size], c.rest[int(size)+padding(int(size)):]
	return width, data
}

// values returns the next column. Its values must have a certain width.
func values[T number](c *columns) []T {
	width, data := c.next()
	if c.err == nil && width != sizeOf[T]() {
		c.fail("a column of another width")
	}
	if c.err != nil {
		return nil
	}
	return view[T](data)
}

// column returns the next column in the width that it was encoded with.
func (c *columns) column() Column {
	switch width, data := c.next(); width {
	case 1:
		return Column{U8: view[uint8](data)}
	case 2:
		return Column{U16: view[uint16](data)}
	case 4:
		return Column{U32: view[uint32](data)}
	}
	c.fail("a column of another width")
	return Column{}
}

// isLittleEndian reports whether this processor has numbers in the order of the form.
var isLittleEndian = binary.NativeEndian.Uint16([]byte{1, 0}) == 1

// view returns little-endian numbers in place, or a copy if the processor needs another order or
// data is not aligned.
func view[T number](data []byte) []T {
	n := len(data) / sizeOf[T]()
	begin := unsafe.SliceData(data)
	if isLittleEndian && uintptr(unsafe.Pointer(begin))%unsafe.Alignof(*new(T)) == 0 {
		return unsafe.Slice((*T)(unsafe.Pointer(begin)), n)
	}

	copied := make([]T, n)
	if _, err := binary.Decode(data, binary.LittleEndian, copied); err != nil {
		panic(err) // data has n numbers
	}
	return copied
}

// check verifies that the tables fit each other and that every index names a text.
func (s *Segment) check() error {
	total := s.Total()
	if int(total.Visits) != len(s.New) || int(total.Views) != len(s.ViewAt) || int(total.Events) != len(s.EventAt) {
		return fmt.Errorf("%w: the days have %+v", ErrDamaged, total)
	}

	propCount := s.Columns[PropName].Len()
	if !areEnds(s.ViewsEnd, len(s.ViewAt)) || !areEnds(s.EventsEnd, len(s.EventAt)) || !areEnds(s.PropsEnd, propCount) {
		return fmt.Errorf("%w: rows that belong to none", ErrDamaged)
	}

	rows := [tableCount]int{visits: len(s.New), views: len(s.ViewAt), events: len(s.EventAt), props: propCount}
	for f := range fieldCount {
		c := &s.Columns[f]
		if c.Len() != rows[f.table()] || !c.below(len(s.Texts[f.Domain()])) {
			return fmt.Errorf("%w: field %d", ErrDamaged, f)
		}
	}

	if s.Before.Len() != len(s.EventAt) {
		return fmt.Errorf("%w: places of events", ErrDamaged)
	}

	if n := len(s.NumbersEnd); n != 0 && n != len(s.EventAt) || !areEnds(s.NumbersEnd, len(s.Numbers)) {
		return fmt.Errorf("%w: numbers that belong to no event", ErrDamaged)
	}
	for _, n := range s.Numbers {
		if value, ok := n.Value(); ok && (NumberOf(value) != n || math.IsInf(value, 0)) {
			return fmt.Errorf("%w: a number that is none", ErrDamaged)
		}
	}

	return s.checkVisitors()
}

// checkVisitors verifies that the first visit of each day is a new visitor's.
func (s *Segment) checkVisitors() error {
	at := 0
	for _, d := range s.Days {
		if d.Visits > 0 && s.New[at] != 1 {
			return fmt.Errorf("%w: a day begins with the visitor of another", ErrDamaged)
		}
		at += int(d.Visits)
	}
	return nil
}

// areEnds reports whether ends never falls and ends at n.
func areEnds(ends []uint32, n int) bool {
	if len(ends) == 0 {
		return n == 0
	}
	return slices.IsSorted(ends) && int(ends[len(ends)-1]) == n
}

// below reports whether every index is below n.
func (c *Column) below(n int) bool {
	switch {
	case c.U8 != nil:
		return n > math.MaxUint8 || len(c.U8) == 0 || int(highest(c.U8)) < n
	case c.U16 != nil:
		return n > math.MaxUint16 || len(c.U16) == 0 || int(highest(c.U16)) < n
	default:
		return len(c.U32) == 0 || int(highest(c.U32)) < n
	}
}

// highest returns the highest of values. Four independent maxima take a third of slices.Max's time,
// each of whose steps waits for the one before.
func highest[T uint8 | uint16 | uint32](values []T) T {
	var a, b, c, d T
	for ; len(values) >= 4; values = values[4:] {
		a, b, c, d = max(a, values[0]), max(b, values[1]), max(c, values[2]), max(d, values[3])
	}
	for _, v := range values {
		a = max(a, v)
	}
	return max(a, b, c, d)
}
