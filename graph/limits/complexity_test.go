package limits

import "testing"

// TestItemsOfInputs: the items of all lists count, at any depth.
func TestItemsOfInputs(t *testing.T) {
	for _, test := range []struct {
		input any
		want  int
	}{
		{nil, 0}, {"text", 0}, {map[string]any{"a": []any{1, 2}, "b": map[string]any{"c": []any{[]any{1}}}}, 4},
	} {
		if got := items(test.input); got != test.want {
			t.Errorf("%v has %d items, want %d", test.input, got, test.want)
		}
	}
}
