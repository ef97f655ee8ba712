package model_test

import (
	"encoding/hex"
	"slices"
	"strings"
	"testing"

	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/tools/testkit"
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
		testkit.Require(t, model.SecretHint(s), s[len(s)-4:], "SecretHint(%q)", s)

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

	testkit.Equal(t, len(counts), len(alphabet), "different characters")
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
	testkit.Equal(t, model.SecretHint("short"), "", "SecretHint(short)")
}

func TestParseScopes(t *testing.T) {
	got, err := model.ParseScopes([]model.Scope{model.ScopeWrite, model.ScopeExport, model.ScopeWrite, model.ScopeRead})
	if want := []model.Scope{model.ScopeExport, model.ScopeRead, model.ScopeWrite}; err != nil || !slices.Equal(got, want) {
		t.Errorf("got %v, %v; want %v", got, err, want)
	}

	for _, scopes := range [][]model.Scope{nil, {}, {""}, {model.ScopeRead, "ADMIN"}} {
		if _, err := model.ParseScopes(scopes); model.KindOf(err) != model.Invalid {
			t.Errorf("%v: %v", scopes, err)
		}
	}
}

// TestDerivedKeys pins the key of each use. A changed label or derivation would invalidate stored
// secrets, sessions, challenges and tokens of every installation.
func TestDerivedKeys(t *testing.T) {
	key := model.ApplicationKey("an application key of this test, 40 bytes")
	for use, want := range map[string]string{
		"captcha challenge mac 1":    "894e1913876f8b5d30fcd73e52e3ca4d637b76ebeba45e9c3d46bb063dfb923d",
		"captcha challenge work 1":   "9fed2ed8f5cf3b083f4aca12c9e43365737e1276f4bf5741a3e1fcb3389f4ae2",
		"captcha token 1":            "8170df9685fe061bd5f28d525d91d30fa33189509f76dfeeccb3eb5970f3d729",
		"stored keys":                "352ae5690068373be56ec8afda5c50a3e6dcfd35fc3e2b1687d410834b5c9421",
		"tallygate device cookie":    "b6807fe68c345da1e994f2581b58521b824497245c32b052166141342eaabff6",
		"tallygate session cookie":   "1b1f60a70fb51ed08cc8972afd11578b0750a606ecf6e1f2949f019a35c51bd6",
		"tallygate sign-in throttle": "077283062daccde4eb5cc5f66c18853cc08973b3b230cf6d021261f85966fae0",
		"user id":                    "8b46f38ca57a34ef28a6c9a569cbc7d62f91739a5d705185a62d0ff61c8f022c",
		"visitor id":                 "1eaf675b9eb2c54e2f9b1d9739ab313902d16244db741b316b8299f0fd9fedd1",
		"webhook secrets":            "a718c3d495b36c1e879765c38621afc13e6b3580e72653358c746ae89935aa0f",
	} {
		testkit.Equal(t, hex.EncodeToString(key.Derive(use)), want, "%q: key", use)
	}

	if got, want := key.Fingerprint(), "e0a70a66a1509533131bd25b1e7c2efd"; got != want {
		t.Errorf("fingerprint %s, want %s", got, want)
	}
}
