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
	"strings"
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

// readCSV reads rows below a line with the names of the columns. Go's reader changes CR and LF
// within a cell to LF; JSON has such texts as they were.
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

		cells := make(map[string]any)
		for i, cell := range record {
			if cell != "" {
				cells[names[i]] = jsonOf(names[i], plain(cell))
			}
		}
		var row oracle.Row
		text, err := json.Marshal(cells)
		if err == nil {
			err = json.Unmarshal(text, &row)
		}
		if err != nil {
			line, _ := r.FieldPos(0)
			return nil, fmt.Errorf("line %d: %w", line, err)
		}
		rows = append(rows, row)
	}
}

// jsonOf returns a cell as the JSON form of the export has it.
func jsonOf(name, cell string) any {
	switch name {
	case "engaged_ms", "scroll_percent", "value", "properties":
		return json.RawMessage(cell)
	}
	return cell
}

// plain undoes what the export does to text that a spreadsheet would run as a formula: an
// apostrophe before it, at the start and after each character at which spreadsheets split a cell.
// Text that was sent with such an apostrophe reads the same; JSON has it as it was.
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
