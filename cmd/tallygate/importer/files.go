package importer

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/tallygate/tallygate/db/model"
)

// Limits of an export's files.
const (
	maxFiles    = 1_000   // in all archives
	maxLine     = 1 << 20 // bytes of a row
	maxColumns  = 200
	maxArchives = 4 << 30 // bytes of a file as it is stored
)

// maxBytes bounds all files together, uncompressed. Tests set less.
var maxBytes int64 = 2 << 30

// Input is a file of an export that is read from elsewhere than a folder.
type Input struct {
	Name string
	Data io.ReaderAt
	Size int64
}

// reading reads the files of an export within bounds.
type reading struct {
	ctx  context.Context
	lazy bool // permits quotes within fields without quotes
	days *dayFilter

	format format
	result *Result

	files int   // left
	bytes int64 // left, uncompressed
}

// openFile calls take for a file, or for each file of an archive.
func (r *reading) openFile(name string) error {
	file, err := os.Open(name)
	if err != nil {
		return err
	}
	defer file.Close()

	info, err := file.Stat()
	switch {
	case err != nil:
		return err
	case !info.Mode().IsRegular():
		return fmt.Errorf("%s: not a file", name)
	case info.Size() > maxArchives:
		return fmt.Errorf("%s: larger than 4 GB", name)
	}

	return r.open(Input{Name: name, Data: file, Size: info.Size()})
}

// open is openFile for an open file.
func (r *reading) open(file Input) error {
	base := path.Base(strings.ReplaceAll(file.Name, `\`, "/"))
	start := make([]byte, 4)
	n, err := file.Data.ReadAt(start, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	content := io.NewSectionReader(file.Data, 0, file.Size)

	// The first bytes of a gzip file and of a ZIP archive, which can have other data before it.
	switch start = start[:n]; {
	case bytes.HasPrefix(start, []byte("\x1f\x8b")):
		plain, err := gzip.NewReader(content)
		if err != nil {
			return placed(err, base, 0)
		}
		return r.readTable(strings.TrimSuffix(base, ".gz"), plain)
	case bytes.HasPrefix(start, []byte("PK\x03\x04")), strings.EqualFold(path.Ext(base), ".zip"):
		return r.openArchive(base, file)
	}
	return r.readTable(base, content)
}

// table reads the rows of a CSV file.
type table struct {
	name    string
	csv     *csv.Reader
	bounded *boundedReader
	rows    int64

	columns map[string]int // by name, of the header
	width   int            // of the header
	row     []string       // the current one
	line    int            // where it begins
	err     error          // of more

	// A later row added columns: rows before it are shorter, and their missing and empty fields
	// count as zeros.
	short bool
}

// boundedReader fails when a row or all files become too long, so that a damaged or malicious file
// takes neither memory nor time without end.
type boundedReader struct {
	from io.Reader
	left *reading
	row  int // bytes since the last row
}

var (
	errLongRow   = model.Damaged(model.FaultLongRow, model.ImportValues{Limit: maxLine})
	errLongFiles = tooLarge("the files have more than 2 GB. Import parts of them")
	errManyFiles = tooLarge("more than %d files", maxFiles)
	errNoText    = model.Damaged(model.FaultNotCSV, model.ImportValues{})
)

func (b *boundedReader) Read(to []byte) (int, error) {
	if err := b.left.ctx.Err(); err != nil {
		return 0, err
	}
	n, err := b.from.Read(to)
	if err := b.left.days.count(n); err != nil {
		return 0, err
	}
	b.left.bytes -= int64(n)
	switch b.row += n; {
	case b.left.bytes < 0:
		return 0, errLongFiles
	case b.row > maxLine:
		return 0, errLongRow
	}
	return n, err
}

// readTable calls take with a file's table.
func (r *reading) readTable(name string, from io.Reader) error {
	if r.files--; r.files < 0 {
		return placed(errManyFiles, name, 0)
	}

	t := &table{name: name, bounded: &boundedReader{from: from, left: r}}
	start := bufio.NewReader(t.bounded)
	if head, err := start.Peek(512); err != nil && !errors.Is(err, io.EOF) {
		return t.failed(err)
	} else if bytes.HasPrefix(head, []byte("\xef\xbb\xbf")) {
		if _, err := start.Discard(3); err != nil {
			return t.failed(err)
		}
	} else if bytes.IndexByte(head, 0) >= 0 || bytes.HasPrefix(bytes.TrimSpace(head), []byte("{")) {
		return t.failed(errNoText)
	}
	if head, err := start.Peek(512); len(head) > 0 && otherSeparator(head) {
		return t.failed(model.Damaged(model.FaultSeparator, model.ImportValues{}))
	} else if err != nil && !errors.Is(err, io.EOF) {
		return t.failed(err)
	}

	t.csv = csv.NewReader(start)
	t.csv.FieldsPerRecord = -1
	t.csv.ReuseRecord = true
	t.csv.LazyQuotes = r.lazy
	return r.take(t)
}

// otherSeparator reports whether the columns of a file with this head are separated by semicolons
// or tabs. Each table has several columns, so that a header without a comma is damaged.
func otherSeparator(head []byte) bool {
	for line := range bytes.Lines(head) {
		line = bytes.TrimSpace(line)
		if len(line) == 0 || line[0] == '#' {
			continue // a comment
		}
		at := bytes.IndexAny(line, ";\t")
		return at > 0 && at < len(line)-1 && line[at+1] != ' ' && bytes.IndexByte(line, ',') < 0
	}
	return false
}

// failed returns an error of the current row with the file and the line.
func (t *table) failed(err error) error {
	if ended := t.bounded.left.ctx.Err(); ended != nil {
		return ended
	}
	line := t.line
	if parse, ok := errors.AsType[*csv.ParseError](err); ok {
		line, err = parse.Line, parse.Err
	}
	return placed(err, t.name, line)
}

// placed returns an error of an export with a file and a line, unless the error has a file. An
// error of a call stays.
func placed(err error, file string, line int) error {
	var call interface{ Timeout() bool } // a *url.Error
	failure, known := errors.AsType[*model.ImportFailure](err)
	switch {
	case known && (failure.File != "" || failure.Code == model.ImportTooMuch):
		return failure
	case !known && errors.As(err, &call):
		return fmt.Errorf("%s: %w", file, err)
	case !known:
		failure = model.Damaged(model.FaultUnreadable, model.ImportValues{Value: err.Error()})
	}

	there := *failure
	there.File, there.Line = file, line
	return &there
}

// next reads the next row. It returns io.EOF at the end.
func (t *table) next() error {
	t.bounded.row = 0
	row, err := t.csv.Read()
	if err != nil {
		if !errors.Is(err, io.EOF) {
			t.line++ // of the row that cannot be read
		}
		return err
	}

	t.line, _ = t.csv.FieldPos(0)
	t.row = row
	if len(row) > maxColumns {
		return model.Damaged(model.FaultManyColumns, model.ImportValues{Limit: maxColumns})
	}
	for i, text := range row {
		if !utf8.ValidString(text) {
			return model.Damaged(model.FaultNotUTF8, model.ImportValues{})
		}

		// Matomo and others put an apostrophe before a text that a spreadsheet would take for a
		// formula.
		if len(text) > 1 && text[0] == '\'' && strings.IndexByte("=+-@\t\r", text[1]) >= 0 {
			row[i] = text[1:]
		}
	}
	return nil
}

// header reads the first row as the names of the columns, in lower case. It fails if a wanted name
// is missing.
func (t *table) header(wanted ...string) error {
	if err := t.next(); err != nil {
		if errors.Is(err, io.EOF) {
			return model.Damaged(model.FaultEmptyFile, model.ImportValues{})
		}
		return err
	}
	if err := t.setColumns(); err != nil {
		return err
	}
	return t.want(wanted...)
}

// want fails if a column is missing.
func (t *table) want(wanted ...string) error {
	for _, name := range wanted {
		if _, ok := t.columns[name]; !ok {
			return model.Damaged(model.FaultMissingColumn, model.ImportValues{Name: name})
		}
	}
	return nil
}

// setColumns takes the current row as the names of the columns.
func (t *table) setColumns() error {
	t.columns, t.width = make(map[string]int), 0
	for i, name := range t.row {
		name = strings.ToLower(strings.TrimSpace(name))
		if name == "" {
			continue // a spreadsheet makes all rows equally long
		}
		if _, twice := t.columns[name]; twice {
			return model.Damaged(model.FaultRepeatedColumn, model.ImportValues{Name: name})
		}
		t.columns[name], t.width = i, i+1
	}
	return nil
}

// more reads the next row after the header, which must have as many fields as the header. It
// returns false at the end of the table, and for a damaged row, which is in err.
func (t *table) more() bool {
	for {
		if err := t.next(); errors.Is(err, io.EOF) {
			return false
		} else if err != nil {
			t.err = err
			return false
		}
		if !t.isBlank() {
			break
		}
	}

	for t.short && len(t.row) < t.width {
		t.row = append(t.row, "")
	}
	if t.err = t.fits(); t.err != nil {
		return false
	}
	t.rows++
	return true
}

// isBlank reports whether the current row has no text, as empty lines of a spreadsheet.
func (t *table) isBlank() bool {
	return !slices.ContainsFunc(t.row, func(text string) bool { return strings.TrimSpace(text) != "" })
}

// fits fails if the current row has not as many fields as the header, apart from empty ones at its
// end.
func (t *table) fits() error {
	n := len(t.row)
	for n > t.width && strings.TrimSpace(t.row[n-1]) == "" {
		n--
	}
	if n != t.width {
		return model.Damaged(model.FaultFields, model.ImportValues{Count: int64(n), Limit: int64(t.width)})
	}
	return nil
}

// has reports whether the file has a column.
func (t *table) has(column string) bool {
	_, ok := t.columns[column]
	return ok
}

// raw returns a field as it is. A missing column has empty fields.
func (t *table) raw(column string) string {
	i, ok := t.columns[column]
	if !ok {
		return ""
	}
	return t.row[i]
}

// text returns a field as it can be stored; empty for a word that means a missing value.
func (t *table) text(column string) string { return value(bounded(t.raw(column))) }

// count returns a field that is a number of things. A missing column has zeros.
func (t *table) count(column string) (int64, error) {
	if !t.has(column) {
		return 0, nil
	}

	text := strings.TrimSuffix(t.raw(column), ".0")
	if t.short && value(text) == "" {
		return 0, nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 || n > model.MaxImportFigure {
		return 0, model.Damaged(model.FaultNumber, model.ImportValues{
			Name: column, Value: t.raw(column), Limit: model.MaxImportFigure,
		})
	}
	return n, nil
}

// counts reads fields into sums.
func (t *table) counts(to map[string]*int64) error {
	for column, sum := range to {
		n, err := t.count(column)
		if err != nil {
			return err
		}
		*sum = n
	}
	return nil
}

// firstDay is the earliest day of an export.
var firstDay, _ = model.ParseDay("1995-01-01")

// day returns a day from its text, YYYY-MM-DD or YYYYMMDD.
func day(text string) (model.Day, error) {
	if len(text) == len("20060102") {
		text = text[:4] + "-" + text[4:6] + "-" + text[6:]
	}
	d, err := model.ParseDay(text)
	if err != nil || d < firstDay {
		return 0, model.Damaged(model.FaultDay, model.ImportValues{Value: text})
	}
	return d, nil
}
