package segment

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math"
	"slices"
	"strconv"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/ipc"

	"github.com/tallygate/tallygate/db/model"
)

// MaxPart bounds an encoded part, in bytes.
const MaxPart = 1 << 30

// Decode reads the parts of a segment and checks every index, so that a decoded segment cannot make
// a reader fail. The segment's columns and texts alias the parts. Parts that contradict each other or
// themselves are ErrDamaged, parts of another version ErrVersion.
func Decode(parts [Parts][]byte) (*Segment, error) {
	s := new(Segment)

	for part := range Parts {
		first, columns, err := open(parts[part])
		if err != nil {
			return nil, fmt.Errorf("part %d: %w", part, err)
		}
		if part == PartDays {
			s.First = first
		}
		if first != s.First {
			return nil, fmt.Errorf("%w: part %d begins on %v, not on %v", ErrDamaged, part, first, s.First)
		}

		s.take(part, columns)
		if columns.err != nil {
			return nil, fmt.Errorf("part %d: %w", part, columns.err)
		}
	}

	if err := s.check(); err != nil {
		return nil, err
	}
	return s, nil
}

// columns are the columns of a part, by name. The first failure to take one stays in err.
type columns struct {
	byName map[string]arrow.Array
	rows   int
	err    error
}

// open reads the one record batch of a part. Arrow's reader trusts lengths within a stream, so the
// checksum is verified first.
func open(part []byte) (model.Day, *columns, error) {
	if len(part) < checksumSize || len(part) > MaxPart {
		return 0, nil, fmt.Errorf("%w: %d bytes", ErrDamaged, len(part))
	}
	stream := part[checksumSize:]
	if binary.LittleEndian.Uint64(part) != uint64(crc32.Checksum(stream, castagnoli)) {
		return 0, nil, fmt.Errorf("%w: wrong checksum", ErrDamaged)
	}

	r, err := ipc.NewReaderFromMessageReader(&messages{rest: stream})
	if err != nil {
		return 0, nil, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	if !r.Next() {
		return 0, nil, fmt.Errorf("%w: no record batch: %w", ErrDamaged, r.Err())
	}

	first, err := readMetadata(r.Schema().Metadata())
	if err != nil {
		return 0, nil, err
	}

	// The batch's memory is the garbage collector's. So it is neither retained nor released.
	batch := r.RecordBatch()
	c := &columns{byName: make(map[string]arrow.Array), rows: int(batch.NumRows())}
	for i, column := range batch.Columns() {
		if column.NullN() != 0 || column.Len() != c.rows {
			return 0, nil, fmt.Errorf("%w: column %d", ErrDamaged, i)
		}
		c.byName[batch.ColumnName(i)] = column
	}
	return first, c, nil
}

func readMetadata(m arrow.Metadata) (model.Day, error) {
	version, _ := m.GetValue("version")
	if version != strconv.Itoa(Version) {
		return 0, fmt.Errorf("%w: %q", ErrVersion, version)
	}

	text, _ := m.GetValue("first")
	first, err := strconv.ParseInt(text, 10, 32)
	if err != nil {
		return 0, fmt.Errorf("%w: first day %q", ErrDamaged, text)
	}
	return model.Day(first), nil
}

// take moves the columns of a part into the segment.
func (s *Segment) take(part Part, c *columns) {
	switch part {
	case PartDays:
		s.takeDays(c)
	case PartTexts:
		s.takeTexts(c)

	case PartVisits:
		s.New, s.Bounced = c.u8("new"), c.u8("bounced")
		s.Start, s.Engaged = c.u32("start"), c.u32("engaged")
		s.ViewsEnd, s.EventsEnd = c.u32("views_end"), c.u32("events_end")
		s.takeFields(c, visits)

	case PartViews:
		s.ViewAt, s.ViewEngaged, s.Scroll = c.u32("at"), c.u32("engaged"), c.u8("scroll")
		s.takeFields(c, views)

	case PartEvents:
		s.EventAt, s.Value, s.PropsEnd = c.u32("at"), c.i64("value"), c.u32("props_end")
		if c.byName[beforeName] != nil {
			s.Before = c.column(beforeName)
		}
		s.takeFields(c, events)

	case PartProps:
		s.takeFields(c, props)
	}
}

func (s *Segment) takeDays(c *columns) {
	visits, views, events := c.u32("visits"), c.u32("views"), c.u32("events")
	if c.err != nil {
		return
	}

	s.Days = make([]Day, c.rows)
	for i := range s.Days {
		s.Days[i] = Day{visits[i], views[i], events[i]}
	}
}

func (s *Segment) takeTexts(c *columns) {
	domains := c.u8("domain")
	texts, ok := c.byName["text"].(*array.Binary)
	if !ok || texts.ValidateFull() != nil {
		c.err = fmt.Errorf("%w: no texts", ErrDamaged)
	}
	if c.err != nil {
		return
	}

	var sizes [fieldCount]int
	for _, domain := range domains {
		if domain >= uint8(fieldCount) || Field(domain).Domain() != Field(domain) {
			c.err = fmt.Errorf("%w: dictionary %d", ErrDamaged, domain)
			return
		}
		sizes[domain]++
	}

	for f, size := range sizes {
		if Field(f).Domain() == Field(f) {
			s.Texts[f] = append(make([]string, 0, size+1), "")
		}
	}
	for i, domain := range domains {
		s.Texts[domain] = append(s.Texts[domain], texts.ValueString(i))
	}
}

func (s *Segment) takeFields(c *columns, t table) {
	for f := range fieldCount {
		if f.table() != t {
			continue
		}

		s.Columns[f] = c.column(fieldName(f))
	}
}

// column returns a column in the width that it was encoded with.
func (c *columns) column(name string) Column {
	switch column := c.byName[name].(type) {
	case *array.Uint8:
		return Column{U8: column.Uint8Values()}
	case *array.Uint16:
		return Column{U16: column.Uint16Values()}
	case *array.Uint32:
		return Column{U32: column.Uint32Values()}
	}
	c.err = fmt.Errorf("%w: no column %s", ErrDamaged, name)
	return Column{}
}

func (c *columns) u8(name string) []uint8 {
	return values(c, name, (*array.Uint8).Uint8Values)
}

func (c *columns) u32(name string) []uint32 {
	return values(c, name, (*array.Uint32).Uint32Values)
}

func (c *columns) i64(name string) []int64 {
	return values(c, name, (*array.Int64).Int64Values)
}

func values[Array arrow.Array, Value any](c *columns, name string, of func(Array) []Value) []Value {
	column, ok := c.byName[name].(Array)
	if !ok {
		c.err = fmt.Errorf("%w: no column %s", ErrDamaged, name)
		return nil
	}
	return of(column)
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
			return fmt.Errorf("%w: %s", ErrDamaged, fieldName(f))
		}
	}

	if n := s.Before.Len(); n != 0 && n != len(s.EventAt) {
		return fmt.Errorf("%w: %s", ErrDamaged, beforeName)
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
