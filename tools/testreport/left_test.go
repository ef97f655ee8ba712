package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tallygate/tallygate/tools/testkit"
)

// TestLeft checks that the file has each test that -short leaves, and that the later run has the
// function of each, and no other function.
func TestLeft(t *testing.T) {
	t.Parallel()
	var events strings.Builder
	for _, test := range []struct{ suite, name, action, why string }{
		{"example.test/a", "TestQuick", "pass", ""},
		{"example.test/a", "TestSlow", "skip", testkit.Long + "a browser"},
		{"example.test/a", "TestMissing", "skip", "no server here"},
		{"example.test/b", "TestSome/quick", "pass", ""},
		{"example.test/b", "TestSome/slow", "skip", testkit.Long + "a load"},
		{"example.test/b", "TestSome", "pass", ""},
		{"example.test/b", "TestSlow", "skip", testkit.Long + "a load"},
		{"example.test/c", "TestQuick", "pass", ""},
	} {
		event := func(action, output string) {
			fmt.Fprintf(&events, `{"Action":%q,"Package":%q,"Test":%q,"Output":%q}`+"\n", action, test.suite, test.name, output)
		}
		event("run", "")
		if test.why != "" {
			event("output", "    left_test.go:1: "+test.why+"\n")
		}
		event(test.action, "")
	}
	for _, suite := range []string{"a", "b", "c"} {
		fmt.Fprintf(&events, `{"Action":"pass","Package":"example.test/%s"}`+"\n", suite)
	}

	r := newReport(new(bytes.Buffer), kinds)
	testkit.NoError(t, r.read(strings.NewReader(events.String())))
	file := filepath.Join(t.TempDir(), "left")
	testkit.NoError(t, r.writeLeft(file))

	text, err := os.ReadFile(file)
	if want := "example.test/a TestSlow\nexample.test/b TestSlow\nexample.test/b TestSome/slow\n"; err != nil || string(text) != want {
		t.Errorf("%q, %v; want %q", text, err, want)
	}

	got, err := onlyLeft(file, []string{"-count=1"})
	want := []string{"-count=1", "-run", "^(TestSlow|TestSome)$", "example.test/b", "example.test/a"}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("%q, %v; want %q", got, err, want)
	}
}

// TestLeavePackages checks that a package which only a later run has leaves its tests to that run,
// and that a missing package is an error.
func TestLeavePackages(t *testing.T) {
	t.Parallel()
	r := newReport(new(bytes.Buffer), kinds)
	testkit.NoError(t, r.leavePackages("."))

	this := "github.com/tallygate/tallygate/tools/testreport"
	if !r.leftTests[leftTest{this, "TestLeavePackages"}] || r.leftTests[leftTest{this, "TestMain"}] || r.left != len(r.leftTests) {
		t.Errorf("%d tests: %v", r.left, r.leftTests)
	}
	if err := r.leavePackages("./missing"); err == nil {
		t.Error("a missing package has no error")
	}
}
