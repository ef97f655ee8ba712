package main

import (
	"bufio"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/tallygate/tallygate/tools/oracle"
)

// readFiles reads the rows of the files of an export.
func readFiles(paths []string) ([]oracle.Row, error) {
	var all []oracle.Row
	for _, path := range paths {
		rows, err := readFile(path)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		all = append(all, rows...)
	}
	return all, nil
}

// readFile reads a file in either form. A file of JSON begins with its array.
func readFile(path string) ([]oracle.Row, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()

	r := bufio.NewReader(f)
	if first, err := r.Peek(1); err != nil || first[0] != '[' {
		return readCSV(r)
	}
	var rows []oracle.Row
	err = json.NewDecoder(r).Decode(&rows)
	return rows, err
}

// readCSV reads rows below a line with the names of the columns. Go's reader changes CR and LF within a
// cell to LF; JSON has such texts as they were.
func readCSV(from io.Reader) ([]oracle.Row, error) {
	r := csv.NewReader(from)
	names, err := r.Read()
	if err != nil {
		return nil, fmt.Errorf("read the names of the columns: %w", err)
	}
	names = slices.Clone(names)
	if !slices.Contains(names, "visitor_id") {
		return nil, errors.New("not an export: there is no column visitor_id")
	}

	var rows []oracle.Row
	for {
		record, err := r.Read()
		if errors.Is(err, io.EOF) {
			return rows, nil
		}
		if err != nil {
			return nil, err
		}

		var row oracle.Row
		for i, cell := range record {
			if err := setColumn(&row, names[i], cell); err != nil {
				line, _ := r.FieldPos(i)
				return nil, fmt.Errorf("line %d, column %s: %w", line, names[i], err)
			}
		}
		rows = append(rows, row)
	}
}

// setColumn sets the field of a column. Columns that no report uses are left out.
func setColumn(row *oracle.Row, name, cell string) error {
	if text := textColumn(row, name); text != nil {
		*text = plain(cell)
		return nil
	}
	if cell == "" {
		return nil
	}

	var err error
	switch name {
	case "time":
		row.Time, err = time.Parse(time.RFC3339, cell)
	case "visit_started_at":
		row.StartedAt, err = time.Parse(time.RFC3339, cell)
	case "engaged_ms":
		var n int64
		n, err = strconv.ParseInt(cell, 10, 32)
		row.Engaged = int32(n)
	case "scroll_percent":
		var n int64
		n, err = strconv.ParseInt(cell, 10, 16)
		row.Scroll = int16(n)
	case "value":
		row.Value = json.Number(cell)
	case "properties":
		row.Properties = json.RawMessage(plain(cell))
	}
	return err
}

// textColumn returns the field of a column of text; nil for another column.
func textColumn(row *oracle.Row, name string) *string {
	return map[string]*string{
		"row_id": &row.RowID, "path": &row.Path, "visitor_id": &row.VisitorID, "visit_id": &row.VisitID,
		"channel": &row.Channel, "referrer": &row.Referrer, "user_id": &row.UserID,
		"utm_source": &row.Source, "utm_medium": &row.Medium, "utm_campaign": &row.Campaign,
		"utm_content": &row.Content, "utm_term": &row.Term,
		"gclid": &row.Gclid, "gbraid": &row.Gbraid, "wbraid": &row.Wbraid, "fbclid": &row.Fbclid, "msclkid": &row.Msclkid,
		"language": &row.Language, "screen_width": &row.Width, "event": &row.Event, "currency": &row.Currency,
	}[name]
}

// plain undoes what the export does to text that a spreadsheet would run as a formula: an apostrophe
// before it, at the start and after each character at which spreadsheets split a cell. Text that was
// sent with such an apostrophe reads the same; JSON has it as it was.
func plain(text string) string {
	const cuts = ";\t\r\n"
	if !strings.Contains(text, "'") {
		return text
	}

	var b strings.Builder
	for start := 0; start < len(text); {
		end := len(text)
		if i := strings.IndexAny(text[start:], cuts); i >= 0 {
			end = start + i + 1
		}

		part := text[start:end]
		rest, quoted := strings.CutPrefix(part, "'")
		cut := start == 0 && rest != "" && strings.Contains("\t\r\n", rest)
		if quoted && (isFormula(rest) || cut) {
			part = rest
		}
		b.WriteString(part)
		start = end
	}
	return b.String()
}

// isFormula reports whether a text begins with a sign of a formula, after spaces and quotes.
func isFormula(text string) bool {
	text = strings.TrimLeftFunc(text, func(r rune) bool {
		return r == '"' || unicode.IsSpace(r) || unicode.In(r, unicode.Cc, unicode.Cf)
	})
	first, _ := utf8.DecodeRuneInString(text)
	return strings.ContainsRune("=+-@＝＋－＠", first)
}
