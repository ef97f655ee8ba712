package scan

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/tallygate/tallygate/tools/testkit"
)

// TestDictionary compares the numbers of many texts, short ones and long ones, with those of a map.
func TestDictionary(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 5))
	d, want := newDictionary(nil), map[string]uint32{"": 0}

	for range 50 {
		texts := []string{""}
		for range r.IntN(200) {
			texts = append(texts, fmt.Sprintf("%s%d", strings.Repeat("/", r.IntN(3)*r.IntN(9_000)), r.IntN(2_000)))
		}
		d.begin(texts)
		for i, text := range texts {
			if _, known := want[text]; !known {
				want[text] = uint32(len(want))
			}
			if d.current[i] != want[text] || d.texts[want[text]] != text {
				t.Fatalf("%.20q has the number %d, want %d", text, d.current[i], want[text])
			}
		}
	}

	for text, number := range want {
		if got, ok := d.number(text); !ok || got != number {
			t.Fatalf("%.20q has the number %d (%v), want %d", text, got, ok, number)
		}
	}
	if number, ok := d.number("missing"); ok {
		t.Errorf("a missing text has the number %d", number)
	}
	testkit.Equal(t, len(d.texts), len(want), "texts")
}

// TestUserSet compares what is new with a map, for keys that differ in one part alone and at
// random.
func TestUserSet(t *testing.T) {
	type key struct {
		bucket, user uint32
		converted    bool
	}
	r := rand.New(rand.NewPCG(6, 6))
	s, met := userSet{}, map[key]bool{}

	for i := range uint32(20_000) {
		for _, k := range []key{
			{i, 1, false}, {0, i + 1, i%2 == 0}, {i << 12, 7, true}, {r.Uint32(), 1 + r.Uint32N(1<<29), false}, {r.Uint32N(50), 1 + r.Uint32N(50), true},
		} {
			if got := s.add(k.bucket, k.user, k.converted) == 1; got == met[k] {
				t.Fatalf("%+v is new: %v, want %v", k, got, !met[k])
			}
			met[k] = true
		}
	}
}
