package tables

import (
	"bytes"
	"database/sql/driver"

	"github.com/jackc/pgx/v5/pgtype"
)

// Where the values go that the drivers read.

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

// bytesTarget scans bytes for pgx, and empty bytes as nil.
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
func number(v driver.Value) int64 {
	n, _ := v.(int64)
	return n
}

// text reads a text that the SQLite driver returned. NULL is empty.
func text(v driver.Value) string {
	s, _ := v.(string)
	return s
}
