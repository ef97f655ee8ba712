package export

import (
	"encoding/json"
	"strconv"
	"strings"
	"unicode"

	"github.com/tallygate/tallygate/db/model"
)

// cell writes a value as the text of a CSV cell. Texts are defused, see defuse; numbers stay
// numbers, and an object stays valid JSON with the same meaning.
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

// cuts are the characters besides the comma at which spreadsheets cut a line into cells, or a file
// into lines. Excel cuts at its list separator, which is a semicolon in much of Europe, and then
// does not see the quotes around a cell.
const cuts = ";\t\r\n"

// defuse puts an apostrophe in front of each part of a text that a spreadsheet would run as a
// formula: the text itself, and what follows each of the cuts.
func defuse(text string) string {
	var b strings.Builder

	for start := 0; ; {
		end := strings.IndexAny(text[start:], cuts)
		part := text[start:]

		if end >= 0 {
			part = part[:end+1]
		}

		if isFormula(part) || start == 0 && end == 0 && part != ";" {
			// a leading tab or line break is dropped by some programs
			b.WriteByte('\'')
		}

		b.WriteString(part)

		if end < 0 {
			return b.String()
		}

		start += len(part)
	}
}

// isFormula reports whether a cell with this text is run. Programs look past quotes, spaces and
// invisible characters; some take the full-width signs for the plain ones.
func isFormula(text string) bool {
	text = strings.TrimLeftFunc(text, func(r rune) bool {
		return r == '"' || unicode.IsSpace(r) || unicode.In(r, unicode.Cc, unicode.Cf)
	})
	return text != "" && strings.ContainsRune("=+-@＝＋－＠", []rune(text)[0])
}

// defuseObject defuses a compact JSON object. It begins with a brace and has no tabs or line
// breaks; a semicolon is within a string, where an escape means the same.
func defuseObject(object string) string {
	if defuse(object) == object {
		return object
	}
	return strings.ReplaceAll(object, ";", `\u003b`)
}
