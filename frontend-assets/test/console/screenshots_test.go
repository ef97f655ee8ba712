package console_test

import (
	"context"
	"flag"
	"os"
	"path/filepath"
	"strings"

	"github.com/chromedp/cdproto/emulation"
	cdppage "github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
)

// screenshots is the folder for screenshots of every page: light and dark, 375 and 1280 pixels wide.
// "make screenshots" sets it.
var screenshots = flag.String("screenshots", "", "folder for screenshots of every page")

// shoot stores the page in each width and theme.
func (p *tab) shoot(name string) {
	p.t.Helper()
	if *screenshots == "" {
		return
	}

	for _, theme := range []string{"light", "dark"} {
		for width, suffix := range map[int64]string{375: "375", 1280: "1280"} {
			var height int64
			p.Do(emulation.SetDeviceMetricsOverride(width, 800, 1, false),
				emulation.SetEmulatedMedia().WithFeatures([]*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: theme}}))
			p.Eval("Math.max(document.documentElement.scrollHeight, 400)", &height)
			p.Do(emulation.SetDeviceMetricsOverride(width, height, 1, false))

			var picture []byte
			p.Do(chromedp.ActionFunc(func(ctx context.Context) (err error) {
				picture, err = cdppage.CaptureScreenshot().WithFormat(cdppage.CaptureScreenshotFormatPng).Do(ctx)
				return err
			}))

			file := filepath.Join(*screenshots, strings.Join([]string{name, suffix, theme}, "-")+".png")
			if err := os.WriteFile(file, picture, 0o644); err != nil {
				p.t.Fatal(err)
			}
		}
	}

	p.Do(emulation.ClearDeviceMetricsOverride(), emulation.SetEmulatedMedia())
}
