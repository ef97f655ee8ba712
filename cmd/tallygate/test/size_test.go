package test

import (
	"bytes"
	"os"
	"testing"

	"github.com/tallygate/tallygate/tools/testkit"
	"github.com/tallygate/tallygate/tools/world/program"
)

// TestUnusedMethodsAreLeftOut checks that the program has no executor of text/template. It calls
// methods by name, so with it the linker keeps the methods of all types, and the program has 12 MB
// more. The names of functions remain in a program without symbols.
func TestUnusedMethodsAreLeftOut(t *testing.T) {
	t.Parallel()
	path, err := program.Path()
	testkit.NoError(t, err)
	program, err := os.ReadFile(path)
	testkit.NoError(t, err)

	if !bytes.Contains(program, []byte("cmd/tallygate/serve.(*App).Run")) {
		t.Fatal("the program does not contain the names of its functions")
	}
	if bytes.Contains(program, []byte("text/template.(*state)")) {
		t.Error("the program contains the executor of text/template")
	}
}
