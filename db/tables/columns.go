package tables

import (
	"database/sql/driver"
	"encoding/binary"
	"slices"
	"strconv"
	"strings"
)

// Columns are columns of one table or statement, in order.
type Columns[Row any] []Column[Row]

// With returns the columns followed by others.
func (c Columns[Row]) With(others ...Column[Row]) Columns[Row] { return slices.Concat(c, others) }

// Without returns the columns except the named ones.
func (c Columns[Row]) Without(names ...string) Columns[Row] {
	return slices.DeleteFunc(slices.Clone(c), func(column Column[Row]) bool {
		return slices.Contains(names, column.Name)
	})
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

// Targets returns where pgx stores the values of a row that it reads, after the targets in first.
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

// Set stores the values that the SQLite driver read into a row, one value for each column.
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

// InsertPostgres returns the statement that inserts all rows of a batch from arrays.
func (t Table[Row]) InsertPostgres() string {
	return "INSERT INTO " + t.Name + " (" + t.Columns.List("") + ")\nSELECT * FROM " + t.Columns.Unnest()
}

// CopyPostgres is the statement that reads rows of AppendCopy into the table.
func (t Table[Row]) CopyPostgres() string {
	return "COPY " + t.Name + " (" + t.Columns.List("") + ") FROM STDIN (FORMAT binary)"
}

// InsertSQLite returns the statement that inserts one row.
func (t Table[Row]) InsertSQLite() string {
	return "INSERT INTO " + t.Name + " (" + t.Columns.List("") + ") VALUES (" + t.Columns.marks() + ")"
}
