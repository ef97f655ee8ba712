package main

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/andybalholm/brotli"
	"github.com/evanw/esbuild/pkg/api"
)

// asset is one file of dist/ and where it comes from.
type asset struct {
	Entry    string   // the source file that imports all others, relative to frontend-assets; .wasm files are taken as they are
	Out      string   // file name below dist
	Budget   int      // largest allowed size in bytes, gzip-compressed
	Optional []string // source files, beside the entry, whose functions could be left out; see -parts
	omit     string   // the one of them that this build leaves out
}

// assets lists everything that is built.
var assets = []asset{
	{
		Entry: "src/svc/main.ts", Out: "svc.js", Budget: 2600,
		Optional: []string{"routes.ts", "links.ts", "scroll.ts", "search.ts", "debug.ts"},
	},
	{Entry: "src/captcha/main.ts", Out: "captcha.js", Budget: 8600},
	{Entry: "src/captcha/engine/worker.ts", Out: "captcha-worker.js", Budget: 2600},
	{Entry: "src/captcha/engine/wasm/captcha.wasm", Out: "captcha.wasm", Budget: 2100},
	{Entry: "src/captcha/engine/wasm/captcha-scalar.wasm", Out: "captcha-scalar.wasm", Budget: 1600},
	{Entry: "src/captcha/captcha.css", Out: "captcha.css", Budget: 1500},
	{Entry: "src/graphiql/start.ts", Out: "graphiql/start.js", Budget: 1000},
}

// widget is the captcha with everything that it may load, in any language and on any browser. The
// stylesheet is left out: the script carries it, and pages that link it do without that part.
var widget = []string{"captcha.js", "captcha-worker.js", "captcha.wasm", "captcha-scalar.wasm"}

// widgetBudget is the largest allowed size of the widget in bytes, gzip-compressed.
const widgetBudget = 14 << 10

// The oldest browsers that the assets are written for. All of them have ES2020's syntax; esbuild
// rewrites anything newer and fails when it cannot.
const languageTarget = api.ES2020

var browserTargets = []api.Engine{
	{Name: api.EngineChrome, Version: "80"},
	{Name: api.EngineEdge, Version: "80"},
	{Name: api.EngineFirefox, Version: "78"},
	{Name: api.EngineSafari, Version: "14"},
	{Name: api.EngineIOS, Version: "14"},
}

// built is an asset in its three encodings.
type built struct {
	asset
	Raw, Gzip, Brotli []byte
}

// String is the line that the build prints.
func (b built) String() string {
	return fmt.Sprintf("%-20s raw %5d   gzip %5d of %5d   brotli %5d", b.Out, len(b.Raw), len(b.Gzip), b.Budget, len(b.Brotli))
}

// withinBudget fails when the asset has grown too large.
func (b built) withinBudget() error {
	if len(b.Gzip) > b.Budget {
		return fmt.Errorf("%s has %d bytes gzip-compressed, its budget is %d", b.Out, len(b.Gzip), b.Budget)
	}
	return nil
}

// widgetSize adds up the widget's part of the given sizes, which are gzip-compressed.
func widgetSize(sizes map[string]int) (sum int) {
	for _, name := range widget {
		sum += sizes[name]
	}
	return sum
}

// withinWidgetBudget fails when the widget has grown too large.
func withinWidgetBudget(sizes map[string]int) error {
	if size := widgetSize(sizes); size > widgetBudget {
		return fmt.Errorf("the captcha's widget has %d bytes gzip-compressed, its budget is %d", size, widgetBudget)
	}
	return nil
}

// without is the same asset with one of its optional parts left out.
func (a asset) without(part string) asset {
	a.omit = part
	return a
}

// build makes and compresses the asset; root is the frontend-assets folder.
func (a asset) build(root string) (built, error) {
	raw, err := a.make(root)
	if err != nil {
		return built{}, err
	}

	zipped, err := gzipped(raw)
	if err != nil {
		return built{}, err
	}

	brotlied, err := brotlied(raw)
	if err != nil {
		return built{}, err
	}

	return built{asset: a, Raw: raw, Gzip: zipped, Brotli: brotlied}, nil
}

// make bundles the asset.
func (a asset) make(root string) ([]byte, error) {
	if path.Ext(a.Entry) == ".wasm" {
		return os.ReadFile(filepath.Join(root, filepath.FromSlash(a.Entry)))
	}

	result := api.Build(api.BuildOptions{
		AbsWorkingDir:     root,
		EntryPoints:       []string{a.Entry},
		Tsconfig:          "tsconfig.json",
		Bundle:            true,
		Format:            api.FormatIIFE,
		Platform:          api.PlatformBrowser,
		Target:            languageTarget,
		Engines:           browserTargets,
		MinifyWhitespace:  true,
		MinifyIdentifiers: true,
		MinifySyntax:      true,
		LegalComments:     api.LegalCommentsNone,
		Charset:           api.CharsetASCII, // the same in whatever encoding a page declares
		LogLevel:          api.LogLevelSilent,
		Plugins:           a.plugins(),
	})

	// A warning is a mistake in our own source, so it stops the build as well.
	if err := problems(result.Errors, result.Warnings); err != nil {
		return nil, err
	}

	return result.OutputFiles[0].Contents, nil
}

// problems is the error that esbuild's messages amount to.
func problems(errs, warnings []api.Message) error {
	all := append(errs, warnings...)
	if len(all) == 0 {
		return nil
	}
	return errors.New(strings.Join(api.FormatMessages(all, api.FormatMessagesOptions{}), ""))
}

// plugins are what this asset needs beside esbuild itself.
func (a asset) plugins() []api.Plugin {
	var plugins []api.Plugin

	if path.Ext(a.Entry) == ".ts" {
		plugins = append(plugins, styleText)
	}
	if a.omit != "" {
		plugins = append(plugins, a.omission())
	}

	return plugins
}

// styleText lets a script import a stylesheet: it gets the minified text.
var styleText = api.Plugin{Name: "style text", Setup: func(b api.PluginBuild) {
	b.OnLoad(api.OnLoadOptions{Filter: `\.css$`}, func(args api.OnLoadArgs) (api.OnLoadResult, error) {
		source, err := os.ReadFile(args.Path)
		if err != nil {
			return api.OnLoadResult{}, err
		}

		result := api.Transform(string(source), api.TransformOptions{
			Loader:           api.LoaderCSS,
			Engines:          browserTargets,
			MinifyWhitespace: true,
			MinifySyntax:     true,
			LogLevel:         api.LogLevelSilent,
			Sourcefile:       args.Path,
		})
		if err := problems(result.Errors, result.Warnings); err != nil {
			return api.OnLoadResult{}, err
		}

		text := strings.TrimSpace(string(result.Code))
		return api.OnLoadResult{Contents: &text, Loader: api.LoaderText}, nil
	})
}}

// omission replaces the functions of the omitted part by ones that do nothing.
func (a asset) omission() api.Plugin {
	if !slices.Contains(a.Optional, a.omit) {
		panic(a.omit + " is not an optional part of " + a.Out)
	}

	return api.Plugin{Name: "omit", Setup: func(b api.PluginBuild) {
		b.OnLoad(api.OnLoadOptions{Filter: `/` + strings.ReplaceAll(a.omit, ".", `\.`) + `$`}, func(args api.OnLoadArgs) (api.OnLoadResult, error) {
			names, err := exports(args.Path)
			if err != nil {
				return api.OnLoadResult{}, err
			}

			var stub strings.Builder
			for _, name := range names {
				fmt.Fprintf(&stub, "export const %s = () => {};\n", name)
			}

			contents := stub.String()
			return api.OnLoadResult{Contents: &contents, ResolveDir: filepath.Dir(args.Path)}, nil
		})
	}}
}

// exports lists the names that a source file exports.
func exports(path string) ([]string, error) {
	result := api.Build(api.BuildOptions{
		EntryPoints: []string{path}, Format: api.FormatESModule, Metafile: true, Write: false, LogLevel: api.LogLevelSilent,
	})
	if len(result.Errors) > 0 {
		return nil, errors.New(result.Errors[0].Text)
	}

	// Unbundled and unminified, esbuild ends a module with "export {\n  a,\n  b\n};".
	_, list, _ := strings.Cut(string(result.OutputFiles[0].Contents), "export {")
	list, _, _ = strings.Cut(list, "}")
	return strings.FieldsFunc(list, func(r rune) bool { return strings.ContainsRune(", \n", r) }), nil
}

// gzipped compresses as small as compress/gzip can; the header carries neither a name nor a time.
func gzipped(raw []byte) ([]byte, error) {
	var b bytes.Buffer
	w, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	if _, err := w.Write(raw); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}

	return b.Bytes(), nil
}

// brotlied compresses as small as brotli can.
func brotlied(raw []byte) ([]byte, error) {
	var b bytes.Buffer
	w := brotli.NewWriterLevel(&b, brotli.BestCompression)
	if _, err := w.Write(raw); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}

	return b.Bytes(), nil
}
