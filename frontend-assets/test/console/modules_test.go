package console_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/network"

	"github.com/tallygate/tallygate/tools/browsertest"
	"github.com/tallygate/tallygate/tools/testkit"
	"github.com/tallygate/tallygate/tools/world/program"
)

// TestUpgradeUnderOpenTabChromium replaces the program by another build while a tab is open. The
// tab needs a module that the server has under another address.
func TestUpgradeUnderOpenTabChromium(t *testing.T) {
	t.Parallel()

	before := start(t, nil)
	before.signUp()
	p := before.openSignedIn("/")
	p.see("Sites")
	p.Eval("window.old = true", nil)
	before.stop()

	after := startProgram(t, nextBuild(t), "serve", map[string]string{
		"CONTROL_ADDR": strings.TrimPrefix(before.Origin, "http://"), "DATA_DIR": before.dir,
	})
	p.Do(browsertest.Press("ga"))
	p.see("Leave the account")
	p.WaitFor("location.pathname === '/account' && !window.old")

	p.Goto(after.Origin + "/nothing")
	p.see("Not found")
	p.look("missing")
	p.press("Sites")
	p.see("New site")
}

// nextBuild builds a program with another file in its console.
func nextBuild(t *testing.T) string {
	t.Helper()
	const module = "dist/console/account.js"
	content, err := os.ReadFile("../../" + module)
	testkit.NoError(t, err)
	changed := filepath.Join(t.TempDir(), "account.js")
	original, err := filepath.Abs("../../" + module)
	testkit.NoError(t, err)
	overlay, err := json.Marshal(map[string]any{"Replace": map[string]string{original: changed}})
	testkit.NoError(t, err)

	list := changed + ".json"
	for file, text := range map[string][]byte{changed: append(content, '\n'), list: overlay} {
		testkit.NoError(t, os.WriteFile(file, text, 0o600))
	}
	file, err := program.Build("next", "-overlay", list)
	testkit.NoError(t, err)
	return file
}

// TestModuleFailsToLoadChromium loads a page while the network is away, and again when it is back.
func TestModuleFailsToLoadChromium(t *testing.T) {
	t.Parallel()

	s := start(t, nil)
	s.signUp()
	id, _ := s.createSite("shop.localhost", "Kettle shop")
	p := s.openSignedIn("/sites/" + id)
	p.see("Waiting for the first hit")

	block := func(what string) {
		p.Do(network.Enable(), network.SetBlockedURLs().WithURLPatterns([]*network.BlockPattern{{URLPattern: what, Block: true}}))
	}
	block("*://*:*/*")
	p.Do(browsertest.Press("ga"))
	p.see("could not be reached")
	block("*://*:*/nothing")
	p.see("Leave the account")
	p.WaitFor("location.pathname === '/account'")
}
