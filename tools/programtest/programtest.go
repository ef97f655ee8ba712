// Package programtest builds the tallygate program for tests that run it in processes of its own.
package programtest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"

	// The key of go test's cache then covers the whole program, which these tests do not import.
	_ "github.com/tallygate/tallygate/cmd/tallygate/command"
)

// moduleDir is the folder of the tests, before one of them changes to another one.
var moduleDir, errModuleDir = os.Getwd()

var build struct {
	once sync.Once
	dir  string
	err  error
}

// Path returns the file of the program. The first call builds it.
//
// The program has no race detector, even if the tests have: it multiplies the processor time of
// each process, and what the processes run is tested under the detector by the tests of its
// packages.
func Path() (string, error) {
	build.once.Do(func() { build.dir, build.err = buildProgram() })
	return filepath.Join(build.dir, "tallygate"), build.err
}

// buildProgram builds the program in a new folder and returns the folder, also on an error of the
// build.
func buildProgram() (dir string, err error) {
	if errModuleDir != nil {
		return "", errModuleDir
	}
	dir, err = os.MkdirTemp("", "tallygate-program-")
	if err != nil {
		return "", err
	}

	const program = "github.com/tallygate/tallygate/cmd/tallygate"
	cmd := exec.Command("go", "build", "-buildvcs=false", "-ldflags=-s -w", "-o", dir, program)
	cmd.Dir = moduleDir
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0") // as deploy/Dockerfile and the Makefile build it
	out, err := cmd.CombinedOutput()
	if err != nil {
		return dir, fmt.Errorf("build tallygate: %w\n%s", err, out)
	}

	return dir, nil
}

// Remove deletes the program. TestMain calls it after the last test.
func Remove() {
	if build.dir != "" {
		_ = os.RemoveAll(build.dir)
	}
}
