package scenario

import (
	"archive/zip"
	"bytes"
	"encoding/csv"
	"encoding/json"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/tallygate/tallygate/tools/testkit"
)

// TestListOfFiles checks that a reader of ZIP archives finds all entries of the archive, and no
// file.
func TestListOfFiles(t *testing.T) {
	const size = 4 << 20
	archive := listOfFiles(size)
	if len(archive) > size || len(archive) < size-46 {
		t.Errorf("%d bytes, want %d", len(archive), size)
	}
	r, err := zip.NewReader(bytes.NewReader(archive), int64(len(archive)))
	testkit.NoError(t, err)
	if want := size / 46; len(r.File) < want-2 || len(r.File) <= 1<<16 {
		t.Errorf("%d entries, want some %d", len(r.File), want)
	}
}

// TestUmamiExport checks that each row has as many fields as the header, and that the size is used.
func TestUmamiExport(t *testing.T) {
	const size = 1 << 20
	export := umamiExport(size)
	rows, err := csv.NewReader(bytes.NewReader(export)).ReadAll()
	if err != nil || len(rows) < 1_500 || len(export) > size || len(export) < size-1_000 {
		t.Errorf("%d rows of %d bytes, error %v", len(rows), len(export), err)
	}
}

// TestProperties checks that an event's properties are the most that the service stores: 4,096
// bytes.
func TestProperties(t *testing.T) {
	text := appendProperties(nil, rand.New(rand.NewPCG(1, 1)))
	var properties map[string]string
	testkit.NoError(t, json.Unmarshal(text, &properties))
	if len(text) != 4_096 || len(properties) != propertyCount || properties["aa"] == properties["ab"] {
		t.Errorf("%d bytes with %d properties: %s", len(text), len(properties), text)
	}
}

// TestPatternFilter checks the length and the number of asterisks of the patterns of a filter.
func TestPatternFilter(t *testing.T) {
	for _, size := range patternSizes {
		_, list, _ := strings.Cut(size.filter(), "values: ")
		var values []string
		testkit.NoError(t, json.Unmarshal([]byte(strings.TrimSuffix(list, "}")), &values))

		together := strings.Join(values, "")
		asterisks := strings.Count(together, "*")
		if len(together) != size.bytes || size.asterisks > 0 && asterisks != size.asterisks {
			t.Errorf("%v: %d bytes with %d asterisks", size, len(together), asterisks)
		}
		if size.asterisks == 0 && asterisks < size.bytes/2-len(values) || strings.Contains(together, "**") {
			t.Errorf("%v: %d asterisks", size, asterisks)
		}
		for _, value := range values {
			if len(value) > pathLength || !strings.HasPrefix(value, "/*a") || !strings.HasSuffix(value, "ab") && !strings.HasSuffix(value, "*b") {
				t.Errorf("%v: %.20s…%s", size, value, value[len(value)-5:])
			}
		}
	}
}
