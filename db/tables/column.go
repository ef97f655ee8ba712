package tables

import (
	"database/sql/driver"
	"encoding/binary"
)

// Column is one column of rows of type Row, with the four forms of its values: one array of all
// rows for PostgreSQL, one value per row for SQLite, and the results of either.
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

// The functions below return a column of one type each. field returns the address of the row's
// value.

// Bigint returns a column of 8-byte integers that are never NULL.
func Bigint[Row any, T ~int64](name string, field func(*Row) *T) Column[Row] {
	return integerColumn(name, "bigint", field, func(v T) int64 { return int64(v) })
}

// Integer returns a column of 4-byte integers that are never NULL.
func Integer[Row any, T ~int32 | ~int](name string, field func(*Row) *T) Column[Row] {
	return integerColumn(name, "integer", field, func(v T) int32 { return int32(v) })
}

// Smallint returns a column of 2-byte integers that are never NULL.
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

// Bool returns a column of booleans that are never NULL. SQLite stores 0 or 1.
func Bool[Row any](name string, field func(*Row) *bool) Column[Row] {
	return Column[Row]{
		Name:   name,
		pgType: "boolean",
		array: func(n int, row func(int) *Row) any {
			return array(n, row, func(r *Row) bool { return *field(r) })
		},
		target: func(r *Row) any { return field(r) },
		value:  func(r *Row) driver.Value { return *field(r) },
		set: func(r *Row, v driver.Value) {
			b, _ := v.(bool)
			*field(r) = b || number(v) != 0
		},
	}
}

// Text returns a column of texts that are never NULL.
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

// OptionalText returns a column of texts, with NULL for an empty one.
func OptionalText[Row any](name string, field func(*Row) *string) Column[Row] {
	c := Text(name, field)

	c.array = func(n int, row func(int) *Row) any {
		return array(n, row, func(r *Row) *string {
			if s := field(r); *s != "" {
				return s
			}
			return nil
		})
	}

	c.value = func(r *Row) driver.Value {
		if s := *field(r); s != "" {
			return s
		}
		return nil
	}

	return c
}

// Bytes returns a column of bytes that are never NULL. Nil is stored as empty: on PostgreSQL a NULL
// anywhere in a row of more than 8 columns costs 8 bytes, an empty value 1.
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

// Word returns a column of 8 bytes that are stored as an integer, the first byte as the highest.
func Word[Row any](name string, field func(*Row) *[8]byte) Column[Row] {
	get := func(r *Row) int64 { return int64(binary.BigEndian.Uint64(field(r)[:])) }
	set := func(r *Row, v int64) { binary.BigEndian.PutUint64(field(r)[:], uint64(v)) }
	return computedInteger(name, "bigint", get, set)
}

// Narrow returns a column of 4-byte integers for a field of 8 bytes. It is never NULL. The table
// bounds it.
func Narrow[Row any, T ~int64](name string, field func(*Row) *T) Column[Row] {
	get := func(r *Row) int32 { return int32(*field(r)) }
	set := func(r *Row, v int32) { *field(r) = T(v) }
	return computedInteger(name, "integer", get, set)
}

// SmallintOf returns a column of 2-byte integers that get and set translate from and to a row's
// values.
func SmallintOf[Row any](name string, get func(*Row) int16, set func(*Row, int16)) Column[Row] {
	return computedInteger(name, "smallint", get, set)
}

// Derived returns a column of 4-byte integers that follow from other columns. It is only written.
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

// TextOf returns a column of texts that get and set translate from and to a row's values. It is
// never NULL.
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

// ID returns a column of a fixed number of bytes, never NULL. field returns the row's own bytes.
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

// OptionalBigint returns a column of 8-byte integers that is only written, with NULL where value
// returns nil.
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

// ConstantText returns a column of one text, which is written with every row and never read.
func ConstantText[Row any](name, constant string) Column[Row] {
	return Column[Row]{
		Name:   name,
		pgType: "text",
		array: func(n int, row func(int) *Row) any {
			return array(n, row, func(*Row) string { return constant })
		},
		value: func(*Row) driver.Value { return constant },
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
