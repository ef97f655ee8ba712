package model_test

import (
	"strings"
	"testing"

	"github.com/tallygate/tallygate/db/model"
)

const alphabet = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

func TestNewSecret(t *testing.T) {
	seen := map[string]bool{}
	counts := map[rune]int{}

	const secrets = 5_000
	for range secrets {
		s := model.NewSecret("svcs_")
		if seen[s] {
			t.Fatalf("%s came twice", s)
		}

		seen[s] = true
		if len(s) != len("svcs_")+36 || !model.IsSecret("svcs_", s) {
			t.Fatalf("IsSecret(%q) = false, or its length %d is wrong", s, len(s))
		}
		if hint := model.SecretHint(s); hint != s[len(s)-4:] {
			t.Fatalf("SecretHint(%q) = %q", s, hint)
		}

		for _, c := range s[len("svcs_") : len("svcs_")+30] {
			counts[c]++
		}
	}

	// 150,000 draws give 2,419 of each character, standard deviation 49. Bytes modulo 62 would give
	// the first eight characters 2,930.
	for _, c := range alphabet {
		if n := counts[c]; n < 2_419-350 || n > 2_419+350 {
			t.Errorf("%c was drawn %d times, want about 2,419", c, n)
		}
	}

	if len(counts) != len(alphabet) {
		t.Errorf("%d different characters, want %d", len(counts), len(alphabet))
	}
}

// TestSecretVector pins the form of secrets: clients store them.
func TestSecretVector(t *testing.T) {
	const s = "svcs_0123456789ABCDEFGHIJabcdefghij345Tod"
	if !model.IsSecret("svcs_", s) {
		t.Errorf("IsSecret(%q) = false", s)
	}
}

// TestSecretTypos checks that every change of one character is refused, and every swap of two
// neighbours.
func TestSecretTypos(t *testing.T) {
	for range 20 {
		s := model.NewSecret("svcs_")
		for i := range s {
			for c := range 256 {
				if byte(c) == s[i] {
					continue
				}
				if typo := s[:i] + string([]byte{byte(c)}) + s[i+1:]; model.IsSecret("svcs_", typo) {
					t.Fatalf("IsSecret(%q) = true, made from %q", typo, s)
				}
			}

			if i > 0 && s[i] != s[i-1] {
				if swapped := s[:i-1] + s[i:i+1] + s[i-1:i] + s[i+1:]; model.IsSecret("svcs_", swapped) {
					t.Fatalf("IsSecret(%q) = true, made from %q", swapped, s)
				}
			}

			if short := s[:i] + s[i+1:]; model.IsSecret("svcs_", short) {
				t.Fatalf("IsSecret(%q) = true, made from %q", short, s)
			}
		}
	}
}

func TestSecretForm(t *testing.T) {
	s := model.NewSecret("svcs_")
	for name, bad := range map[string]string{
		"empty":              "",
		"prefix only":        "svcs_",
		"another prefix":     "capt_" + s[5:],
		"prefix in capitals": "SVCS_" + s[5:],
		"without its prefix": s[5:],
		"space before":       " " + s,
		"newline after":      s + "\n",
		"NUL after":          s + "\x00",
		"one more":           s + "0",
		"twice":              s + s,
		"no letters":         "svcs_" + strings.Repeat("-", 36),
		"zeros":              "svcs_" + strings.Repeat("0", 36),
	} {
		if model.IsSecret("svcs_", bad) {
			t.Errorf("%s: IsSecret(%q) = true", name, bad)
		}
	}

	// The checksum covers the prefix, so that a secret is not accepted as one of another kind.
	if model.IsSecret("", s) || model.IsSecret("capt_", s) {
		t.Errorf("%q passes under another prefix", s)
	}
	if hint := model.SecretHint("short"); hint != "" {
		t.Errorf("SecretHint(short) = %q, want nothing", hint)
	}
}
