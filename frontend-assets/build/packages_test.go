package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/tallygate/tallygate/tools/testkit"
)

func TestReleaseOfPackages(t *testing.T) {
	for _, test := range []struct{ version, licence, want string }{
		{"", "", develVersion},
		{"v1.2.3", "MIT", "1.2.3"},
		{"1.2.3-rc.1", "MIT OR Apache-2.0", "1.2.3-rc.1"},
		{"v1.2", "", ""},
		{"v01.2.3", "", ""},
		{"v1.2.3+build", "", ""},
		{"v1.2.3-", "", ""},
		{`1.2.3", "scripts": "`, "", ""},
		{"v1.2.3", `MIT", "scripts": "`, ""},
	} {
		r, err := newRelease(test.version, test.licence)
		if r.Version != test.want || (err == nil) != (test.want != "") {
			t.Errorf("%q, %q: version %q, error %v", test.version, test.licence, r.Version, err)
		}
	}
}

// manifestFields are the fields of package.json that consumers read.
type manifestFields struct {
	Name, Version, License string
	Private                bool
	SideEffects            *bool
	Exports                map[string]any
}

func TestManifestOfPackages(t *testing.T) {
	root, err := assetsRoot()
	testkit.NoError(t, err)

	for _, p := range npmPackages {
		template, err := os.ReadFile(filepath.Join(root, packagesPath, p.Folder, "package.json"))
		testkit.NoError(t, err)
		text, err := release{"1.2.3", "MIT"}.manifest(template)
		testkit.NoError(t, err)

		var m manifestFields
		testkit.NoError(t, json.Unmarshal(text, &m))
		named := m.Name == "@tallygate/"+p.Folder && m.Version == "1.2.3" && m.License == "MIT" && !m.Private
		if !named || m.SideEffects == nil || *m.SideEffects {
			t.Errorf("%s: %+v", p.Folder, m)
		}

		// Each file that an export names is one that the package has.
		for _, file := range regexp.MustCompile(`"\./([^"]+\.(js|d\.ts))"`).FindAllSubmatch(template, -1) {
			module, _, _ := strings.Cut(string(file[1]), ".")
			if !slices.Contains(p.Modules, module) {
				t.Errorf("%s exports %s, which is not built", p.Folder, file[1])
			}
		}
	}

	if _, err := (release{Version: "1.2.3"}).manifest([]byte(`{"version": "0.0.0"}`)); err == nil {
		t.Error("a template without the line that the version replaces was accepted")
	}
}

// TestModulesOfPackages checks what only the build decides: a module imports files that its package
// has, or a framework, and the script's settings come from init instead of a tag.
func TestModulesOfPackages(t *testing.T) {
	root, err := assetsRoot()
	testkit.NoError(t, err)

	imports := regexp.MustCompile(`(?m)^(?:import|export) .*from "([^"]+)"`)
	for _, p := range npmPackages {
		modules, err := p.modules(root)
		testkit.NoError(t, err)
		if len(modules) != len(p.Modules) {
			t.Fatalf("%s has %d modules, want %d", p.Folder, len(modules), len(p.Modules))
		}

		for _, module := range modules {
			text := string(module.Data)
			for _, found := range imports.FindAllStringSubmatch(text, -1) {
				name, isFile := strings.CutPrefix(found[1], "./")
				known := slices.Contains([]string{"react", "vue"}, name)
				if isFile {
					known = slices.Contains(p.Modules, strings.TrimSuffix(name, ".js")) || slices.Contains(p.Copies, name)
				}
				if !known {
					t.Errorf("%s/%s imports %s", p.Folder, module.Name, found[1])
				}
			}

			if p.Folder != "analytics" {
				continue
			}
			// currentScript is how the script finds its tag.
			if strings.Contains(text, "currentScript") || strings.Contains(text, "collect.php") != (module.Name == "init.js") {
				t.Errorf("%s/%s has other settings than init's:\n%s", p.Folder, module.Name, text)
			}
		}
	}
}

func TestPack(t *testing.T) {
	files := []packedFile{{"package.json", []byte("{}")}, {"index.js", []byte("export {}")}}
	packed, err := pack(files)
	testkit.NoError(t, err)
	again, err := pack(files)
	if err != nil || !bytes.Equal(packed, again) {
		t.Errorf("the same files gave other bytes, error %v", err)
	}

	unzipped, err := gzip.NewReader(bytes.NewReader(packed))
	testkit.NoError(t, err)
	archive := tar.NewReader(unzipped)
	for _, want := range files {
		header, err := archive.Next()
		testkit.NoError(t, err)
		data, err := io.ReadAll(archive)
		if err != nil || header.Name != "package/"+want.Name || header.Mode != 0o644 || !header.ModTime.Equal(packTime) ||
			!bytes.Equal(data, want.Data) {
			t.Errorf("%s: header %+v, content %q, error %v", want.Name, header, data, err)
		}
	}
	if _, err := archive.Next(); err != io.EOF {
		t.Errorf("after the last file: %v", err)
	}
}
