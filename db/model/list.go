package model

import (
	"database/sql/driver"
	"encoding/json"
	"fmt"
	"strings"
)

// List is a list of texts that a column stores, a line each. No text may be empty or have a
// newline.
type List[T ~string] []T

// Value implements driver.Valuer.
func (l List[T]) Value() (driver.Value, error) {
	lines := make([]string, len(l))
	for i, text := range l {
		lines[i] = string(text)
	}
	return strings.Join(lines, "\n"), nil
}

// MarshalJSON writes an empty list as [], also a stored one, which is nil. So the audit log shows
// no change where both are empty.
func (l List[T]) MarshalJSON() ([]byte, error) {
	if len(l) == 0 {
		return []byte("[]"), nil
	}
	return json.Marshal([]T(l))
}

// Scan implements sql.Scanner.
func (l *List[T]) Scan(stored any) error {
	var text string
	switch stored := stored.(type) {
	case string:
		text = stored
	case []byte:
		text = string(stored)
	default:
		return fmt.Errorf("a list is stored as %T", stored)
	}

	*l = nil
	for line := range strings.SplitSeq(text, "\n") {
		if line != "" {
			*l = append(*l, T(line))
		}
	}
	return nil
}
