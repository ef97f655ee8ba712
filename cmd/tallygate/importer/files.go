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
	take func(*table) error
	days *dayFilter

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
		return &FileError{File: name, Text: "not a file"}
	case info.Size() > maxArchives:
		return &FileError{File: name, Text: "larger than 4 GB"}
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
			return &FileError{File: base, Text: err.Error()}
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
	short   bool           // empty fields are zeros
	row     []string       // the current one
	line    int            // where it begins
}

// boundedReader fails when a row or all files become too long, so that a damaged or malicious file
// takes neither memory nor time without end.
type boundedReader struct {
	from io.Reader
	left *reading
	row  int // bytes since the last row
}

var (
	errLongRow   = fmt.Errorf("a row of more than %d bytes", maxLine)
	errLongFiles = tooLarge("the files have more than 2 GB. Import parts of them")
	errManyFiles = tooLarge("more than %d files", maxFiles)
	errNoText    = errors.New("not a CSV file in UTF-8")
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
		return &FileError{File: name, Text: errManyFiles.Error(), cause: errManyFiles}
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

	t.csv = csv.NewReader(start)
	t.csv.FieldsPerRecord = -1
	t.csv.ReuseRecord = true
	t.csv.LazyQuotes = r.lazy
	return r.take(t)
}

// failed returns an error of the current row with the file and the line.
func (t *table) failed(err error) error {
	if e, ok := errors.AsType[*FileError](err); ok {
		return e
	}
	e := &FileError{File: t.name, Text: err.Error(), cause: err}
	if parse, ok := errors.AsType[*csv.ParseError](err); ok {
		e.Line, e.Text = parse.Line, parse.Err.Error()
	} else {
		e.Line = t.line
	}
	return e
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
		return fmt.Errorf("more than %d columns", maxColumns)
	}
	for _, text := range row {
		if !utf8.ValidString(text) {
			return errors.New("not UTF-8")
		}
	}
	return nil
}

// header reads the first row as the names of the columns, in lower case. It fails if a wanted name
// is missing.
func (t *table) header(wanted ...string) error {
	if err := t.next(); err != nil {
		if errors.Is(err, io.EOF) {
			return errors.New("the file is empty")
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
			return fmt.Errorf("there is no column %q", name)
		}
	}
	return nil
}

// setColumns takes the current row as the names of the columns.
func (t *table) setColumns() error {
	t.columns = make(map[string]int)
	for i, name := range t.row {
		name = strings.ToLower(strings.TrimSpace(name))
		if _, twice := t.columns[name]; twice && name != "" {
			return fmt.Errorf("the column %q comes twice", name)
		}
		t.columns[name] = i
	}
	return nil
}

// each calls take for each row after the header. A row must have as many fields as the header.
func (t *table) each(take func() error) error { return t.eachOf(false, take) }

// eachShort is each for tables with columns that a later row added: rows before it are shorter, and their missing and
// empty fields count as zeros.
func (t *table) eachShort(take func() error) error { return t.eachOf(true, take) }

func (t *table) eachOf(short bool, take func() error) error {
	for {
		if err := t.next(); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}

		for short && len(t.row) < len(t.columns) {
			t.row = append(t.row, "")
		}
		if len(t.row) != len(t.columns) {
			return fmt.Errorf("%d fields instead of %d", len(t.row), len(t.columns))
		}
		t.short = short
		t.rows++
		if err := take(); err != nil {
			return err
		}
	}
}

// has reports whether the file has a column.
func (t *table) has(column string) bool {
	_, ok := t.columns[column]
	return ok
}

// text returns a field as it can be stored. A missing column has empty fields.
func (t *table) text(column string) string {
	i, ok := t.columns[column]
	if !ok {
		return ""
	}
	return model.Storable(t.row[i], model.MaxFilterText)
}

// count returns a field that is a number of things. A missing column has zeros.
func (t *table) count(column string) (int64, error) {
	i, ok := t.columns[column]
	if !ok {
		return 0, nil
	}

	text := strings.TrimSuffix(t.row[i], ".0")
	if text == "" && t.short {
		return 0, nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 || n > model.MaxImportFigure {
		return 0, fmt.Errorf("%s is not a number from 0 to %d: %.40q", column, int64(model.MaxImportFigure), t.row[i])
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
		return 0, fmt.Errorf("not a day from 1995 on: %.40q", text)
	}
	return d, nil
}
