package tables

import (
	"bytes"
	"database/sql/driver"
	"encoding/binary"
	"slices"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5/pgtype"
)

// Column is one column of rows of type Row, with the four forms of its values: one array of all
// rows for PostgreSQL, one value per row for SQLite, and what either returns.
type Column[Row any] struct {
	Name string

	pgType string                        // on PostgreSQL
	array  func(int, func(int) *Row) any // the column of all rows, as pgx encodes it
	target func(*Row) any                // where pgx stores a value that it read
	value  func(*Row) driver.Value       // as the SQLite driver takes it
	set    func(*Row, driver.Value)      // stores a value that the SQLite driver read
}

type integer interface {
	~int | ~int16 | ~int32 | ~int64
}

// Bigint is an 8-byte integer that is never NULL.
func Bigint[Row any, T ~int64](name string, field func(*Row) *T) Column[Row] {
	return integerColumn(name, "bigint", field, func(v T) int64 { return int64(v) })
}

// Integer is a 4-byte integer that is never NULL.
func Integer[Row any, T ~int32 | ~int](name string, field func(*Row) *T) Column[Row] {
	return integerColumn(name, "integer", field, func(v T) int32 { return int32(v) })
}

// Smallint is a 2-byte integer that is never NULL.
func Smallint[Row any, T ~int16 | ~int](name string, field func(*Row) *T) Column[Row] {
	return integerColumn(name, "smallint", field, func(v T) int16 { return int16(v) })
}

func integerColumn[Row any, T, Element integer](
	name, pgType string, field func(*Row) *T, element func(T) Element,
) Column[Row] {
	return Column[Row]{
		Name:   name,
		pgType: pgType,
		array: func(n int, row func(int) *Row) any {
			return array(n, row, func(r *Row) Element { return element(*field(r)) })
		},
		target: func(r *Row) any { return integerTarget[T]{field(r)} },
		value:  func(r *Row) driver.Value { return int64(*field(r)) },
		set:    func(r *Row, v driver.Value) { *field(r) = T(number(v)) },
	}
}

// Bool is a boolean that is never NULL. SQLite stores 0 or 1.
func Bool[Row any](name string, field func(*Row) *bool) Column[Row] {
	return Column[Row]{
		Name:   name,
		pgType: "boolean",
		array:  func(n int, row func(int) *Row) any { return array(n, row, func(r *Row) bool { return *field(r) }) },
		target: func(r *Row) any { return field(r) },
		value:  func(r *Row) driver.Value { return *field(r) },
		set: func(r *Row, v driver.Value) {
			b, _ := v.(bool)
			*field(r) = b || number(v) != 0
		},
	}
}

// Text is a text that is never NULL.
func Text[Row any, T ~string](name string, field func(*Row) *T) Column[Row] {
	return Column[Row]{
		Name:   name,
		pgType: "text",
		array: func(n int, row func(int) *Row) any {
			return array(n, row, func(r *Row) string { return string(*field(r)) })
		},
		target: func(r *Row) any { return textTarget[T]{field(r)} },
		value:  func(r *Row) driver.Value { return string(*field(r)) },
		set:    func(r *Row, v driver.Value) { *field(r) = T(text(v)) },
	}
}

// OptionalText is a text that is NULL when it is empty.
func OptionalText[Row any](name string, field func(*Row) *string) Column[Row] {
	return Column[Row]{
		Name:   name,
		pgType: "text",
		array: func(n int, row func(int) *Row) any {
			return array(n, row, func(r *Row) *string {
				if s := field(r); *s != "" {
					return s
				}
				return nil
			})
		},
		target: func(r *Row) any { return textTarget[string]{field(r)} },
		value: func(r *Row) driver.Value {
			if s := *field(r); s != "" {
				return s
			}
			return nil
		},
		set: func(r *Row, v driver.Value) { *field(r) = text(v) },
	}
}

// Bytes are bytes that are never NULL. Nil is stored as empty: on PostgreSQL a NULL anywhere in a
// row of more than 8 columns costs 8 bytes, an empty value 1.
func Bytes[Row any](name string, field func(*Row) *[]byte) Column[Row] {
	return Column[Row]{
		Name:   name,
		pgType: "bytea",
		array: func(n int, row func(int) *Row) any {
			return array(n, row, func(r *Row) []byte { return notNil(*field(r)) })
		},
		target: func(r *Row) any { return bytesTarget{field(r)} },
		value:  func(r *Row) driver.Value { return notNil(*field(r)) },
		set: func(r *Row, v driver.Value) {
			b, _ := v.([]byte)
			*field(r) = nilIfEmpty(b)
		},
	}
}

func notNil(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}

func nilIfEmpty(b []byte) []byte {
	if len(b) == 0 {
		return nil
	}
	return b
}

// Word is 8 bytes that are stored as an integer, the first byte as the highest.
func Word[Row any](name string, field func(*Row) *[8]byte) Column[Row] {
	get := func(r *Row) int64 { return int64(binary.BigEndian.Uint64(field(r)[:])) }
	set := func(r *Row, v int64) { binary.BigEndian.PutUint64(field(r)[:], uint64(v)) }
	return computedInteger(name, "bigint", get, set)
}

// Narrow is a 4-byte integer that is never NULL and whose field has 8 bytes. The table bounds it.
func Narrow[Row any](name string, field func(*Row) *int64) Column[Row] {
	get := func(r *Row) int32 { return int32(*field(r)) }
	set := func(r *Row, v int32) { *field(r) = int64(v) }
	return computedInteger(name, "integer", get, set)
}

// SmallintOf is a 2-byte integer that stands for a value of the row.
func SmallintOf[Row any](name string, get func(*Row) int16, set func(*Row, int16)) Column[Row] {
	return computedInteger(name, "smallint", get, set)
}

// Derived is a 4-byte integer that follows from other columns, so that it is only written.
func Derived[Row any](name string, get func(*Row) int32) Column[Row] {
	return computedInteger(name, "integer", get, func(*Row, int32) {})
}

func computedInteger[Row any, T integer](name, pgType string, get func(*Row) T, set func(*Row, T)) Column[Row] {
	return Column[Row]{
		Name:   name,
		pgType: pgType,
		array:  func(n int, row func(int) *Row) any { return array(n, row, get) },
		target: func(r *Row) any { return computedTarget[Row, T]{r, set} },
		value:  func(r *Row) driver.Value { return int64(get(r)) },
		set:    func(r *Row, v driver.Value) { set(r, T(number(v))) },
	}
}

// TextOf is a text that stands for values of the row and is never NULL.
func TextOf[Row any](name string, get func(*Row) string, set func(*Row, string)) Column[Row] {
	return Column[Row]{
		Name:   name,
		pgType: "text",
		array:  func(n int, row func(int) *Row) any { return array(n, row, get) },
		target: func(r *Row) any { return computedTextTarget[Row]{r, set} },
		value:  func(r *Row) driver.Value { return get(r) },
		set:    func(r *Row, v driver.Value) { set(r, text(v)) },
	}
}

// BytesOf are bytes that stand for values of the row and are never NULL. set must not keep them.
func BytesOf[Row any](name string, get func(*Row) []byte, set func(*Row, []byte)) Column[Row] {
	return Column[Row]{
		Name:   name,
		pgType: "bytea",
		array: func(n int, row func(int) *Row) any {
			return array(n, row, func(r *Row) []byte { return notNil(get(r)) })
		},
		target: func(r *Row) any { return computedBytesTarget[Row]{r, set} },
		value:  func(r *Row) driver.Value { return notNil(get(r)) },
		set: func(r *Row, v driver.Value) {
			b, _ := v.([]byte)
			set(r, b)
		},
	}
}

// ID is a fixed number of bytes, never NULL. field returns the bytes of the row themselves.
func ID[Row any](name string, field func(*Row) []byte) Column[Row] {
	return Column[Row]{
		Name:   name,
		pgType: "bytea",
		array:  func(n int, row func(int) *Row) any { return array(n, row, field) },
		target: func(r *Row) any { return idTarget{field(r)} },
		value:  func(r *Row) driver.Value { return field(r) },
		set: func(r *Row, v driver.Value) {
			b, _ := v.([]byte)
			copy(field(r), b)
		},
	}
}

// OptionalBigint is an integer that is only written: NULL where value returns nil.
func OptionalBigint[Row any](name string, value func(*Row) *int64) Column[Row] {
	return Column[Row]{
		Name:   name,
		pgType: "bigint",
		array:  func(n int, row func(int) *Row) any { return array(n, row, value) },
		value: func(r *Row) driver.Value {
			if n := value(r); n != nil {
				return *n
			}
			return nil
		},
	}
}

// ConstantText is a text that is written with every row and never read.
func ConstantText[Row any](name, constant string) Column[Row] {
	return Column[Row]{
		Name:   name,
		pgType: "text",
		array:  func(n int, row func(int) *Row) any { return array(n, row, func(*Row) string { return constant }) },
		value:  func(*Row) driver.Value { return constant },
	}
}

// array makes the array of one column of n rows.
func array[Row, Element any](n int, row func(int) *Row, element func(*Row) Element) []Element {
	elements := make([]Element, n)
	for i := range elements {
		elements[i] = element(row(i))
	}
	return elements
}

// Within returns columns of a field as columns of the row that it is in.
func Within[Row, Field any](field func(*Row) *Field, columns Columns[Field]) Columns[Row] {
	rows := make(Columns[Row], len(columns))
	for i, c := range columns {
		rows[i] = Column[Row]{
			Name:   c.Name,
			pgType: c.pgType,
			array: func(n int, row func(int) *Row) any {
				return c.array(n, func(i int) *Field { return field(row(i)) })
			},
			target: func(r *Row) any { return c.target(field(r)) },
			value:  func(r *Row) driver.Value { return c.value(field(r)) },
			set:    func(r *Row, v driver.Value) { c.set(field(r), v) },
		}
	}

	return rows
}

// integerTarget scans an integer of any size for pgx.
type integerTarget[T integer] struct{ field *T }

// ScanInt64 implements pgtype.Int64Scanner.
func (t integerTarget[T]) ScanInt64(v pgtype.Int8) error {
	*t.field = T(v.Int64)
	return nil
}

// computedTarget scans an integer of any size for pgx and sets a row's value by it.
type computedTarget[Row any, T integer] struct {
	row *Row
	set func(*Row, T)
}

// ScanInt64 implements pgtype.Int64Scanner.
func (t computedTarget[Row, T]) ScanInt64(v pgtype.Int8) error {
	t.set(t.row, T(v.Int64))
	return nil
}

// computedTextTarget scans a text for pgx and sets a row's values by it.
type computedTextTarget[Row any] struct {
	row *Row
	set func(*Row, string)
}

// ScanText implements pgtype.TextScanner.
func (t computedTextTarget[Row]) ScanText(v pgtype.Text) error {
	t.set(t.row, v.String)
	return nil
}

// computedBytesTarget scans bytes for pgx and sets a row's values by them.
type computedBytesTarget[Row any] struct {
	row *Row
	set func(*Row, []byte)
}

// ScanBytes implements pgtype.BytesScanner.
func (t computedBytesTarget[Row]) ScanBytes(v []byte) error {
	t.set(t.row, v)
	return nil
}

// bytesTarget scans bytes for pgx, empty ones as nil.
type bytesTarget struct{ field *[]byte }

// ScanBytes implements pgtype.BytesScanner. It copies the bytes, which pgx overwrites.
func (t bytesTarget) ScanBytes(v []byte) error {
	*t.field = nilIfEmpty(bytes.Clone(v))
	return nil
}

// textTarget scans a text for pgx, NULL as an empty one.
type textTarget[T ~string] struct{ field *T }

// ScanText implements pgtype.TextScanner.
func (t textTarget[T]) ScanText(v pgtype.Text) error {
	*t.field = T(v.String)
	return nil
}

// idTarget scans a fixed number of bytes for pgx.
type idTarget struct{ field []byte }

// ScanBytes implements pgtype.BytesScanner.
func (t idTarget) ScanBytes(v []byte) error {
	copy(t.field, v)
	return nil
}

// number reads an integer that the SQLite driver returned. NULL is 0.
func number(v driver.Value) int64 { n, _ := v.(int64); return n }

// text reads a text that the SQLite driver returned. NULL is empty.
func text(v driver.Value) string { s, _ := v.(string); return s }

// Columns are columns of one table or statement, in order.
type Columns[Row any] []Column[Row]

// With returns the columns followed by others.
func (c Columns[Row]) With(others ...Column[Row]) Columns[Row] { return slices.Concat(c, others) }

// Without returns the columns except those with the given names.
func (c Columns[Row]) Without(names ...string) Columns[Row] {
	return slices.DeleteFunc(slices.Clone(c), func(column Column[Row]) bool { return slices.Contains(names, column.Name) })
}

// Names returns the names of the columns.
func (c Columns[Row]) Names() []string {
	names := make([]string, len(c))
	for i := range c {
		names[i] = c[i].Name
	}
	return names
}

// List returns the names of the columns, separated by commas, each with a prefix such as "v.".
func (c Columns[Row]) List(prefix string) string {
	return c.join(func(_ int, column Column[Row]) string { return prefix + column.Name })
}

// Unnest returns the SQL that makes rows of PostgreSQL's arrays, which are parameters from $1 on.
func (c Columns[Row]) Unnest() string {
	return "unnest(" + c.join(func(i int, column Column[Row]) string {
		return "$" + strconv.Itoa(i+1) + "::" + column.pgType + "[]"
	}) + ")"
}

// marks returns SQLite's parameters.
func (c Columns[Row]) marks() string { return c.join(func(int, Column[Row]) string { return "?" }) }

func (c Columns[Row]) join(format func(int, Column[Row]) string) string {
	texts := make([]string, len(c))
	for i, column := range c {
		texts[i] = format(i, column)
	}
	return strings.Join(texts, ", ")
}

// Arrays returns the arrays of the rows, one per column, with room for more parameters.
func (c Columns[Row]) Arrays(rows []Row, more int) []any {
	arrays := make([]any, 0, len(c)+more)
	row := func(i int) *Row { return &rows[i] }
	for i := range c {
		arrays = append(arrays, c[i].array(len(rows), row))
	}
	return arrays
}

// copyHeader begins rows in PostgreSQL's binary COPY format: the signature, no flags, no extension.
const copyHeader = "PGCOPY\n\xff\r\n\x00\x00\x00\x00\x00\x00\x00\x00\x00"

// AppendCopy appends the rows in PostgreSQL's binary COPY format. Each column has the type of its
// column in the table.
func (c Columns[Row]) AppendCopy(buf []byte, rows []Row) []byte {
	buf = append(buf, copyHeader...)

	for i := range rows {
		buf = binary.BigEndian.AppendUint16(buf, uint16(len(c)))
		for j := range c {
			buf = appendField(buf, c[j].pgType, c[j].value(&rows[i]))
		}
	}

	// A row of -1 columns is the end.
	return append(buf, 0xff, 0xff)
}

// appendField appends the length of a value and the value; NULL has the length -1.
func appendField(buf []byte, pgType string, value driver.Value) []byte {
	length := func(n int) []byte { return binary.BigEndian.AppendUint32(buf, uint32(n)) }

	switch v := value.(type) {
	case int64:
		switch pgType {
		case "smallint":
			return binary.BigEndian.AppendUint16(length(2), uint16(v))
		case "integer":
			return binary.BigEndian.AppendUint32(length(4), uint32(v))
		}
		return binary.BigEndian.AppendUint64(length(8), uint64(v))
	case bool:
		if v {
			return append(length(1), 1)
		}
		return append(length(1), 0)
	case string:
		return append(length(len(v)), v...)
	case []byte:
		return append(length(len(v)), v...)
	}

	return length(-1)
}

// Targets returns where pgx stores the values of a row that it reads, with room for one before.
func (c Columns[Row]) Targets(first []any, row *Row) []any {
	for i := range c {
		first = append(first, c[i].target(row))
	}
	return first
}

// AppendValues appends the values of a row for the SQLite driver.
func (c Columns[Row]) AppendValues(values []driver.Value, row *Row) []driver.Value {
	for i := range c {
		values = append(values, c[i].value(row))
	}
	return values
}

// Set stores what the SQLite driver read into a row.
func (c Columns[Row]) Set(row *Row, values []driver.Value) {
	for i := range c {
		c[i].set(row, values[i])
	}
}

// Table is a table and all columns that are written to it.
type Table[Row any] struct {
	Name    string
	Columns Columns[Row]
}

// InsertPostgres is the statement that inserts all rows of a batch from arrays.
func (t Table[Row]) InsertPostgres() string {
	return "INSERT INTO " + t.Name + " (" + t.Columns.List("") + ")\nSELECT * FROM " + t.Columns.Unnest()
}

// CopyPostgres is the statement that reads rows of AppendCopy into the table.
func (t Table[Row]) CopyPostgres() string {
	return "COPY " + t.Name + " (" + t.Columns.List("") + ") FROM STDIN (FORMAT binary)"
}

// InsertSQLite is the statement that inserts one row.
func (t Table[Row]) InsertSQLite() string {
	return "INSERT INTO " + t.Name + " (" + t.Columns.List("") + ") VALUES (" + t.Columns.marks() + ")"
}
