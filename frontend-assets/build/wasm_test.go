package main

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tallygate/tallygate/tools/testkit"
)

// compiler is the release of LLVM that compiled the committed WebAssembly. Other releases produce
// other bytes.
const compiler = "14."

// TestWasmMatchesItsSource compares the committed WebAssembly with its C source, by the sums that
// the build recorded. Where clang and wasm-ld of the right release are installed, it also builds it
// again.
func TestWasmMatchesItsSource(t *testing.T) {
	root, err := assetsRoot()
	testkit.NoError(t, err)

	dir := filepath.Join(root, "src/captcha/engine/wasm")
	read := func(path ...string) []byte {
		t.Helper()
		content, err := os.ReadFile(filepath.Join(path...))
		testkit.NoError(t, err)
		return content
	}

	var sums strings.Builder
	for _, name := range []string{"pow.c", "build.sh", "captcha.wasm", "captcha-scalar.wasm"} {
		fmt.Fprintf(&sums, "%x  %s\n", sha256.Sum256(read(dir, name)), name)
	}

	if got := string(read(dir, "SHA256SUMS")); got != sums.String() {
		t.Fatalf("run %s/build.sh: the WebAssembly was built from another source:\n%s, now\n%s", dir, got, sums.String())
	}

	for _, program := range []string{"clang", "wasm-ld"} {
		version, err := exec.Command(program, "--version").Output()
		if err != nil || !bytes.Contains(version, []byte(" "+compiler)) {
			t.Logf("only the sums were compared, because %s %sx is not installed (%v)", program, compiler, err)
			return
		}
	}

	fresh := t.TempDir()
	if out, err := exec.Command(filepath.Join(dir, "build.sh"), fresh).CombinedOutput(); err != nil {
		t.Fatalf("build.sh: %v\n%s", err, out)
	}

	for _, name := range []string{"captcha.wasm", "captcha-scalar.wasm"} {
		if !bytes.Equal(read(fresh, name), read(dir, name)) {
			t.Errorf("%s differs from a new build of pow.c", name)
		}
	}
}
