// Package program runs the tallygate program in processes of their own, as in production, and calls
// its GraphQL API.
//
//	p := program.Start(t, "", map[string]string{"TALLYGATE_DATA_DIR": t.TempDir()}, []string{"control", "data"})
//	owner := p.Client()
//	owner.SignUp("owner@shop.example", "a long password", "Shop")
//	site := owner.CreateSite("shop.example", "Shop")
//	p.Signal(syscall.SIGTERM)
//
// The package does not import the program. A test program with results that go test may take from
// its cache imports cmd/tallygate/command, so that the cache's key covers the program.
package program

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
)

// moduleDir is the folder of the tests, before one of them changes to another one.
var moduleDir, errModuleDir = os.Getwd()

// folder holds what Build has built.
var folder = sync.OnceValues(func() (string, error) { return os.MkdirTemp("", "tallygate-program-") })

var built = sync.OnceValues(func() (string, error) { return Build("tallygate") })

// Path returns the file of the program. The first call builds it.
//
// The program has no race detector, even if the tests have: it multiplies the processor time of
// each process, and what the processes run is tested under the detector by the tests of its
// packages.
func Path() (string, error) { return built() }

// Build builds the program as a file with a name, with further flags of go build, and returns its
// path.
func Build(name string, flags ...string) (string, error) {
	if errModuleDir != nil {
		return "", errModuleDir
	}
	dir, err := folder()
	if err != nil {
		return "", err
	}

	file := filepath.Join(dir, name)
	args := append([]string{"build", "-buildvcs=false", "-ldflags=-s -w", "-o", file}, flags...)
	cmd := exec.Command("go", append(args, "github.com/tallygate/tallygate/cmd/tallygate")...)
	cmd.Dir = moduleDir
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0") // as deploy/Dockerfile and the Makefile build it
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build tallygate: %w\n%s", err, out)
	}

	return file, nil
}

// Remove deletes the programs. TestMain calls it after the last test.
func Remove() {
	if dir, err := folder(); err == nil {
		_ = os.RemoveAll(dir)
	}
}
