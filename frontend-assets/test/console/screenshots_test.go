package console_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/chromedp/cdproto/emulation"
	cdppage "github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"

	"github.com/tallygate/tallygate/tools/testkit"
)

// screenshots is the folder for screenshots of every page: light and dark, 375, 768 and 1440 pixels
// wide. "make screenshots" sets it.
var screenshots = flag.String("screenshots", "", "folder for screenshots of every page")

// pictures is the folder for the documents' pictures. "make pictures" sets it.
var pictures = flag.String("pictures", "", "folder for the pictures of the documents")

// takePicture stores the upper part of the page as a picture of the documents, in Inter where it is
// installed (Debian's fonts-inter): the fonts of a server look unlike any visitor's.
func (p *tab) takePicture(name string, height int64) {
	p.t.Helper()
	if *pictures != "" {
		p.Do(emulation.SetDeviceMetricsOverride(1280, height, 1, false))
		p.Eval("scrollTo(0, 0), document.body.style.fontFamily = 'Inter, ' + getComputedStyle(document.body).fontFamily", nil)
		p.capture(filepath.Join(*pictures, name+".png"))
		p.Do(emulation.ClearDeviceMetricsOverride())
	}
}

// capture stores what the window shows.
func (p *tab) capture(file string) {
	p.t.Helper()
	var data []byte
	p.Do(chromedp.ActionFunc(func(ctx context.Context) (err error) {
		data, err = cdppage.CaptureScreenshot().WithFormat(cdppage.CaptureScreenshotFormatPng).Do(ctx)
		return err
	}))
	testkit.NoError(p.t, os.WriteFile(file, data, 0o644))
}

// shootAsIs stores the window as it is.
func (p *tab) shootAsIs(name string) {
	p.t.Helper()
	if *screenshots != "" {
		p.capture(filepath.Join(*screenshots, name+".png"))
	}
}

// shootNarrow stores a page with large text in the narrowest window, named after its path.
func (p *tab) shootNarrow(path string) {
	p.t.Helper()
	if *screenshots != "" {
		var height int64
		p.Eval("document.documentElement.scrollHeight", &height)
		p.Do(emulation.SetDeviceMetricsOverride(640, height, 1, false))
		p.shootAsIs("large-text" + strings.NewReplacer("/", "-", "?", "-").Replace(path))
	}
}

// shootPaper stores the page as it is printed.
func (p *tab) shootPaper(name string) {
	p.t.Helper()
	if *screenshots == "" {
		return
	}

	var data []byte
	p.Do(chromedp.ActionFunc(func(ctx context.Context) (err error) {
		data, _, err = cdppage.PrintToPDF().WithPaperWidth(8.27).WithPaperHeight(11.69).Do(ctx)
		return err
	}))
	testkit.NoError(p.t, os.WriteFile(filepath.Join(*screenshots, name+".pdf"), data, 0o644))
}

// shoot stores the page in each width and theme.
func (p *tab) shoot(name string) {
	p.t.Helper()
	if *screenshots == "" {
		return
	}

	for _, theme := range []string{"light", "dark"} {
		for _, width := range []int64{375, 768, 1440} {
			var height int64
			p.Do(emulation.SetDeviceMetricsOverride(width, 800, 1, false),
				emulation.SetEmulatedMedia().WithFeatures([]*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: theme}}))
			p.Eval("Math.max(document.documentElement.scrollHeight, 400)", &height)
			p.Do(emulation.SetDeviceMetricsOverride(width, height, 1, false))

			p.capture(filepath.Join(*screenshots, fmt.Sprintf("%s-%d-%s.png", name, width, theme)))
		}
	}

	p.Do(emulation.ClearDeviceMetricsOverride(), emulation.SetEmulatedMedia())
}
