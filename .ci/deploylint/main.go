// Deploylint reads the files of deploy/ as Docker, Compose and Kubernetes do, and fails at the first that
// they would refuse or, for the Dockerfile, warn about. It is a module of its own, because these libraries
// are no part of the program or its tests.
package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/compose-spec/compose-go/v2/cli"
	"github.com/moby/buildkit/frontend/dockerfile/instructions"
	"github.com/moby/buildkit/frontend/dockerfile/linter"
	"github.com/moby/buildkit/frontend/dockerfile/parser"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
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

// compose loads each file as "docker compose config" does.
func compose(deploy string) error {
	files, err := filepath.Glob(filepath.Join(deploy, "compose", "*.yaml"))
	if err != nil || len(files) == 0 {
		return fmt.Errorf("no Compose files: %w", err)
	}

	for _, file := range files {
		options, err := cli.NewProjectOptions([]string{file}, cli.WithEnv([]string{
			"APP_HOST=app.example.com", "STATS_HOST=stats.example.com", "SECRET=s", "POSTGRES_PASSWORD=p",
		}))
		if err != nil {
			return err
		}
		project, err := options.LoadProject(context.Background())
		if err == nil && len(project.Services) == 0 {
			err = fmt.Errorf("no services")
		}
		if err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
	}

	return nil
}

// kubernetes decodes each object strictly: an unknown or repeated field is an error.
func kubernetes(deploy string) error {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		corev1.AddToScheme, appsv1.AddToScheme, networkingv1.AddToScheme, policyv1.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			return err
		}
	}
	decoder := serializer.NewCodecFactory(scheme, serializer.EnableStrict).UniversalDeserializer()

	files, err := filepath.Glob(filepath.Join(deploy, "kubernetes", "*.yaml"))
	if err != nil || len(files) == 0 {
		return fmt.Errorf("no manifests: %w", err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		for _, document := range bytes.Split(text, []byte("\n---\n")) {
			if _, _, err := decoder.Decode(document, nil, nil); err != nil {
				return fmt.Errorf("%s: %w", file, err)
			}
		}
	}

	return nil
}
