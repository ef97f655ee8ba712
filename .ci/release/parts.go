package main

import (
	"bytes"
	"debug/buildinfo"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"time"

	cdx "github.com/CycloneDX/cyclonedx-go"
	"github.com/CycloneDX/cyclonedx-gomod/pkg/generate/bin"
	"github.com/rs/zerolog"
)

// parts writes a list of the parts of each program in the form of CycloneDX: the Go modules, as the
// program records them, and the bundled packages of npm.
func (r *release) parts() error {
	bundled, err := r.bundled()
	if err != nil {
		return err
	}

	for t, program := range r.programs {
		generator, err := bin.NewGenerator(program, bin.WithVersionOverride(r.version), bin.WithIncludeStdlib(true),
			bin.WithLogger(zerolog.Nop()))
		if err != nil {
			return err
		}
		bom, err := generator.Generate()
		if err != nil {
			return err
		}
		bom.Metadata.Timestamp = r.time.Format(time.RFC3339)
		*bom.Components = append(*bom.Components, bundled...)

		var b bytes.Buffer
		if err := cdx.NewBOMEncoder(&b, cdx.BOMFileFormatJSON).SetPretty(true).Encode(bom); err != nil {
			return err
		}
		if err := r.write(fmt.Sprintf("tallygate_%s_%s_%s.cdx.json", r.number(), t.os, t.arch), b.Bytes()); err != nil {
			return err
		}
	}
	return nil
}

// bundled finds the packages of npm, with versions, in the files that describe where they came
// from.
func (r *release) bundled() ([]cdx.Component, error) {
	var components []cdx.Component
	for file, pattern := range map[string]string{
		"frontend-assets/thirdparty/graphiql/README.md": `(graphiql|react|react-dom)@(\d+\.\d+\.\d+)`,
		"frontend-assets/thirdparty/fflate/README.md":   `(fflate)@(\d+\.\d+\.\d+)`,
		"frontend-assets/thirdparty/preact/README.md":   `(preact)@(\d+\.\d+\.\d+)`,
		"dataplane/bot/patterns.txt":                    `npm (\S+) (\d+\.\d+\.\d+)`,
		"db/model/passwords.txt":                        `npm (\S+) (\d+\.\d+\.\d+)`,
	} {
		text, err := os.ReadFile(filepath.Join(r.root, file))
		if err != nil {
			return nil, err
		}
		matches := regexp.MustCompile(pattern).FindAllStringSubmatch(string(text), -1)
		if len(matches) == 0 {
			return nil, fmt.Errorf("%s names no version of its package", file)
		}
		for _, match := range matches {
			url := "pkg:npm/" + strings.ReplaceAll(match[1], "@", "%40") + "@" + match[2]
			components = append(components, cdx.Component{
				BOMRef: url, Type: cdx.ComponentTypeLibrary, Name: match[1], Version: match[2], PackageURL: url,
			})
		}
	}

	slices.SortFunc(components, func(a, b cdx.Component) int { return strings.Compare(a.BOMRef, b.BOMRef) })
	return components, nil
}

var licenceName = regexp.MustCompile(`^(?i:licen[cs]e|copying|notice)`)

// licences returns the licence texts of Go, of all modules in the programs, and of the bundled
// packages. Lists such as db/model/passwords.txt are in the programs with their licences.
func (r *release) licences() ([]byte, error) {
	modules := map[string]bool{}
	for _, program := range r.programs {
		info, err := buildinfo.ReadFile(program)
		if err != nil {
			return nil, err
		}
		for _, module := range info.Deps {
			modules[module.Path] = true
		}
	}

	// Folders by the names that the text has for them.
	list, err := r.output("go", "list", "-m", "-json", "all")
	if err != nil {
		return nil, err
	}
	folders := map[string]string{"frontend-assets/thirdparty": filepath.Join(r.root, "frontend-assets/thirdparty")}
	for decoder := json.NewDecoder(strings.NewReader(list)); ; {
		var module struct{ Path, Version, Dir string }
		if err := decoder.Decode(&module); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, err
		}
		if modules[module.Path] {
			folders[module.Path+" "+module.Version] = module.Dir
		}
	}
	goroot, err := r.output("go", "env", "GOROOT")
	if err != nil {
		return nil, err
	}

	var text bytes.Buffer
	license, err := os.ReadFile(filepath.Join(goroot, "LICENSE"))
	fmt.Fprintf(&text, "==== %s: LICENSE\n\n%s\n", runtime.Version(), license)
	for _, name := range slices.Sorted(maps.Keys(folders)) {
		err = errors.Join(err, appendLicences(&text, name, folders[name]))
	}
	return text.Bytes(), err
}

// appendLicences appends the texts below a folder: parts of a module may have licences of their
// own.
func appendLicences(text *bytes.Buffer, name, folder string) error {
	before := text.Len()
	err := filepath.WalkDir(folder, func(path string, file fs.DirEntry, err error) error {
		if err == nil && file.IsDir() && file.Name() == "testdata" {
			return fs.SkipDir
		}
		if err != nil || file.IsDir() || !licenceName.MatchString(file.Name()) || filepath.Ext(path) == ".go" {
			return err
		}
		data, err := os.ReadFile(path)
		fmt.Fprintf(text, "==== %s: %s\n\n%s\n", name, strings.TrimPrefix(path, folder+"/"), data)
		return err
	})
	if err == nil && text.Len() == before {
		err = fmt.Errorf("no licence text of %s in %s", name, folder)
	}
	return err
}
