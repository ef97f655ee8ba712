package segment

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math"
)

// rollupVersion is the version of the form of rollups. A rollup of another version is not used: its
// figures are counted from the segment's columns.
const rollupVersion = 1

// Rollup holds figures of a segment that are counted already: those of each local day within each
// UTC day. Figures of local days add up, because a visitor counts once on each. The values are
// indexes into the segment's dictionaries. A user id counts once in a period, so user ids are
// listed.
//
// Its form is a checksum, the version, the version of the names, and for each span its times, the
// size of its figures and the figures, as the varints of Protocol Buffers. Most of a rollup are
// lists of pairs, whose values ascend and are stored as differences.
type Rollup struct {
	// Names identifies the names of sources that Totals.Joined is of, see model.SourceNamesVersion.
	Names uint64

	spans   []Span
	figures [][]byte // encoded, by span
}

// Span is the share of a local day in a UTC day.
type Span struct {
	Day      uint32 // of the UTC day, from the segment's first
	From, To uint32 // seconds since the segment's first midnight UTC; To is after the span
}

// Totals are the figures of a span.
type Totals struct {
	Visitors  int64 // without a user id
	Visits    int64
	Pageviews int64
	Bounces   int64
	Scrolled  int64
	VisitMS   int64
	ViewMS    int64
	ScrollSum int64

	Users  List                  // user ids with a page view; the second number is 0
	Values [fieldCount]FieldRows // of the fields of a visit except User, and of Path
	Names  []NameTotals          // of events
	Sets   []NameSet             // of events, by visitor
	Sales  []Sale

	// Hidden are rows without a visitor, which are shown only if events of this name are key
	// events.
	Hidden []HiddenRow

	// Joined has the visitors without a user id who came from several sources of one name, by the
	// first of these sources in the dictionary: how often they count too much if the sources are
	// added up.
	Joined List

	// Across are the visits that began in another span of the UTC day than the event happened. They
	// count if the period has all spans of the UTC day.
	Across []NameTotals
}

// FieldRows are the rows of a field.
type FieldRows struct {
	Visitors List // values with the visitors without a user id; 0 for a value that has a row all the same
	Users    List // values with user ids
}

// NameTotals are the figures of an event's name.
type NameTotals struct {
	Name     uint32
	Visitors int64 // without a user id
	Events   int64
	Visits   int64
	Bounces  int64
	VisitMS  int64
	Users    List // user ids with such an event; the second number is 0
}

// NameSet counts the visitors without a user id who had events of exactly these names.
type NameSet struct {
	Visitors int64
	Names    []uint32
}

// Sale sums up purchases or refunds of one currency.
type Sale struct {
	Name, Currency uint32
	Count          int64
	Amount         int64 // as in Segment.Value
}

// HiddenRow is a value of a field with an event of a name.
type HiddenRow struct {
	Field       Field
	Value, Name uint32
}

// Pair is an entry of a List.
type Pair struct{ Value, N uint32 }

// List is an encoded list of pairs, in the order of their values.
type List struct {
	data   []byte
	least  int // of Value
	values int // bound of Value
	users  int // bound of N, a user id; 0 for none
}

// NewList encodes pairs, which must be in the order of their values.
func NewList(pairs []Pair) List {
	data, last := []byte(nil), uint32(0)
	for _, p := range pairs {
		data = binary.AppendUvarint(data, uint64(p.Value-last))
		data = binary.AppendUvarint(data, uint64(p.N))
		last = p.Value
	}
	return List{data: data, values: math.MaxInt}
}

var errList = fmt.Errorf("%w: a list of a rollup", ErrDamaged)

// Append decodes the list behind the pairs of to.
func (l *List) Append(to []Pair) ([]Pair, error) {
	last := uint64(0)
	for data := l.data; len(data) > 0; {
		// Most numbers have one byte.
		delta, n := uint64(data[0]), 1
		if delta >= 0x80 {
			delta, n = binary.Uvarint(data)
		}
		if n <= 0 || n >= len(data) {
			return nil, errList
		}

		data = data[n:]
		count, n := uint64(data[0]), 1
		if count >= 0x80 {
			count, n = binary.Uvarint(data)
		}
		if n <= 0 || delta > math.MaxUint32 || count > math.MaxUint32 {
			return nil, errList
		}

		data = data[n:]
		last += delta
		if last < uint64(l.least) || last >= uint64(l.values) || l.users > 0 && (count == 0 || count >= uint64(l.users)) {
			return nil, errList
		}
		to = append(to, Pair{uint32(last), uint32(count)})
	}
	return to, nil
}

// Add appends the figures of a span, which must follow the last one.
func (r *Rollup) Add(span Span, t *Totals) {
	r.spans = append(r.spans, span)
	r.figures = append(r.figures, t.encode())
}

// Spans returns the spans in the order of time. A time without a visit may be in none.
func (r *Rollup) Spans() []Span { return r.spans }

// IsRolledUp reports whether rollups have the rows of a field.
func IsRolledUp(f Field) bool { return f.table() == visits && f != User || f == Path }

// Encode returns the stored form.
func (r *Rollup) Encode() []byte {
	data := make([]byte, rollupHead)
	data = appendAll(data, rollupVersion)
	data = binary.AppendUvarint(data, r.Names)
	data = appendAll(data, len(r.spans))
	for i, span := range r.spans {
		data = appendAll(data, span.Day, span.From, span.To)
		data = appendBytes(data, r.figures[i])
	}
	return sealRollup(data)
}

// rollupHead is the size of a rollup's checksum, in bytes.
const rollupHead = 8

// sealRollup writes the checksum of a rollup at its begin.
func sealRollup(data []byte) []byte {
	binary.LittleEndian.PutUint64(data, uint64(crc32.Checksum(data[rollupHead:], castagnoli)))
	return data
}

// appendAll appends numbers, none of which may be negative.
func appendAll[N int | uint32 | int64](data []byte, numbers ...N) []byte {
	for _, n := range numbers {
		data = binary.AppendUvarint(data, uint64(n))
	}
	return data
}

func appendBytes(data, b []byte) []byte {
	return append(binary.AppendUvarint(data, uint64(len(b))), b...)
}

func (t *Totals) encode() []byte {
	data := appendAll(nil, t.Visitors, t.Visits, t.Pageviews, t.Bounces, t.Scrolled, t.VisitMS, t.ViewMS, t.ScrollSum)
	data = appendBytes(data, t.Users.data)
	for f := range fieldCount {
		if IsRolledUp(f) {
			data = appendBytes(data, t.Values[f].Visitors.data)
			data = appendBytes(data, t.Values[f].Users.data)
		}
	}

	data = appendNames(data, t.Names)
	data = appendAll(data, len(t.Sets))
	for _, set := range t.Sets {
		data = appendAll(data, set.Visitors, int64(len(set.Names)))
		data = appendAll(data, set.Names...)
	}
	data = appendAll(data, len(t.Sales))
	for _, s := range t.Sales {
		data = appendAll(data, int64(s.Name), int64(s.Currency), s.Count)
		data = binary.AppendVarint(data, s.Amount)
	}
	data = appendAll(data, len(t.Hidden))
	for _, h := range t.Hidden {
		data = appendAll(data, uint32(h.Field), h.Value, h.Name)
	}
	data = appendNames(data, t.Across)
	return appendBytes(data, t.Joined.data)
}

func appendNames(data []byte, names []NameTotals) []byte {
	data = appendAll(data, len(names))
	for i := range names {
		n := &names[i]
		data = appendAll(data, int64(n.Name), n.Visitors, n.Events, n.Visits, n.Bounces, n.VisitMS)
		data = appendBytes(data, n.Users.data)
	}
	return data
}

// numbers reads varints. The first failure stays in err, and later numbers are 0.
type numbers struct {
	rest []byte
	err  error
}

func (n *numbers) next() uint64 {
	value, size := binary.Uvarint(n.rest)
	if size <= 0 {
		n.fail("no number")
		return 0
	}
	n.rest = n.rest[size:]
	return value
}

func (n *numbers) fail(what string) {
	if n.err == nil {
		n.err = fmt.Errorf("%w: rollup: %s", ErrDamaged, what)
	}
	n.rest = nil
}

// sum returns a number that is not negative.
func (n *numbers) sum() int64 {
	value := n.next()
	if value > math.MaxInt64 {
		n.fail("a number above 2^63")
		return 0
	}
	return int64(value)
}

// signed returns a number that may be negative.
func (n *numbers) signed() int64 {
	value, size := binary.Varint(n.rest)
	if size <= 0 {
		n.fail("no number")
		return 0
	}
	n.rest = n.rest[size:]
	return value
}

// below returns a number below a bound.
func (n *numbers) below(bound int) uint32 {
	value := n.next()
	if n.err == nil && value >= uint64(bound) {
		n.fail("a number out of range")
		return 0
	}
	return uint32(value)
}

// length returns the length of a list, each of whose entries has a byte or more.
func (n *numbers) length() int { return int(n.below(len(n.rest) + 1)) }

func (n *numbers) bytes() []byte {
	size := n.next()
	if size > uint64(len(n.rest)) {
		n.fail("too short")
		return nil
	}
	b := n.rest[:size:size]
	n.rest = n.rest[size:]
	return b
}

// DecodeRollup reads the stored form. The figures of a span are decoded by Totals. A rollup of
// another version is ErrVersion, one that contradicts itself ErrDamaged.
func DecodeRollup(data []byte) (*Rollup, error) {
	if len(data) < rollupHead || len(data) > MaxPart ||
		binary.LittleEndian.Uint64(data) != uint64(crc32.Checksum(data[rollupHead:], castagnoli)) {
		return nil, fmt.Errorf("%w: wrong checksum of a rollup", ErrDamaged)
	}

	n := &numbers{rest: data[rollupHead:]}
	if version := n.next(); version != rollupVersion {
		return nil, fmt.Errorf("%w: rollup %d", ErrVersion, version)
	}

	r := &Rollup{Names: n.next()}
	for range n.length() {
		span := Span{Day: n.below(math.MaxInt32), From: n.below(math.MaxInt32), To: n.below(math.MaxInt32)}
		if n.err == nil && (span.From >= span.To || len(r.spans) > 0 && span.From < r.spans[len(r.spans)-1].To) {
			n.fail("spans out of order")
		}
		r.spans, r.figures = append(r.spans, span), append(r.figures, n.bytes())
	}
	if n.err == nil && len(n.rest) > 0 {
		n.fail("bytes behind its end")
	}
	return r, n.err
}

// Totals decodes the figures of a span, whose values are of the segment's dictionaries.
func (r *Rollup) Totals(span int, s *Segment) (*Totals, error) {
	n := &numbers{rest: r.figures[span]}
	t := &Totals{
		Visitors: n.sum(), Visits: n.sum(), Pageviews: n.sum(), Bounces: n.sum(), Scrolled: n.sum(),
		VisitMS: n.sum(), ViewMS: n.sum(), ScrollSum: n.sum(),
	}
	texts := func(f Field) int { return len(s.Texts[f.Domain()]) }

	t.Users = List{data: n.bytes(), least: 1, values: texts(User)}
	for f := range fieldCount {
		if IsRolledUp(f) {
			t.Values[f].Visitors = List{data: n.bytes(), values: texts(f)}
			t.Values[f].Users = List{data: n.bytes(), values: texts(f), users: texts(User)}
		}
	}

	t.Names = n.names(texts(EventName), texts(User))
	for range n.length() {
		set := NameSet{Visitors: n.sum()}
		for range n.length() {
			set.Names = append(set.Names, n.below(texts(EventName)))
		}
		t.Sets = append(t.Sets, set)
	}
	for range n.length() {
		t.Sales = append(t.Sales, Sale{
			Name: n.below(texts(EventName)), Currency: n.below(texts(Currency)), Count: n.sum(), Amount: n.signed(),
		})
	}
	for range n.length() {
		h := HiddenRow{Field: Field(n.below(int(fieldCount)))}
		h.Value, h.Name = n.below(texts(h.Field)), n.below(texts(EventName))
		if n.err == nil && !IsRolledUp(h.Field) {
			n.fail("a field without rows")
		}
		t.Hidden = append(t.Hidden, h)
	}
	t.Across = n.names(texts(EventName), texts(User))
	t.Joined = List{data: n.bytes(), values: texts(Source)}

	if n.err == nil && len(n.rest) > 0 {
		n.fail("bytes behind the end of a span")
	}
	if n.err != nil {
		return nil, n.err
	}
	return t, nil
}

// names reads the figures of names of events. events and users are the sizes of their dictionaries.
func (n *numbers) names(events, users int) []NameTotals {
	var names []NameTotals
	for range n.length() {
		names = append(names, NameTotals{
			Name: n.below(events), Visitors: n.sum(), Events: n.sum(), Visits: n.sum(), Bounces: n.sum(),
			VisitMS: n.sum(), Users: List{data: n.bytes(), least: 1, values: users},
		})
	}
	return names
}
