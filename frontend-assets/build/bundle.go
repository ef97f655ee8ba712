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

// asset is one file of dist/ and its source.
type asset struct {
	Entry    string   // source file relative to frontend-assets; .wasm files are copied
	Out      string   // file name below dist
	Budget   int      // size limit in bytes, gzip-compressed
	Optional []string // source files next to the entry that can be left out; see -parts
	Console  bool     // part of the console: an ES module, or its style sheet, for current browsers
	Mangle   string   // names of properties, separated by |, that nothing but the asset's own objects has; they are shortened
	Tag      string   // module in the place of the browser script's tag.ts, relative to frontend-assets
	omit     string   // the optional file that this build leaves out
}

// assets lists all files that are built.
var assets = []asset{
	{
		Entry: "src/svc/main.ts", Out: "svc.js", Budget: 2600,
		Optional: []string{"routes.ts", "links.ts", "scroll.ts", "search.ts", "debug.ts"},
	},
	{Entry: "src/faces/umami.ts", Out: "faces/umami.js", Budget: 3800, Tag: facesTag},
	{Entry: "src/faces/plausible.ts", Out: "faces/plausible.js", Budget: 4150, Tag: facesTag},
	{Entry: "src/faces/goatcounter.ts", Out: "faces/goatcounter.js", Budget: 3800, Tag: facesTag},
	{Entry: "src/faces/matomo.ts", Out: "faces/matomo.js", Budget: 4300, Tag: facesTag},
	{Entry: "src/captcha/main.ts", Out: "captcha.js", Budget: 8900, Mangle: "restore|progress|show|update|tick|renew|retry|drop|fail|end"},
	{Entry: "src/captcha/engine/worker.ts", Out: "captcha-worker.js", Budget: 2600},
	{Entry: "src/captcha/engine/wasm/captcha.wasm", Out: "captcha.wasm", Budget: 2100},
	{Entry: "src/captcha/engine/wasm/captcha-scalar.wasm", Out: "captcha-scalar.wasm", Budget: 1600},
	{Entry: "src/captcha/captcha.css", Out: "captcha.css", Budget: 1500},
	{Entry: "src/captcha/dropin/recaptcha.ts", Out: "dropin/recaptcha.js", Budget: loaderBudget},
	{Entry: "src/captcha/dropin/hcaptcha.ts", Out: "dropin/hcaptcha.js", Budget: loaderBudget},
	{Entry: "src/captcha/dropin/turnstile.ts", Out: "dropin/turnstile.js", Budget: loaderBudget},
	{Entry: "src/captcha/dropin/frame.ts", Out: "dropin/frame.js", Budget: 500},
	{Entry: "src/graphiql/start.ts", Out: "graphiql/start.js", Budget: 1000},
	{Entry: "src/console/main.tsx", Out: "console/main.js", Budget: 32 << 10, Console: true},
	{Entry: "src/console/drilldown.tsx", Out: "console/drilldown.js", Budget: 20_000, Console: true},
	{Entry: "src/console/timeline.tsx", Out: "console/timeline.js", Budget: 7_000, Console: true},
	{Entry: "src/console/journeys.tsx", Out: "console/journeys.js", Budget: 4_500, Console: true},
	{Entry: "src/console/why.tsx", Out: "console/why.js", Budget: 3_000, Console: true},
	{Entry: "src/console/site.tsx", Out: "console/site.js", Budget: 25_000, Console: true},
	{Entry: "src/console/install.tsx", Out: "console/install.js", Budget: 7_500, Console: true},
	{Entry: "src/console/settings.tsx", Out: "console/settings.js", Budget: 10_500, Console: true},
	{Entry: "src/console/captcha.tsx", Out: "console/captcha.js", Budget: 11_600, Console: true},
	{Entry: "src/console/account.tsx", Out: "console/account.js", Budget: 20_000, Console: true},
	{Entry: "src/console/audit.tsx", Out: "console/audit.js", Budget: 9_000, Console: true},
	{Entry: "src/console/lines.tsx", Out: "console/lines.js", Budget: 1_500, Console: true},
	{Entry: "src/console/operator.tsx", Out: "console/operator.js", Budget: 10_000, Console: true},
	{Entry: "src/console/provider.tsx", Out: "console/provider.js", Budget: 6_000, Console: true},
	{Entry: "src/console/zip.tsx", Out: "console/zip.js", Budget: 9_000, Console: true},
	{Entry: "src/console/zip/further.ts", Out: "console/further.js", Budget: 3_500, Console: true},
	{Entry: "src/console/alerts.tsx", Out: "console/alerts.js", Budget: 10_500, Console: true},
	{Entry: "src/console/alertform.tsx", Out: "console/alertform.js", Budget: 6_500, Console: true},
	{Entry: "src/console/import.tsx", Out: "console/import.js", Budget: 7_000, Console: true},
	{Entry: "src/console/messages/de.ts", Out: "console/de.js", Budget: 6_000, Console: true},
	{Entry: "src/console/messages/de-pages.ts", Out: "console/de-pages.js", Budget: 27_000, Console: true},
	{Entry: "src/console/console.css", Out: "console/console.css", Budget: 8 << 10, Console: true},
}

// facesTag is the tag module of the faces: scripts in the place of other products' scripts for
// analytics.
const facesTag = "src/faces/tag.ts"

// widget lists the captcha's script and all files that it may load. The stylesheet is not among
// them, because the script contains it.
var widget = []string{"captcha.js", "captcha-worker.js", "captcha.wasm", "captcha-scalar.wasm"}

// widgetBudget is the size limit of the widget in bytes, gzip-compressed.
const widgetBudget = 14 << 10

// loaderBudget is the size limit in bytes, gzip-compressed, of a script that stands in for another
// captcha's.
const loaderBudget = 2500

// germanView lists the scripts of the console's first view in German, which English has in main.js
// alone, and germanViewBudget is their size limit in bytes, gzip-compressed.
var germanView = []string{"console/main.js", "console/de.js"}

const germanViewBudget = 37_500

// withinGermanViewBudget returns an error if the first view in German exceeds its budget.
func withinGermanViewBudget(sizes map[string]int) error {
	if size := sum(sizes, germanView); size > germanViewBudget {
		return fmt.Errorf("the console's first view in German has %d bytes gzip-compressed, its budget is %d", size,
			germanViewBudget)
	}
	return nil
}

// The oldest supported browsers. All of them have ES2020's syntax. esbuild rewrites newer syntax,
// and fails if it cannot.
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

// String returns the line that the build prints.
func (b built) String() string {
	return fmt.Sprintf(
		"%-20s raw %5d   gzip %5d of %5d   brotli %5d", b.Out, len(b.Raw), len(b.Gzip), b.Budget, len(b.Brotli),
	)
}

// withinBudget returns an error if the asset exceeds its budget.
func (b built) withinBudget() error {
	if len(b.Gzip) > b.Budget {
		return fmt.Errorf("%s has %d bytes gzip-compressed, its budget is %d", b.Out, len(b.Gzip), b.Budget)
	}
	return nil
}

// sum returns the size of some files together.
func sum(sizes map[string]int, names []string) (all int) {
	for _, name := range names {
		all += sizes[name]
	}
	return all
}

// withinWidgetBudget returns an error if the widget exceeds its budget.
func withinWidgetBudget(sizes map[string]int) error {
	if size := sum(sizes, widget); size > widgetBudget {
		return fmt.Errorf("the captcha's widget has %d bytes gzip-compressed, its budget is %d", size, widgetBudget)
	}
	return nil
}

// without returns the asset without one of its optional parts.
func (a asset) without(part string) asset {
	a.omit = part
	return a
}

// build bundles and compresses the asset. root is the frontend-assets folder.
func (a asset) build(root string) (built, error) {
	raw, err := a.bundle(root)
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

// bundle returns the uncompressed asset.
func (a asset) bundle(root string) ([]byte, error) {
	if path.Ext(a.Entry) == ".wasm" {
		return os.ReadFile(filepath.Join(root, filepath.FromSlash(a.Entry)))
	}

	options := api.BuildOptions{
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
		// ASCII reads the same in every encoding that a page may declare.
		Charset:  api.CharsetASCII,
		LogLevel: api.LogLevelSilent,
		Plugins:  a.plugins(root),
	}
	if a.Mangle != "" {
		options.MangleProps = "^(" + a.Mangle + ")$"
	}
	if a.Console {
		consoleOptions(&options)
	}

	result := api.Build(options)

	// A warning is a mistake in the source, so it fails the build too.
	if err := problems(result.Errors, result.Warnings); err != nil {
		return nil, err
	}

	return result.OutputFiles[0].Contents, nil
}

// problems returns esbuild's messages as one error.
func problems(errs, warnings []api.Message) error {
	all := append(errs, warnings...)
	if len(all) == 0 {
		return nil
	}
	return errors.New(strings.Join(api.FormatMessages(all, api.FormatMessagesOptions{}), ""))
}

// plugins returns the esbuild plugins that this asset needs.
func (a asset) plugins(root string) []api.Plugin {
	var plugins []api.Plugin

	if path.Ext(a.Entry) == ".ts" {
		plugins = append(plugins, styleText)
	}
	if a.omit != "" {
		plugins = append(plugins, a.omission())
	}
	if a.Tag != "" {
		plugins = append(plugins, otherTag(filepath.Join(root, filepath.FromSlash(a.Tag))))
	}

	return plugins
}

// otherTag returns a plugin that puts a module in the place of the browser script's tag.ts, with the
// same exports, so that the settings come from elsewhere.
func otherTag(module string) api.Plugin {
	return api.Plugin{Name: "other tag", Setup: func(b api.PluginBuild) {
		b.OnResolve(api.OnResolveOptions{Filter: `/tag$`}, func(args api.OnResolveArgs) (api.OnResolveResult, error) {
			if !strings.HasSuffix(filepath.ToSlash(args.ResolveDir), "/src/svc") {
				return api.OnResolveResult{}, nil
			}
			return api.OnResolveResult{Path: module}, nil
		})
	}}
}

// styleText lets a script import a stylesheet as its minified text.
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

// omission returns a plugin that replaces the exports of the omitted part by functions that do
// nothing.
func (a asset) omission() api.Plugin {
	if !slices.Contains(a.Optional, a.omit) {
		panic(a.omit + " is not an optional part of " + a.Out)
	}

	return api.Plugin{Name: "omit", Setup: func(b api.PluginBuild) {
		filter := `/` + strings.ReplaceAll(a.omit, ".", `\.`) + `$`
		b.OnLoad(api.OnLoadOptions{Filter: filter}, func(args api.OnLoadArgs) (api.OnLoadResult, error) {
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

// exports returns the names that a source file exports.
func exports(path string) ([]string, error) {
	result := api.Build(api.BuildOptions{
		EntryPoints: []string{path},
		Format:      api.FormatESModule,
		Metafile:    true,
		Write:       false,
		LogLevel:    api.LogLevelSilent,
	})
	if len(result.Errors) > 0 {
		return nil, errors.New(result.Errors[0].Text)
	}

	// Unbundled and unminified, esbuild ends a module with "export {\n  a,\n  b\n};".
	_, list, _ := strings.Cut(string(result.OutputFiles[0].Contents), "export {")
	list, _, _ = strings.Cut(list, "}")
	return strings.FieldsFunc(list, func(r rune) bool { return strings.ContainsRune(", \n", r) }), nil
}

// gzipped compresses at the highest level. The header contains neither a name nor a time.
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

// brotlied compresses at the highest level.
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
