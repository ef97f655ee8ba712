// Deploylint reads the files of deploy/ as Docker, Compose and Kubernetes do, and fails at the
// first that they would refuse or, for the Dockerfile, warn about. It is a module of its own,
// because these libraries are no part of the program or its tests.
package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"

	"github.com/moby/buildkit/frontend/dockerfile/instructions"
	"github.com/moby/buildkit/frontend/dockerfile/linter"
	"github.com/moby/buildkit/frontend/dockerfile/parser"
)

func main() {
	deploy := os.Args[1]
	for _, check := range []func(string) error{dockerfile, compose, kubernetes} {
		if err := check(deploy); err != nil {
			fmt.Fprintln(os.Stderr, "deploylint:", err)
			os.Exit(1)
		}
	}
}

// dockerfile parses the instructions and applies BuildKit's rules.
func dockerfile(deploy string) error {
	text, err := os.ReadFile(filepath.Join(deploy, "Dockerfile"))
	if err != nil {
		return err
	}

	tree, err := parser.Parse(bytes.NewReader(text))
	if err != nil {
		return fmt.Errorf("Dockerfile: %w", err)
	}

	var warned error
	rules := linter.New(&linter.Config{Warn: func(rule, _, _, message string, location []parser.Range) {
		warned = fmt.Errorf("Dockerfile:%v: %s: %s", location, rule, message)
	}})
	stages, _, err := instructions.Parse(tree.AST, rules)
	if err == nil && len(stages) != 2 {
		err = fmt.Errorf("%d stages", len(stages))
	}
	if err != nil {
		return fmt.Errorf("Dockerfile: %w", err)
	}

	for _, warning := range tree.Warnings {
		return fmt.Errorf("Dockerfile: %s", warning.Short)
	}

	return warned
}
