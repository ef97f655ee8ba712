package plain

import (
	"bytes"
	"cmp"
	"encoding/csv"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"strconv"
	"strings"
)

// writeJSON writes one object: flat names for the totals, and the lists "series" and "rows".
func writeJSON(a *answer) ([]byte, error) {
	var b bytes.Buffer
	b.WriteString("{")
	writeMembers(&b, append(a.about, a.totals...))
	writeList(&b, "series", "start", a.series)
	writeList(&b, "rows", "value", a.rows)
	if a.rows != nil {
		fmt.Fprintf(&b, `,"rowCount":%d`, a.more)
	}
	b.WriteString("}\n")
	return b.Bytes(), nil
}

// writeMembers writes the members of an object.
func writeMembers(b *bytes.Buffer, members []figure) {
	for i, m := range members {
		if i > 0 {
			b.WriteString(",")
		}
		fmt.Fprintf(b, "%s:%s", quoted(m.name), cmp.Or(string(m.value), "null"))
	}
}

// writeList writes a list of objects as a member, unless it was not asked for.
func writeList(b *bytes.Buffer, name, label string, rows []row) {
	if rows == nil {
		return
	}
	fmt.Fprintf(b, `,%q:[`, name)
	for i, r := range rows {
		if i > 0 {
			b.WriteString(",")
		}
		b.WriteString("{")
		writeMembers(b, append([]figure{{label, quoted(r.label)}}, r.figures...))
		b.WriteString("}")
	}
	b.WriteString("]")
}

// writeCSV writes a table with one row for each part or value, or with one row of totals.
func writeCSV(a *answer) ([]byte, error) {
	label, rows := "start", a.series
	if a.question.by != "" {
		label, rows = "value", a.rows
	}
	if rows == nil {
		label, rows = "site", []row{{a.domain, a.totals}}
	}

	// Rows can have revenue in different currencies.
	columns := []string{}
	seen := make(map[string]bool)
	for _, r := range rows {
		for _, f := range r.figures {
			if !seen[f.name] {
				seen[f.name] = true
				columns = append(columns, f.name)
			}
		}
	}

	var b bytes.Buffer
	w := csv.NewWriter(&b)
	_ = w.Write(append([]string{label}, columns...)) // Flush returns its error
	for _, r := range rows {
		fields := []string{cell(r.label)}
		for _, name := range columns {
			fields = append(fields, number(r.figures, name))
		}
		_ = w.Write(fields)
	}
	w.Flush()
	return b.Bytes(), w.Error()
}

// cell returns a text for a cell of a sheet, which must not take what a visitor wrote for a formula.
func cell(text string) string {
	if text != "" && strings.ContainsRune("=+-@\t\r", rune(text[0])) {
		return "'" + text
	}
	return text
}

// number returns the figure with a name as text, "" if it has no value.
func number(figures []figure, name string) string {
	for _, f := range figures {
		if f.name == name && string(f.value) != "null" {
			return string(f.value)
		}
	}
	return ""
}

// writeProm writes a gauge for each figure, in Prometheus' text format.
func writeProm(a *answer) ([]byte, error) {
	rows := []row{{"", a.totals}}
	if a.rows != nil {
		rows = a.rows
	}

	var b bytes.Buffer
	for _, name := range metricNames {
		writeGauge(&b, a, name, rows)
	}
	if a.rows == nil {
		writeGauge(&b, a, "live", rows)
	}
	for _, r := range rows {
		for _, f := range r.figures {
			if currency, ok := strings.CutPrefix(f.name, "revenue"); ok {
				writeSample(&b, a, "revenue", r.label, `,currency="`+currency+`"`, f.value)
			}
		}
	}
	return b.Bytes(), nil
}

// writeGauge writes a figure of each row that has it.
func writeGauge(b *bytes.Buffer, a *answer, name string, rows []row) {
	fmt.Fprintf(b, "# TYPE %s gauge\n", gauge(name))
	for _, r := range rows {
		if value := number(r.figures, name); value != "" {
			writeSample(b, a, name, r.label, "", json.RawMessage(value))
		}
	}
}

// gauge returns the name of a figure's metric.
func gauge(name string) string {
	return "tallygate_site_" + strings.ToLower(capitals.ReplaceAllString(name, "_$0"))
}

// writeSample writes one line, with the value of a dimension unless it is a total.
func writeSample(b *bytes.Buffer, a *answer, name, value, more string, figure json.RawMessage) {
	labels := `site="` + escaped(a.domain) + `",period="` + escaped(a.question.period) + `"`
	if a.rows != nil {
		labels += `,` + a.question.by + `="` + escaped(value) + `"`
	}
	fmt.Fprintf(b, "%s{%s%s} %s\n", gauge(name), labels, more, figure)
}

// escaped returns the value of a label in Prometheus' text format.
func escaped(text string) string {
	return strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(text)
}

// Sizes of a badge in pixels. A letter of its font is about 6.5 wide.
const (
	badgeHeight  = 20
	badgeLetter  = 6.5
	badgePadding = 12
)

// writeSVG writes a badge with one figure of the totals.
func writeSVG(a *answer) ([]byte, error) {
	name, value := spoken(a.question.metric), short(string(a.value(a.question.metric)))
	left, right := width(name), width(value)

	var text bytes.Buffer
	for _, part := range []string{name, value} {
		if err := xml.EscapeText(&text, []byte(part)); err != nil {
			return nil, err
		}
		text.WriteByte(0)
	}
	parts := strings.Split(text.String(), "\x00")

	return fmt.Appendf(nil, `<svg xmlns="http://www.w3.org/2000/svg" width="%[1]d" height="%[2]d" role="img" aria-label="%[5]s: %[6]s">`+
		`<title>%[5]s: %[6]s</title><rect width="%[1]d" height="%[2]d" rx="3" fill="#444"/>`+
		`<path d="M%[3]d 0h%[7]da3 3 0 0 1 3 3v14a3 3 0 0 1-3 3h-%[7]dz" fill="#0b63c5"/>`+
		`<g fill="#fff" text-anchor="middle" font-family="Verdana,DejaVu Sans,sans-serif" font-size="11">`+
		`<text x="%[8]d" y="14">%[5]s</text><text x="%[9]d" y="14">%[6]s</text></g></svg>`+"\n",
		left+right, badgeHeight, left, right, parts[0], parts[1], right-3, left/2, left+right/2), nil
}

// width returns the width of a part of a badge.
func width(text string) int { return int(badgeLetter*float64(len([]rune(text)))) + badgePadding }

// spoken returns the name of a figure as words.
func spoken(name string) string { return strings.ToLower(capitals.ReplaceAllString(name, " $0")) }

// short returns a number as a badge has it: 999, 1.2k, 34k, 5.6M. Without a number it is a dash.
func short(text string) string {
	n, err := strconv.ParseFloat(text, 64)
	switch {
	case err != nil:
		return "–"
	case n < 1000:
		return strconv.FormatFloat(n, 'f', -1, 64)
	}

	unit := ""
	for _, next := range []string{"k", "M", "G"} {
		// 999,500 is a million when it is rounded.
		if n < 999.5 {
			break
		}
		n, unit = n/1000, next
	}
	if n < 9.95 {
		return strconv.FormatFloat(n, 'f', 1, 64) + unit
	}
	return strconv.FormatFloat(n, 'f', 0, 64) + unit
}
