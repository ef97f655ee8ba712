package reports

import (
	"bytes"
	"compress/flate"
	"context"
	"database/sql"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/uptrace/bun"

	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/reports/segment"
)

// A stored segment is a header of nine little-endian 64-bit numbers, then the parts. The header has
// the form of what follows, the size of the whole and the size of each part. Each size is a
// multiple of 8, so that the columns of the parts stay aligned.
const (
	headerSize = 8 * (2 + int(segment.Parts))

	formPlain    = 1
	formDeflated = 2 // the parts are compressed together

	// deflateBelow is the size below which a segment is compressed. The descriptions of columns
	// outweigh the rows of a small site.
	deflateBelow = 32 << 10

	// chunkSize bounds the data of one row.
	chunkSize = 256 << 10
)

// pack returns the stored form of a segment.
func pack(g *segment.Segment) ([]byte, error) {
	parts, err := g.Encode()
	if err != nil {
		return nil, err
	}

	header := make([]byte, headerSize)
	size := headerSize
	for i, part := range parts {
		binary.LittleEndian.PutUint64(header[8*(2+i):], uint64(len(part)))
		size += len(part)
	}
	binary.LittleEndian.PutUint64(header, formPlain)
	binary.LittleEndian.PutUint64(header[8:], uint64(size))

	if size < deflateBelow {
		binary.LittleEndian.PutUint64(header, formDeflated)
		return deflate(header, parts)
	}

	packed := make([]byte, 0, size)
	packed = append(packed, header...)
	for _, part := range parts {
		packed = append(packed, part...)
	}
	return packed, nil
}

// deflate returns the header followed by the compressed parts.
func deflate(header []byte, parts [segment.Parts][]byte) ([]byte, error) {
	buffer := bytes.NewBuffer(header)
	w, err := flate.NewWriter(buffer, flate.DefaultCompression)
	if err != nil {
		return nil, err
	}

	for _, part := range parts {
		if _, err := w.Write(part); err != nil {
			return nil, err
		}
	}
	err = w.Close()
	return buffer.Bytes(), err
}

// unpack decodes the stored form of a segment, which the segment's columns may alias.
func unpack(packed []byte) (*segment.Segment, error) {
	if len(packed) < headerSize {
		return nil, fmt.Errorf("%w: %d bytes", segment.ErrDamaged, len(packed))
	}

	number := func(i int) uint64 { return binary.LittleEndian.Uint64(packed[8*i:]) }
	body := packed[headerSize:]
	switch form := number(0); form {
	case formPlain:
	case formDeflated:
		var err error
		if body, err = inflate(body); err != nil {
			return nil, err
		}
	default:
		return nil, fmt.Errorf("%w: form %d", segment.ErrVersion, form)
	}

	var parts [segment.Parts][]byte
	for i := range parts {
		size := number(2 + i)
		if size > uint64(len(body)) {
			return nil, fmt.Errorf("%w: part %d of %d bytes", segment.ErrDamaged, i, size)
		}
		parts[i], body = body[:size:size], body[size:]
	}
	return segment.Decode(parts)
}

// inflate returns compressed parts, which have less than deflateBelow bytes.
func inflate(body []byte) ([]byte, error) {
	plain, err := io.ReadAll(io.LimitReader(flate.NewReader(bytes.NewReader(body)), deflateBelow))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", segment.ErrDamaged, err)
	}
	return plain, nil
}

// checksumOf identifies the stored form of a segment, so that an unchanged one is not written.
func checksumOf(packed []byte) int64 {
	return int64(crc32.ChecksumIEEE(packed))<<32 | int64(len(packed))&0xffffffff
}

// binaryQuery returns a statement with ? for its parameters in the database's own form, and the
// arguments for database/sql. Byte strings then travel as they are; bun would write them into the
// text in hexadecimal.
func (s *Store) binaryQuery(text string, args ...any) (string, []any) {
	if !s.db.IsPostgres() {
		return text, args
	}

	var b strings.Builder
	for i, piece := range strings.Split(text, "?") {
		if i > 0 {
			fmt.Fprintf(&b, "$%d", i)
		}
		b.WriteString(piece)
	}
	return b.String(), append([]any{pgx.QueryExecModeDescribeExec}, args...)
}

// putSegment stores a packed segment in place of those that begin on the same day.
func (s *Store) putSegment(
	ctx context.Context, tx bun.Tx, siteID int64, first model.Day, days int, packed []byte,
) error {
	for chunk := 0; len(packed) > 0; chunk++ {
		n := min(len(packed), chunkSize)
		text, args := s.binaryQuery(
			"INSERT INTO report_segments (site_id, first_day, days, chunk, data) VALUES (?, ?, ?, ?, ?)",
			siteID, int64(first), int64(days), int64(chunk), packed[:n])
		if _, err := tx.Tx.ExecContext(ctx, text, args...); err != nil {
			return err
		}
		packed = packed[n:]
	}
	return nil
}

// deleteSegments deletes the segments that begin on a day from first to last.
func deleteSegments(ctx context.Context, tx bun.IDB, siteID int64, first, last model.Day) error {
	_, err := tx.ExecContext(ctx, "DELETE FROM report_segments WHERE site_id = ? AND first_day >= ? AND first_day <= ?",
		siteID, first, last)
	return err
}

// readSegments reads the segments of a site that have days of a span, in order. None of them begins
// before begin.
func (s *Store) readSegments(
	ctx context.Context, siteID int64, begin model.Day, sp span,
) (list []*segment.Segment, err error) {
	err = s.eachSegment(ctx, siteID, begin, sp, func(g *segment.Segment) error {
		list = append(list, g)
		return nil
	})
	return list, err
}

// eachSegment calls take for each segment that readSegments returns, as soon as it is read.
func (s *Store) eachSegment(
	ctx context.Context, siteID int64, begin model.Day, sp span, take func(*segment.Segment) error,
) error {
	err := s.db.LongRead(ctx, func() error { return s.scanSegments(ctx, siteID, begin, sp, take) })
	if err != nil {
		return fmt.Errorf("read segments of site %d from %v: %w", siteID, begin, err)
	}
	return nil
}

// scanSegments is eachSegment. One statement reads all chunks, so that they are those of one time.
func (s *Store) scanSegments(
	ctx context.Context, siteID int64, begin model.Day, sp span, take func(*segment.Segment) error,
) error {
	text, args := s.binaryQuery(`SELECT first_day, days, chunk, data FROM report_segments
WHERE site_id = ? AND first_day >= ? AND first_day <= ? AND first_day + days > ? ORDER BY first_day, days, chunk`,
		siteID, int64(begin), int64(sp.last), int64(sp.first))
	rows, err := s.db.Read.DB.QueryContext(ctx, text, args...)
	if err != nil {
		return err
	}
	defer rows.Close()

	var packed []byte
	end := func() error {
		if packed == nil {
			return nil
		}
		g, err := unpack(packed)
		if err != nil {
			return err
		}
		return take(g)
	}

	for rows.Next() {
		var firstDay, days, chunk int64
		var data sql.RawBytes
		if err := rows.Scan(&firstDay, &days, &chunk, &data); err != nil {
			return err
		}

		if chunk == 0 {
			if err := end(); err != nil {
				return err
			}
			packed = make([]byte, 0, sizeOf(data))
		}
		packed = append(packed, data...)
	}
	if err := rows.Err(); err != nil {
		return err
	}
	return end()
}

// sizeOf returns the room that a stored segment needs, from its first chunk.
func sizeOf(chunk []byte) int {
	if len(chunk) < headerSize || binary.LittleEndian.Uint64(chunk) != formPlain {
		return len(chunk)
	}
	return int(min(binary.LittleEndian.Uint64(chunk[8:]), segment.MaxPart))
}
