package reports

import (
	"bytes"
	"compress/flate"
	"context"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/uptrace/bun"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/rawrows"
	"github.com/tallygate/tallygate/db/reports/scan"
	"github.com/tallygate/tallygate/db/reports/segment"
)

// A stored segment is a header, then the parts. The header has little-endian numbers: the form of
// what follows and the CRC-32C of the rest of the header, of 32 bits each, then the size of the
// whole and of each part, of 64 bits each. Each size is a multiple of 8, so that the columns of the
// parts stay aligned.
const (
	headerSize = 8 * (2 + int(segment.Parts))

	formPlain    = 1
	formDeflated = 2 // the parts are compressed together

	// maxDeflated is the size below which a segment is compressed. The heads of columns outweigh
	// the rows of a small site, which needs no rollup either.
	maxDeflated = 32 << 10

	// chunkSize bounds the data of one row.
	chunkSize = 256 << 10

	// The numbers of the chunks of a segment that has a rollup: from 0 the header, the days and the
	// texts, then the columns, then the rollup. Without columns and rollup, a segment has chunks
	// from 0 only.
	columnsChunk = 1 << 20
	rollupChunk  = 2 << 20
)

// stored is the stored form of a segment. It is empty for one without rows.
type stored struct {
	packed []byte
	rollup []byte // nil for a small segment

	// The first day, the number of days, and the memory of a segment that was read.
	first  model.Day
	days   int64
	buffer *buffer
}

// pack returns the stored form of a segment, with a rollup for the days of a time zone. One of
// fewer than deflateBelow bytes is compressed and has none.
func pack(g *segment.Segment, zone *time.Location, deflateBelow int) (stored, error) {
	packed, err := packColumns(g, deflateBelow)
	if err != nil {
		return stored{}, err
	}
	if form, err := formOf(packed); err != nil || form == formDeflated {
		return stored{packed: packed}, err
	}
	return stored{packed: packed, rollup: scan.RollUp(g, zone).Encode()}, nil
}

// packColumns returns the stored form of a segment without its rollup.
func packColumns(g *segment.Segment, deflateBelow int) ([]byte, error) {
	parts := g.Encode()
	sizes, size := make([]int, 0, len(parts)), headerSize
	for _, part := range parts {
		sizes = append(sizes, len(part))
		size += len(part)
	}

	if size < deflateBelow {
		return deflate(newHeader(formDeflated, size, sizes), parts)
	}
	return slices.Concat(append([][]byte{newHeader(formPlain, size, sizes)}, parts[:]...)...), nil
}

// newHeader returns a header for parts of some sizes.
func newHeader(form uint32, size int, sizes []int) []byte {
	header := binary.LittleEndian.AppendUint64(make([]byte, 8, headerSize), uint64(size))
	for _, size := range sizes {
		header = binary.LittleEndian.AppendUint64(header, uint64(size))
	}
	binary.LittleEndian.PutUint32(header, form)
	binary.LittleEndian.PutUint32(header[4:], crc32.Checksum(header[8:], castagnoli))
	return header
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

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

// formOf returns the form that the header of a stored segment names, after a check of the header.
func formOf(packed []byte) (uint32, error) {
	if len(packed) < headerSize {
		return 0, fmt.Errorf("%w: %d bytes", segment.ErrDamaged, len(packed))
	}

	switch form := binary.LittleEndian.Uint32(packed); form {
	case formPlain, formDeflated:
		if binary.LittleEndian.Uint32(packed[4:]) != crc32.Checksum(packed[8:headerSize], castagnoli) {
			return 0, fmt.Errorf("%w: wrong checksum of the header", segment.ErrDamaged)
		}
		return form, nil
	default:
		return 0, fmt.Errorf("%w: form %d", segment.ErrVersion, form)
	}
}

// unpack decodes the stored form of a segment, which the segment's columns may alias.
func unpack(packed []byte) (*segment.Segment, error) {
	form, err := formOf(packed)
	if err != nil {
		return nil, err
	}
	body := packed[headerSize:]
	if form == formDeflated {
		if body, err = inflate(body); err != nil {
			return nil, err
		}
	}

	var parts [segment.Parts][]byte
	if err := split(packed, body, parts[:]); err != nil {
		return nil, err
	}
	return segment.Decode(parts)
}

// split sets the first parts of a segment from what follows its header.
func split(header, body []byte, parts [][]byte) error {
	for i := range parts {
		size := binary.LittleEndian.Uint64(header[8*(2+i):])
		if size > uint64(len(body)) {
			return fmt.Errorf("%w: part %d of %d bytes", segment.ErrDamaged, i, size)
		}
		parts[i], body = body[:size:size], body[size:]
	}
	return nil
}

// textParts is how many parts come before the columns.
const textParts = int(segment.PartTexts) + 1

// unpackTexts decodes the days and texts of a segment that has a rollup.
func unpackTexts(packed []byte) (*segment.Segment, error) {
	if _, err := formOf(packed); err != nil {
		return nil, err
	}
	var parts [textParts][]byte
	if err := split(packed, packed[headerSize:], parts[:]); err != nil {
		return nil, err
	}
	return segment.DecodeTexts(parts[segment.PartDays], parts[segment.PartTexts])
}

// textsSize returns where the columns of a packed segment begin.
func textsSize(packed []byte) int {
	size := headerSize
	for i := range textParts {
		size += int(min(binary.LittleEndian.Uint64(packed[8*(2+i):]), segment.MaxPart))
	}
	return size
}

// inflate returns compressed parts, which have less than maxDeflated bytes.
func inflate(body []byte) ([]byte, error) {
	plain, err := io.ReadAll(io.LimitReader(flate.NewReader(bytes.NewReader(body)), maxDeflated))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", segment.ErrDamaged, err)
	}
	return plain, nil
}

// checksum identifies the stored form of a segment, so that an unchanged one is not written.
func (s *stored) checksum() int64 {
	sum := crc32.Update(crc32.ChecksumIEEE(s.packed), crc32.IEEETable, s.rollup)
	return int64(sum)<<32 | int64(len(s.packed)+len(s.rollup))&0xffffffff
}

// binaryQuery returns a statement with ? for its parameters in the database's own form, and the
// arguments for database/sql. Byte strings then travel as they are; bun would write them into the
// text in hexadecimal.
func (s *Store) binaryQuery(text string, args ...any) (string, []any) {
	if !s.db.IsPostgres() {
		return text, args
	}

	return rawrows.Numbered(text), append([]any{pgx.QueryExecModeCacheDescribe}, args...)
}

// putSegment stores a segment in place of those that begin on the same day.
func (s *Store) putSegment(
	ctx context.Context, tx *db.CellTx, siteID model.SiteID, first model.Day, days int, to stored,
) error {
	put := func(chunk int64, data []byte) error {
		return s.putChunks(ctx, tx.Tx.Tx, "report_segments (site_id, first_day, days, chunk, data)",
			[]any{siteID, int64(first), int64(days)}, chunk, data)
	}

	if to.rollup == nil {
		return put(0, to.packed)
	}
	texts := textsSize(to.packed)
	if err := put(0, to.packed[:texts]); err != nil {
		return err
	}
	if err := put(columnsChunk, to.packed[texts:]); err != nil {
		return err
	}
	return put(rollupChunk, to.rollup)
}

// putChunks stores data in rows of a table, from the number of a chunk on. The columns are those of
// the key, the chunk and the data.
func (s *Store) putChunks(ctx context.Context, tx bun.Tx, columns string, key []any, chunk int64, data []byte) error {
	for ; len(data) > 0; chunk++ {
		n := min(len(data), chunkSize)
		text, args := s.binaryQuery("INSERT INTO "+columns+" VALUES (?"+strings.Repeat(", ?", len(key)+1)+")",
			append(slices.Clone(key), chunk, data[:n])...)
		if _, err := tx.Tx.ExecContext(ctx, text, args...); err != nil {
			return err
		}
		data = data[n:]
	}
	return nil
}

// deleteSegments deletes the segments that begin on a day from first to last.
func deleteSegments(ctx context.Context, tx *db.CellTx, siteID model.SiteID, first, last model.Day) error {
	_, err := tx.ExecContext(ctx, "DELETE FROM report_segments WHERE site_id = ? AND first_day >= ? AND first_day <= ?",
		siteID, first, last)
	return err
}

// readSegments reads the segments of a site that have days of a span, in order. None of them begins
// before begin.
func (s *cellStore) readSegments(
	ctx context.Context, siteID model.SiteID, begin model.Day, sp span,
) (list []*segment.Segment, err error) {
	err = s.eachSegment(ctx, siteID, begin, sp, nil, func(g *segment.Segment) error {
		list = append(list, g)
		return nil
	})
	return list, err
}

// eachSegment calls take for each segment that readSegments returns, as soon as it is read. For
// buffers, see there.
func (s *cellStore) eachSegment(
	ctx context.Context, siteID model.SiteID, begin model.Day, sp span, buffers *buffers, take func(*segment.Segment) error,
) error {
	err := s.snapshotRows(ctx, func(ctx context.Context, each eachRow) error {
		return eachStored(ctx, each, chunks{site: siteID, begin: begin, span: sp, columns: true}, buffers,
			func(found *stored) error {
				g, err := unpack(found.packed)
				if err != nil {
					return err
				}
				return take(g)
			})
	})
	if err != nil {
		return fmt.Errorf("read segments of site %d from %v: %w", siteID, begin, err)
	}
	return nil
}

// piece is what a report reads of a segment. A segment with a rollup comes without its columns
// first, and then with them if some period needs them.
type piece struct {
	*segment.Segment
	rollup *segment.Rollup // instead of the columns; nil if they are there
	spans  []segment.Span  // of the segment's rollup; nil if it has none
}

// eachPiece calls take for the segments of a site that have days of a span. Of segments with a
// rollup it reads the columns only if needsColumns, or if needsNames and the rollup has other names
// of sources. It reads one state of the database. For buffers, see there.
func (s *cellStore) eachPiece(
	ctx context.Context, siteID model.SiteID, begin model.Day, sp span, buffers *buffers,
	needsNames bool, needsColumns func(piece) bool, take func(piece) error,
) error {
	err := s.snapshotRows(ctx, func(ctx context.Context, each eachRow) error {
		// Segments whose columns are read then, with the spans of their rollups.
		type half struct {
			chunks
			spans []segment.Span
		}
		var incomplete []half

		err := eachStored(ctx, each, chunks{site: siteID, begin: begin, span: sp}, buffers, func(found *stored) error {
			p, err := found.piece(needsNames)
			if err != nil {
				return err
			}

			if p.Segment == nil || p.rollup != nil && needsColumns(p) {
				one := chunks{site: siteID, begin: found.first, span: span{found.first, found.first}, days: found.days, columns: true}
				incomplete = append(incomplete, half{one, p.spans})
			}
			if p.Segment == nil {
				buffers.reuse()
				return nil
			}
			return take(p)
		})
		if err != nil {
			return err
		}

		for _, h := range incomplete {
			err := eachStored(ctx, each, h.chunks, buffers, func(found *stored) error {
				g, err := unpack(found.packed)
				if err != nil {
					return err
				}
				return take(piece{Segment: g, spans: h.spans})
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("read rollups of site %d from %v: %w", siteID, begin, err)
	}
	return nil
}

// piece decodes what was read without the columns. It has no segment if its rollup cannot be used:
// with needsNames, it must have the names of sources of this program.
func (s *stored) piece(needsNames bool) (piece, error) {
	if len(s.rollup) == 0 {
		g, err := unpack(s.packed)
		return piece{Segment: g}, err
	}

	rollup, err := segment.DecodeRollup(s.rollup)
	if err != nil || needsNames && rollup.Names != model.SourceNamesVersion() {
		return piece{}, nil // the columns have the same figures
	}
	g, err := unpackTexts(s.packed)
	return piece{g, rollup, rollup.Spans()}, err
}

// buffers is the memory of stored segments, which take turns in it: a segment is valid until the
// function that takes the next one returns. So two segments are in memory, and none leaves work for
// the garbage collector. Without buffers (nil) each segment has memory of its own.
type buffers struct {
	of   [2]buffer
	turn int
	most int // bytes of a segment; 0: any
}

type buffer struct{ packed, rollup []byte }

// next returns the buffer of the next segment.
func (r *buffers) next() *buffer {
	if r == nil {
		return new(buffer)
	}
	r.turn = 1 - r.turn
	return &r.of[r.turn]
}

// exceeds reports whether a segment is too large.
func (r *buffers) exceeds(size int) bool { return r != nil && r.most > 0 && size > r.most }

// chunks names rows of segments: without their rollups, or without the columns of those that have
// one.
type chunks struct {
	site     model.SiteID
	imported int64     // of this import; 0 for the site's own
	begin    model.Day // of the first day
	span     span      // has one of the days
	days     int64     // of the segment; 0 for any
	columns  bool
}

// reuse gives the next segment the buffer of the last one, which is not taken.
func (r *buffers) reuse() {
	if r != nil {
		r.turn = 1 - r.turn
	}
}

// eachStored calls take for each segment with chunks, in order of time. Chunks are joined. For
// buffers, see there.
func eachStored(ctx context.Context, each eachRow, c chunks, buffers *buffers, take func(*stored) error) error {
	which, args := "(chunk < ? OR chunk >= ?)", []int64{columnsChunk, rollupChunk}
	if c.columns {
		which, args = "chunk < ?", args[1:]
	}
	if c.days > 0 {
		which, args = which+" AND days = ?", append(args, c.days)
	}

	from, key := "report_segments WHERE site_id = ?", []int64{int64(c.site)}
	if c.imported != 0 {
		from, key = "import_segments WHERE site_id = ? AND import_id = ?", append(key, c.imported)
	}

	var next *stored
	err := each(ctx, `SELECT first_day, days, chunk, data FROM `+from+`
AND first_day >= ? AND first_day <= ? AND first_day + days > ? AND `+which+`
ORDER BY first_day, days, chunk`,
		slices.Concat(key, []int64{int64(c.begin), int64(c.span.last), int64(c.span.first)}, args),
		func(r rawrows.Row) error {
			first, days := model.Day(r.Int64(0)), r.Int64(1)
			if next != nil && (next.first != first || next.days != days) {
				if err := take(next); err != nil {
					return err
				}
				next = nil
			}
			if next == nil {
				next = &stored{first: first, days: days, buffer: buffers.next()}
			}
			if r.Int64(2) == 0 && buffers.exceeds(sizeOf(r.Bytes(3), c.columns)) {
				return scan.ErrBudget
			}
			next.add(r.Int64(2), r.Bytes(3), c.columns)
			return nil
		})
	if err != nil || next == nil {
		return err
	}
	return take(next)
}

// add appends a chunk, which it copies. It makes room for all of the segment that follows.
func (s *stored) add(chunk int64, data []byte, columns bool) {
	if chunk >= rollupChunk {
		s.buffer.rollup = append(s.buffer.rollup[:len(s.rollup)], data...)
		s.rollup = s.buffer.rollup
		return
	}
	if chunk == 0 {
		s.buffer.packed = slices.Grow(s.buffer.packed[:0], sizeOf(data, columns))
	}
	s.buffer.packed = append(s.buffer.packed[:len(s.packed)], data...)
	s.packed = s.buffer.packed
}

// sizeOf returns the room that a stored segment needs, with its columns or without, from its first
// chunk. A damaged one has no other chunks to wait for.
func sizeOf(chunk []byte, columns bool) int {
	form, err := formOf(chunk)
	switch {
	case err != nil || form == formDeflated:
		return len(chunk)
	case columns:
		return int(min(binary.LittleEndian.Uint64(chunk[8:]), segment.MaxPart))
	default:
		return min(textsSize(chunk), segment.MaxPart)
	}
}
