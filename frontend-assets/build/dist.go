package main

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/andybalholm/brotli"
)

// write stores the files below dist, and removes files that are not among them.
func write(dist string, files map[string][]byte) error {
	for name, content := range files {
		path := filepath.Join(dist, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, content, 0o644); err != nil {
			return err
		}
	}

	stale, err := unknownFiles(dist, files)
	for _, name := range stale {
		err = errors.Join(err, os.Remove(filepath.Join(dist, filepath.FromSlash(name))))
	}

	return err
}

// compare returns an error with one line for each file below dist that differs from the given
// files.
//
// Compressed files are compared by their unpacked content: another Go release may compress the same
// content to other bytes, and a new toolchain must not make the tree look stale.
func compare(dist string, files map[string][]byte) error {
	var problems []error
	for _, name := range slices.Sorted(maps.Keys(files)) {
		stored, err := os.ReadFile(filepath.Join(dist, filepath.FromSlash(name)))
		if err == nil && !sameContent(name, stored, files[name]) {
			err = errors.New("differs from its source")
		}
		if err != nil {
			problems = append(problems, fmt.Errorf("dist/%s: %w", name, err))
		}
	}

	stale, err := unknownFiles(dist, files)
	for _, name := range stale {
		problems = append(problems, fmt.Errorf("dist/%s: no source for this file", name))
	}

	if problems = append(problems, err); errors.Join(problems...) != nil {
		return fmt.Errorf("run \"go run ./frontend-assets/build\" and commit the result:\n%w", errors.Join(problems...))
	}

	return nil
}

// sameContent reports whether two files have the same content, unpacked if the name ends in .gz or
// .br.
func sameContent(name string, a, b []byte) bool {
	a, errA := unpack(name, a)
	b, errB := unpack(name, b)
	return errA == nil && errB == nil && bytes.Equal(a, b)
}

func unpack(name string, content []byte) ([]byte, error) {
	switch {
	case strings.HasSuffix(name, ".br"):
		return io.ReadAll(brotli.NewReader(bytes.NewReader(content)))
	case strings.HasSuffix(name, ".gz"):
		r, err := gzip.NewReader(bytes.NewReader(content))
		if err != nil {
			return nil, err
		}

		return io.ReadAll(r)
	}

	return content, nil
}

// unknownFiles lists the files below dist that are not among the given ones.
func unknownFiles(dist string, files map[string][]byte) ([]string, error) {
	var found []string
	err := fs.WalkDir(os.DirFS(dist), ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		if _, ours := files[name]; !ours {
			found = append(found, name)
		}
		return nil
	})

	return found, err
}
