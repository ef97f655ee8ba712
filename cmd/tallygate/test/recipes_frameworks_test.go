//go:build recipes

package test

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/evanw/esbuild/pkg/api"

	"github.com/tallygate/tallygate/tools/testkit"
)

// TestRecipeFrameworksChromium runs the form of each framework: it is accepted twice, with a token
// each. It needs the packages of docs/owner/recipes/frameworks: make recipes installs them and runs it.
func TestRecipeFrameworksChromium(t *testing.T) {
	folder, err := filepath.Abs(recipes + "frameworks")
	testkit.NoError(t, err)
	wantProgram(t, "node")

	r := openRecipes(t)
	for _, name := range []string{"contact.jsx", "contact.vue.js", "Contact.svelte"} {
		entry := name
		if filepath.Ext(name) == ".svelte" {
			compiled, err := exec.CommandContext(t.Context(), "node", filepath.Join(folder, "compile.mjs")).Output()
			testkit.NoError(t, err)
			entry = string(compiled)
		}
		// The plain form of the page would be a second widget.
		page := strings.NewReplacer(`<form action="/contact" method="post">`, `<template><form>`, `</form>`, `</form></template>`).
			Replace(recipeFile(t, "page.html"))
		r.add("/"+name, page+`<div id="app" data-sitekey="{sitekey}"></div>`)
		r.pages["/"+name] += "<script>" + bundled(t, folder, entry) + "</script>"
	}

	for _, name := range []string{"contact.jsx", "contact.vue.js", "Contact.svelte"} {
		t.Run(name, func(t *testing.T) {
			page := r.open("/" + name)
			r.solve(page)
			for i := range 2 {
				page.WaitFor(`document.querySelector('.service-captcha.is-done')`)
				page.Eval(`document.querySelector('output').textContent = ''`, nil)
				before := page.Text(`document.querySelector('[name=service-captcha-response]').value`)
				page.Click("#send")
				page.WaitFor(fmt.Sprintf(`%s >= %d`, sent, i+2))
				page.WaitFor(`document.querySelector('[name=service-captcha-response]')?.value`)
				if after := page.Text(`document.querySelector('[name=service-captcha-response]').value`); after == before {
					t.Error("the token is the same after the form was sent")
				}
			}
			wantQuietConsole(t, page)
		})
	}
	r.wantStored("/contact.jsx 1", "/contact.vue.js 1", "/Contact.svelte 1", "signup 6")
}

// bundled returns the script of an entry: a file of the folder, or a module's source.
func bundled(t *testing.T, folder, entry string) string {
	t.Helper()
	options := api.BuildOptions{
		Bundle: true, Format: api.FormatIIFE, MinifyWhitespace: true, JSX: api.JSXAutomatic, AbsWorkingDir: folder,
		Define: map[string]string{
			"process.env.NODE_ENV": `"production"`, "__VUE_OPTIONS_API__": "true", "__VUE_PROD_DEVTOOLS__": "false",
			"__VUE_PROD_HYDRATION_MISMATCH_DETAILS__": "false",
		},
	}
	if strings.Contains(entry, "\n") {
		options.Stdin = &api.StdinOptions{Contents: entry, ResolveDir: folder, Loader: api.LoaderJS}
	} else {
		options.EntryPoints = []string{filepath.Join(folder, entry)}
	}
	built := api.Build(options)
	if len(built.Errors) > 0 {
		t.Fatal(built.Errors)
	}
	return strings.ReplaceAll(string(built.OutputFiles[0].Contents), "</script", `<\/script`)
}
