package segment

import (
	"encoding/json"
	"slices"
)

// property is a flat property as text.
type property struct {
	name, value string
}

// flatProperties lists the first MaxProperties properties, by name, whose value is a text, a number,
// true or false. Lists and objects are not broken down (analytics contract, section 2).
func flatProperties(object []byte) []property {
	if len(object) == 0 {
		return nil
	}

	var members map[string]json.RawMessage
	if json.Unmarshal(object, &members) != nil {
		return nil
	}

	flat := make([]string, 0, len(members))
	for name, raw := range members {
		if isFlat(raw) {
			flat = append(flat, name)
		}
	}
	slices.Sort(flat)

	list := make([]property, 0, min(len(flat), MaxProperties))
	for _, name := range flat[:min(len(flat), MaxProperties)] {
		if value, ok := flatValue(members[name]); ok {
			list = append(list, property{name, value})
		}
	}
	return list
}

func isFlat(raw json.RawMessage) bool {
	switch raw[0] {
	case '{', '[', 'n':
		return false
	default:
		return true
	}
}

// flatValue returns a text without its quotes and a number, true or false as stored.
func flatValue(raw json.RawMessage) (string, bool) {
	if raw[0] != '"' {
		return string(raw), true
	}
	var text string
	err := json.Unmarshal(raw, &text)
	return text, err == nil
}
