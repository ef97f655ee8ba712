package export

import (
	"encoding/json"
	"strconv"
	"strings"
	"unicode"

	"github.com/tallygate/tallygate/db/model"
)

// cell returns a value as the text of a CSV cell. Texts are defused, see defuse. Numbers are not
// changed, and an object remains valid JSON with the same meaning.
func cell(value any) string {
	switch v := value.(type) {
	case string:
		return defuse(v)
	case int64:
		return strconv.FormatInt(v, 10)
	case bool:
		return strconv.FormatBool(v)
	case model.Money:
		return v.String()
	case json.RawMessage:
		return defuseObject(string(v))
	}

	return ""
}

// cuts are the characters, in addition to the comma, at which spreadsheets split cells or lines.
// Excel splits at its list separator, a semicolon in much of Europe, and then ignores the quotes
// around a cell.
const cuts = ";\t\r\n"

// defuse prefixes an apostrophe to each segment of a text that a spreadsheet would run as a
// formula: the text itself, and the text after each of the cuts.
func defuse(text string) string {
	var b strings.Builder

	for start := 0; ; {
		end := strings.IndexAny(text[start:], cuts)
		part := text[start:]
		if end >= 0 {
			part = part[:end+1]
		}

		if isFormula(part) || start == 0 && end == 0 && part != ";" {
			// Some programs drop a leading tab or line break.
			b.WriteByte('\'')
		}

		b.WriteString(part)

		if end < 0 {
			return b.String()
		}

		start += len(part)
	}
}

// isFormula reports whether spreadsheets run a cell with this text. They skip leading quotes,
// spaces and invisible characters; some treat the full-width signs like the plain ones.
func isFormula(text string) bool {
	text = strings.TrimLeftFunc(text, func(r rune) bool {
		return r == '"' || unicode.IsSpace(r) || unicode.In(r, unicode.Cc, unicode.Cf)
	})
	return text != "" && strings.ContainsRune("=+-@＝＋－＠", []rune(text)[0])
}

// defuseObject defuses a compact JSON object. It begins with a brace and contains no tabs or line
// breaks; each semicolon is inside a string and can be escaped.
func defuseObject(object string) string {
	if defuse(object) == object {
		return object
	}
	return strings.ReplaceAll(object, ";", `\u003b`)
}
