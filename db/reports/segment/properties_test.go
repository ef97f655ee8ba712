package segment_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/tallygate/tallygate/db/reports/segment"
	"github.com/tallygate/tallygate/tools/testkit"
)

// FuzzProperties compares the properties of an event with those that encoding/json reads of the
// same object.
func FuzzProperties(f *testing.F) {
	for _, object := range []string{
		``, `{}`, `[]`, `{"a":1}`, `{"b":"x","a":true,"c":null,"d":[1,{"a":2}],"e":{"f":"g"},"h":-1.50e3}`,
		`{"a":"A\n\"\u00e9\ud83d\ude00","\u0061":"twice"}`, `{"":"empty name"}`, `{"a":1`, `{"a":1}x`, `{"a" : 1 , "b":2 }`,
	} {
		f.Add(object)
	}
	var many []string
	for i := range 100 {
		many = append(many, fmt.Sprintf(`"n%d":"v%d"`, i*37%100, i))
	}
	f.Add("{" + strings.Join(many, ",") + "}")

	f.Fuzz(func(t *testing.T, object string) {
		var members map[string]json.RawMessage
		if !utf8.ValidString(object) || strings.Contains(object, "\\u") || json.Unmarshal([]byte(object), &members) != nil {
			return // no such object is stored: half surrogates and other escapes are replaced before
		}

		var want []string
		for _, name := range slices.Sorted(maps.Keys(members)) {
			var value any
			switch raw := string(members[name]); {
			case raw[0] == '{' || raw[0] == '[' || raw == "null":
				continue
			case raw[0] != '"':
				value = raw
			case json.Unmarshal(members[name], &value) != nil:
				continue
			}
			want = append(want, fmt.Sprint(name, "=", value))
		}
		want = want[:min(len(want), segment.MaxProperties)]

		s, err := segment.Build(eventsOf(object))
		testkit.NoError(t, err)
		testkit.EqualSlices(t, propertiesOf(s)[0], want, "%q", object)
	})
}

// BenchmarkProperties builds a day of 1,000 events with ordinary properties, and with as many as
// fit.
func BenchmarkProperties(b *testing.B) {
	var many []string
	for i := range 270 {
		many = append(many, fmt.Sprintf(`"%c%c":"%08x"`, 'a'+i/26, 'a'+i%26, i))
	}
	for name, object := range map[string]string{
		"few": `{"plan":"pro","seats":12,"trial":true}`, "many": "{" + strings.Join(many, ",") + "}",
	} {
		b.Run(name, func(b *testing.B) {
			rows := eventsOf(slices.Repeat([]string{object}, 1_000)...)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := segment.Build(rows); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
