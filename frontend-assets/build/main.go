// Command build builds the files of frontend-assets/dist from the sources in frontend-assets/src:
//
//	go run ./frontend-assets/build          writes the files and prints their sizes
//	go run ./frontend-assets/build -check   writes nothing; fails if a committed file differs from its source
//	go run ./frontend-assets/build -parts   also prints the size of the script without each optional part
//
// With -packages it builds the packages for npm instead, see packages.go.
//
// It bundles with esbuild's Go API, so the build needs no npm. The same sources give the same bytes
// on every machine. The captcha's WebAssembly is committed, so the build needs no C compiler;
// src/captcha/engine/wasm/build.sh compiles it. Each file is stored in three encodings
// (uncompressed, .gz, .br), so the server never compresses.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

func main() {
	check := flag.Bool("check", false, "compare with the committed files instead of writing them")
	parts := flag.Bool("parts", false, "also print the size without each optional part")
	packages := flag.String("packages", "", "build the packages for npm into this `folder`, and nothing else")
	checker := flag.String("tsgo", "bin/tsgo", "with -packages: the `program` that writes declarations")
	version := flag.String("version", "", "with -packages: the program's `version`, such as v1.2.3")
	licence := flag.String("licence", "", "with -packages: the `SPDX` identifier of the licence")
	flag.Parse()

	build := func() error { return run(os.Stdout, *check, *parts) }
	if *packages != "" {
		build = func() error {
			r, err := newRelease(*version, *licence)
			if err != nil {
				return err
			}
			return runPackages(os.Stdout, *packages, *checker, r)
		}
	}

	if err := build(); err != nil {
		fmt.Fprintln(os.Stderr, "assets:", err)
		os.Exit(1)
	}
}

// run builds every asset of the module that contains the working directory.
func run(out io.Writer, check, parts bool) error {
	root, err := assetsRoot()
	if err != nil {
		return err
	}

	if err := updateOperations(root, check); err != nil {
		return err
	}

	files, sizes := map[string][]byte{}, map[string]int{}
	for _, a := range assets {
		b, err := a.build(root)
		if err != nil {
			return err
		}

		fmt.Fprintln(out, b)

		if err := b.withinBudget(); err != nil {
			return err
		}

		if parts {
			if err := printParts(out, root, b); err != nil {
				return err
			}
		}

		files[a.Out], files[a.Out+".gz"], files[a.Out+".br"] = b.Raw, b.Gzip, b.Brotli
		sizes[a.Out] = len(b.Gzip)
	}

	fmt.Fprintf(out, "the captcha's widget with all engines: gzip %d of %d\n", sum(sizes, widget), widgetBudget)
	fmt.Fprintf(out, "the console's first view in German: gzip %d of %d\n", sum(sizes, germanView), germanViewBudget)

	if err := errors.Join(withinWidgetBudget(sizes), withinGermanViewBudget(sizes)); err != nil {
		return err
	}

	dist := filepath.Join(root, "dist")

	if check {
		return compare(dist, files)
	}

	return write(dist, files)
}

// printParts prints the size of an asset without each of its optional parts, and the difference.
func printParts(out io.Writer, root string, whole built) error {
	for _, part := range whole.Optional {
		b, err := whole.without(part).build(root)
		if err != nil {
			return err
		}

		fmt.Fprintf(out, "%s   (without %s: %+d gzip)\n", b, part, len(b.Gzip)-len(whole.Gzip))
	}

	return nil
}

// assetsRoot returns the frontend-assets folder next to the go.mod above the working directory.
func assetsRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}

	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return filepath.Join(dir, "frontend-assets"), nil
		}

		parent := filepath.Dir(dir)
		if parent == dir {
			return "", fmt.Errorf("there is no go.mod above the working directory: run this inside the repository")
		}

		dir = parent
	}
}
