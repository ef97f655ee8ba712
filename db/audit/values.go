package audit

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/tallygate/tallygate/db/model"
)

// The bounds of the values before or after a change.
const (
	maxValues = 2048 // bytes of the JSON object
	maxItems  = 10   // of a list in an object that would be larger
	maxText   = 100  // bytes of a text in such an object
)

// encode returns values as JSON, and "" if values is empty. Values of more than maxValues bytes are
// cut and end with a mark.
func encode(values Values) (string, error) {
	if values == nil {
		return "", nil
	}

	text, err := json.Marshal(values)
	if err != nil || len(text) <= maxValues {
		return string(text), err
	}

	// Cut long values in the form that a reader gets: lists, objects and texts.
	var plain map[string]any
	if err := json.Unmarshal(text, &plain); err != nil {
		return "", err
	}
	for name, value := range plain {
		plain[name] = cut(value)
	}

	// Values that are still too large are left out, from the last to the first.
	for names := slices.Sorted(maps.Keys(plain)); len(names) > 0; names = names[:len(names)-1] {
		text, err = json.Marshal(plain)
		if err != nil || len(text) <= maxValues {
			break
		}

		plain[names[len(names)-1]] = "…"
	}

	return string(text), err
}

// cut returns a value of JSON in a short form.
func cut(value any) any {
	switch value := value.(type) {
	case string:
		return cutText(value)
	case []any:
		list := value[:min(len(value), maxItems)]
		for i, item := range list {
			list[i] = cut(item)
		}
		if more := len(value) - len(list); more > 0 {
			list = append(slices.Clip(list), fmt.Sprintf("… and %d more", more))
		}

		return list
	case map[string]any:
		text, err := json.Marshal(value)
		if err != nil {
			return "…"
		}
		return cutText(string(text))
	}

	return value
}

func cutText(s string) string {
	if len(s) <= maxText {
		return s
	}
	return model.Clean(s, maxText) + "…"
}
