package model_test

import (
	"testing"

	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/tools/testkit"
)

// TestOwnLetters checks which escapes and labels are decoded: letters that a reader can see, in
// whole characters.
func TestOwnLetters(t *testing.T) {
	for text, want := range map[string]string{
		"/caf%C3%A9%20menu":            "/café%20menu",
		"/caf%c3%a9":                   "/café",
		"/%E2%82%AC/%F0%9F%98%80":      "/€/😀",
		"/100%25":                      "/100%25",
		"/100%":                        "/100%",
		"/%C3":                         "/%C3",
		"/%A9%C3%A9":                   "/%A9é",
		"/%E2%80%AE/%C2%A0":            "/%E2%80%AE/%C2%A0", // invisible
		"xn--bcher-kva.example":        "bücher.example",
		"xn--bcher-kva.example/%C3%A9": "bücher.example/é",
		"example.org/xn--bcher-kva":    "example.org/xn--bcher-kva",
		"xn--80ak6aa92e":               "аррӏе", // one script
		"plain":                        "plain",
		"":                             "",
	} {
		testkit.Equal(t, model.OwnLetters(text), want, "%q", text)
	}
}

// TestContainsOwnLetters checks that a search finds what is stored and what is shown, in either
// case.
func TestContainsOwnLetters(t *testing.T) {
	for _, part := range []string{"é", "É", "caf%c3", "CAFÉ"} {
		if !contains(part)("/caf%C3%A9") || !model.ContainsFolded("/caf%C3%A9", model.Fold(part)) {
			t.Errorf("/caf%%C3%%A9 does not contain %q", part)
		}
	}
	if contains("è")("/caf%C3%A9") || model.ContainsFolded("/caf%C3%A9", "è") {
		t.Error("/caf%C3%A9 contains è")
	}
	if !contains("BÜCH")("xn--bcher-kva.example") {
		t.Error("xn--bcher-kva.example does not contain BÜCH")
	}
}
