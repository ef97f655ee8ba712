package mail

import (
	"encoding/json"
	"strings"
	"unicode"

	"github.com/tallygate/tallygate/db/model"
)

// maxText is how many characters of one text in a mail's data a mail shows.
const maxText = 500

// cleaned returns JSON in which each text is one line of at most maxText characters. So data can
// add neither paragraphs nor headers, and cannot reverse the direction of the text around it.
func cleaned(data string) ([]byte, error) {
	var value any
	decoder := json.NewDecoder(strings.NewReader(data))
	decoder.UseNumber()
	if err := decoder.Decode(&value); err != nil {
		return nil, err
	}
	return json.Marshal(cleanValue(value))
}

// cleanValue cleans the texts of a value that was decoded from JSON.
func cleanValue(value any) any {
	switch v := value.(type) {
	case string:
		return model.Clean(withoutControls(v), maxText)
	case []any:
		for i := range v {
			v[i] = cleanValue(v[i])
		}
	case map[string]any:
		for key := range v {
			v[key] = cleanValue(v[key])
		}
	}
	return value
}

// withoutControls removes control characters, line separators, and marks of the text's direction.
func withoutControls(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || unicode.In(r, unicode.Zl, unicode.Zp, unicode.Bidi_Control) {
			return -1
		}
		return r
	}, s)
}
