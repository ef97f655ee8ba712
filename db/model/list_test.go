package model_test

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/tallygate/tallygate/db/model"
)

// TestList checks that a list is stored and read, and that a stored empty list is an empty one in
// JSON.
func TestList(t *testing.T) {
	for _, test := range []struct {
		list         model.List[string]
		stored, json string
	}{
		{nil, "", "[]"},
		{model.List[string]{}, "", "[]"},
		{model.List[string]{"/a", "/b c"}, "/a\n/b c", `["/a","/b c"]`},
	} {
		stored, err := test.list.Value()
		if err != nil || stored != test.stored {
			t.Errorf("%q is stored as %q, error %v", test.list, stored, err)
		}
		var read model.List[string]
		if err := read.Scan([]byte(test.stored)); err != nil || !slices.Equal(read, test.list) {
			t.Errorf("%q is read as %q, error %v", test.stored, read, err)
		}
		if text, err := json.Marshal(read); err != nil || string(text) != test.json {
			t.Errorf("%q in JSON: %s, error %v", read, text, err)
		}
	}
	if err := new(model.List[string]).Scan(nil); err == nil {
		t.Error("NULL is read as a list")
	}
}
