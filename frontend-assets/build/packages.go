package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"time"

	"github.com/evanw/esbuild/pkg/api"
)

// npmPackage is one package for npm, built from a folder below packages.
type npmPackage struct {
	Folder  string
	Modules []string // each becomes a module and its declarations
	Copies  []string // further files, unchanged
}

// npmPackages lists all packages.
var npmPackages = []npmPackage{
	{Folder: "analytics", Modules: []string{"index", "init", "calls"}},
	{
		Folder:  "captcha",
		Modules: []string{"index", "error", "load", "widget", "handle", "react", "vue", "svelte"},
		Copies:  []string{"Captcha.svelte", "Captcha.svelte.d.ts"},
	},
}

// packagesPath is the folder of the packages below the frontend-assets folder.
const packagesPath = "packages"

// packTime is the time of every file of a package. npm pack writes the same one.
var packTime = time.Date(1985, 10, 26, 8, 15, 0, 0, time.UTC)

// packedFile is one file of a package.
type packedFile struct {
	Name string
	Data []byte
}

// release is what the packages of one release share.
type release struct {
	Version string // such as 1.2.3
	Licence string // SPDX identifier; empty until the owner has chosen one
}

// develVersion is the version of packages that belong to no release.
const develVersion = "0.0.0-devel"

var (
	versionForm = regexp.MustCompile(`^v?((0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(-[0-9A-Za-z]+(\.[0-9A-Za-z]+)*)?)$`)
	licenceForm = regexp.MustCompile(`^[0-9A-Za-z.+() -]*$`)
)

// newRelease reads the program's version, such as v1.2.3, and a licence. Both may be empty.
func newRelease(version, licence string) (release, error) {
	if version == "" {
		version = develVersion
	}

	found := versionForm.FindStringSubmatch(version)
	if found == nil {
		return release{}, fmt.Errorf("version %q is not of the form v1.2.3", version)
	}
	if !licenceForm.MatchString(licence) {
		return release{}, fmt.Errorf("licence %q is no SPDX identifier", licence)
	}

	return release{Version: found[1], Licence: licence}, nil
}

// runPackages builds all packages into a folder. checker is TypeScript's compiler, which writes the
// declarations.
func runPackages(out io.Writer, folder, checker string, r release) error {
	root, err := assetsRoot()
	if err != nil {
		return err
	}

	declarations, err := os.MkdirTemp("", "declarations")
	if err != nil {
		return err
	}
	defer os.RemoveAll(declarations)

	if err := declare(root, checker, declarations); err != nil {
		return err
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}

	for _, p := range npmPackages {
		files, err := p.files(root, declarations, r)
		if err != nil {
			return fmt.Errorf("package %s: %w", p.Folder, err)
		}

		packed, err := pack(files)
		if err != nil {
			return err
		}

		name := fmt.Sprintf("tallygate-%s-%s.tgz", p.Folder, r.Version)
		if err := os.WriteFile(filepath.Join(folder, name), packed, 0o644); err != nil {
			return err
		}
		fmt.Fprintf(out, "%s %d bytes, %d files\n", name, len(packed), len(files))
	}

	return nil
}

// declare writes the declarations of all packages below a folder.
func declare(root, checker, folder string) error {
	project := filepath.Join(root, packagesPath, "tsconfig.declarations.json")
	command := exec.Command(checker, "--project", project, "--outDir", folder)
	if output, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("declarations by %s: %w\n%s", checker, err, output)
	}
	return nil
}

// files returns the files of the package, package.json first.
func (p npmPackage) files(root, declarations string, r release) ([]packedFile, error) {
	source := filepath.Join(root, packagesPath, p.Folder)
	template, err := os.ReadFile(filepath.Join(source, "package.json"))
	if err != nil {
		return nil, err
	}
	manifest, err := r.manifest(template)
	if err != nil {
		return nil, err
	}
	files := []packedFile{{"package.json", manifest}}

	modules, err := p.modules(root)
	if err != nil {
		return nil, err
	}
	files = append(files, modules...)

	for _, module := range p.Modules {
		name := module + ".d.ts"
		data, err := os.ReadFile(filepath.Join(declarations, packagesPath, p.Folder, name))
		if err != nil {
			return nil, err
		}
		files = append(files, packedFile{name, data})
	}

	for _, name := range append([]string{"README.md"}, p.Copies...) {
		data, err := os.ReadFile(filepath.Join(source, name))
		if err != nil {
			return nil, err
		}
		files = append(files, packedFile{name, data})
	}

	// A repository without a licence gives packages without one.
	licence, err := os.ReadFile(filepath.Join(root, "..", "LICENSE"))
	if errors.Is(err, fs.ErrNotExist) {
		return files, nil
	}
	if err != nil {
		return nil, err
	}
	return append(files, packedFile{"LICENSE", licence}), nil
}

// manifest returns a package's package.json with version and licence.
func (r release) manifest(template []byte) ([]byte, error) {
	const private = `"private": true,`
	if bytes.Count(template, []byte(private)) != 1 {
		return nil, fmt.Errorf("package.json must have the line %s, which the version replaces", private)
	}

	fields := fmt.Sprintf(`"version": %q,`, r.Version)
	if r.Licence != "" {
		fields += fmt.Sprintf("\n  \"license\": %q,", r.Licence)
	}
	return bytes.Replace(template, []byte(private), []byte(fields), 1), nil
}

// modules bundles the package's modules. An import that ends in .js or .svelte is another file of
// the package, and a name without a dot is a framework; everything else becomes part of the module.
func (p npmPackage) modules(root string) ([]packedFile, error) {
	var entries []string
	for _, module := range p.Modules {
		entries = append(entries, filepath.ToSlash(filepath.Join(packagesPath, p.Folder, module+".ts")))
	}

	// An app builds for its own browsers, so only the language is fixed here.
	result := api.Build(api.BuildOptions{
		AbsWorkingDir: root,
		EntryPoints:   entries,
		Outdir:        "/",
		Tsconfig:      "tsconfig.json",
		Bundle:        true,
		Format:        api.FormatESModule,
		Platform:      api.PlatformBrowser,
		Target:        languageTarget,
		LegalComments: api.LegalCommentsNone,
		Charset:       api.CharsetASCII,
		LogLevel:      api.LogLevelSilent,
		Plugins:       []api.Plugin{packageImports(root)},
	})
	if err := problems(result.Errors, result.Warnings); err != nil {
		return nil, err
	}

	var files []packedFile
	for _, file := range result.OutputFiles {
		files = append(files, packedFile{filepath.Base(file.Path), file.Contents})
	}
	return files, nil
}

// packageImports returns a plugin that leaves imports of other files and of frameworks alone, and
// puts the package's settings in the place of the script's tag.
func packageImports(root string) api.Plugin {
	settings := otherTag(filepath.Join(root, packagesPath, "analytics", "settings.ts"))

	return api.Plugin{Name: "package imports", Setup: func(b api.PluginBuild) {
		other := api.OnResolveOptions{Filter: `\.(js|svelte)$|^[^./]+$`}
		b.OnResolve(other, func(args api.OnResolveArgs) (api.OnResolveResult, error) {
			if args.Kind == api.ResolveEntryPoint {
				return api.OnResolveResult{}, nil
			}
			return api.OnResolveResult{Path: args.Path, External: true}, nil
		})

		settings.Setup(b)
	}}
}

// pack returns the files as npm pack does: a compressed archive with a folder named package. The
// same files give the same bytes.
func pack(files []packedFile) ([]byte, error) {
	var b bytes.Buffer
	zipped, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err != nil {
		return nil, err
	}

	archive := tar.NewWriter(zipped)
	for _, file := range files {
		header := &tar.Header{
			Typeflag: tar.TypeReg, Name: "package/" + file.Name, Mode: 0o644, Size: int64(len(file.Data)), ModTime: packTime,
			Format: tar.FormatUSTAR,
		}
		if err := archive.WriteHeader(header); err != nil {
			return nil, err
		}
		if _, err := archive.Write(file.Data); err != nil {
			return nil, err
		}
	}

	if err := errors.Join(archive.Close(), zipped.Close()); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}
