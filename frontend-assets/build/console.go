package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/evanw/esbuild/pkg/api"
)

// The console is ES modules and a style sheet. main.js is loaded first and contains all that the
// first view needs; it exports src/console/core and Preact. drilldown.js, timeline.js, journeys.js,
// why.js, zip.js and further.js, which have what a report opens, lines.js, site.js, install.js,
// settings.js, captcha.js, account.js, audit.js, operator.js, provider.js, alerts.js, alertform.js
// and import.js, which have the other pages, and the messages of other languages are loaded on
// demand. They import the core from main.js, so the first view takes one script, and the core's
// state exists once.
// src/console/parts, which has no state, is part of each module that uses it.

// The oldest browsers that run the console: those with light-dark() in CSS, of spring 2024.
var consoleTargets = []api.Engine{
	{Name: api.EngineChrome, Version: "123"},
	{Name: api.EngineEdge, Version: "123"},
	{Name: api.EngineFirefox, Version: "120"},
	{Name: api.EngineSafari, Version: "17.5"},
	{Name: api.EngineIOS, Version: "17.5"},
}

// consoleOptions changes the options of owners' scripts into those of the console.
func consoleOptions(o *api.BuildOptions) {
	o.Tsconfig = "src/console/tsconfig.json"
	o.Format = api.FormatESModule
	o.Target = api.ES2022
	o.Engines = consoleTargets
	o.Charset = api.CharsetUTF8
	o.Plugins = []api.Plugin{consoleModules(strings.HasSuffix(o.EntryPoints[0], "/main.tsx"))}
}

// consoleModules returns the plugin that connects the console's modules. Imports that cross a
// module become addresses relative to main.js.
func consoleModules(isMain bool) api.Plugin {
	return api.Plugin{Name: "console", Setup: func(b api.PluginBuild) {
		external := func(address string) (api.OnResolveResult, error) {
			return api.OnResolveResult{Path: address, External: true}, nil
		}

		// Only main.js contains the core and Preact. A second copy of the core would have a state
		// of its own.
		b.OnResolve(api.OnResolveOptions{Filter: `^\.\.?/core/|^preact(/|$)`},
			func(api.OnResolveArgs) (api.OnResolveResult, error) {
				if isMain {
					return api.OnResolveResult{}, nil
				}
				return external("./main.js")
			})

		b.OnResolve(api.OnResolveOptions{Filter: `^\.`}, func(args api.OnResolveArgs) (api.OnResolveResult, error) {
			if args.Kind != api.ResolveJSDynamicImport {
				return api.OnResolveResult{}, nil
			}
			return external("./" + filepath.Base(args.Path) + ".js")
		})
	}}
}

// updateOperations writes operationsFile, or fails if check is set and it differs from its sources.
func updateOperations(root string, check bool) error {
	want, err := operationsSource(root)
	if err != nil {
		return err
	}

	path := filepath.Join(root, filepath.FromSlash(operationsFile))
	if !check {
		return os.WriteFile(path, []byte(want), 0o644)
	}

	got, err := os.ReadFile(path)
	if err != nil || string(got) != want {
		return fmt.Errorf("run \"go run ./frontend-assets/build\" and commit the result: %s differs from its sources (%v)",
			operationsFile, err)
	}

	return nil
}
