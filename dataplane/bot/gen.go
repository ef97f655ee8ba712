//go:build ignore

// Gen writes patterns.txt from the public list of crawler user agents, an npm package. To update
// the list:
//
//	npm pack crawler-user-agents
//	go run gen.go -date 2026-11-20 crawler-user-agents-1.60.0.tgz
//
// It reads the package file instead of the network, so that its output is reproducible.
package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"regexp"
	"slices"
	"strings"
)

func main() {
	log.SetFlags(0)
	date := flag.String("date", "", "the day the package was fetched, YYYY-MM-DD")
	flag.Parse()

	if *date == "" || flag.NArg() != 1 {
		log.Fatal("usage: go run gen.go -date YYYY-MM-DD crawler-user-agents-VERSION.tgz")
	}
	if err := generate(flag.Arg(0), *date); err != nil {
		log.Fatal(err)
	}
}

func generate(tarball, date string) error {
	files, err := untar(tarball)
	if err != nil {
		return fmt.Errorf("read %s: %w", tarball, err)
	}

	var about struct{ Name, Version string }
	if err := json.Unmarshal(files["package/package.json"], &about); err != nil {
		return fmt.Errorf("package.json: %w", err)
	}

	var crawlers []struct{ Pattern string }
	if err := json.Unmarshal(files["package/crawler-user-agents.json"], &crawlers); err != nil {
		return fmt.Errorf("crawler-user-agents.json: %w", err)
	}

	var patterns []string
	for _, c := range crawlers {
		if _, err := regexp.Compile(c.Pattern); err != nil {
			return fmt.Errorf("pattern %q: %w", c.Pattern, err)
		}

		patterns = append(patterns, visible(c.Pattern))
	}

	slices.Sort(patterns)
	patterns = slices.Compact(patterns)

	var out bytes.Buffer
	fmt.Fprintln(&out, "# User agents of crawlers, as regular expressions.")
	fmt.Fprintf(&out, "# From npm %s %s, fetched %s; made by gen.go, do not edit.\n#\n", about.Name, about.Version, date)

	for line := range strings.Lines(strings.TrimSpace(string(files["package/LICENSE"]))) {
		fmt.Fprintln(&out, strings.TrimSpace("# "+strings.TrimSpace(line)))
	}

	for _, p := range patterns {
		fmt.Fprintln(&out, p)
	}

	return os.WriteFile("patterns.txt", out.Bytes(), 0o644)
}

// visible writes blanks at the ends of a pattern as character classes, since editors and the loader
// would trim them.
func visible(pattern string) string {
	if rest, ok := strings.CutPrefix(pattern, " "); ok {
		pattern = "[ ]" + rest
	}
	if rest, ok := strings.CutSuffix(pattern, " "); ok {
		pattern = rest + "[ ]"
	}
	return pattern
}

func untar(name string) (map[string][]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()

	unzipped, err := gzip.NewReader(f)
	if err != nil {
		return nil, err
	}

	files := map[string][]byte{}

	for r := tar.NewReader(unzipped); ; {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			return files, nil
		}
		if err != nil {
			return nil, err
		}
		if files[header.Name], err = io.ReadAll(r); err != nil {
			return nil, err
		}
	}
}
