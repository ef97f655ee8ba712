package test

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tallygate/tallygate/tools/testkit"
)

// inspectorFolder holds the list of what npm installs for the MCP inspector.
const inspectorFolder = "inspector"

// inspect runs the MCP inspector, a client by other people in another language, against the tools
// at an origin. It checks structured content against the output schemas.
func inspect(t *testing.T, origin string, header []string, method string, args ...string) (output string, err error) {
	t.Helper()
	wantProgram(t, "node")
	program, absErr := filepath.Abs(inspectorFolder + "/node_modules/.bin/mcp-inspector")
	testkit.NoError(t, absErr)
	if _, err := os.Stat(inspectorFolder + "/node_modules/.package-lock.json"); err != nil {
		testkit.Missing(t, "the packages of cmd/tallygate/test/inspector are not installed; make setup does it")
	}

	command := exec.CommandContext(t.Context(), program,
		append([]string{"--cli", origin + "/mcp", "--transport", "http", "--method", method}, args...)...)
	for _, line := range header {
		command.Args = append(command.Args, "--header", line)
	}

	// The inspector keeps files in the home directory.
	command.Env = append(os.Environ(), "HOME="+t.TempDir(), "NO_COLOR=1")
	var stdout, stderr bytes.Buffer
	command.Stdout, command.Stderr = &stdout, &stderr
	if err = command.Run(); err != nil {
		return stdout.String() + stderr.String(), err
	}
	return stdout.String(), nil
}

// TestInspector lists and calls tools of a running program with the MCP inspector.
func TestInspector(t *testing.T) {
	t.Parallel()
	testkit.SkipLong(t, "needs Node and what npm installs")

	p := start(t, map[string]string{"TALLYGATE_DATA_DIR": t.TempDir()}, []string{"control", "data"})
	owner, token := tokenOf(t, p, "WRITE")
	header := []string{"Authorization: Bearer " + token}

	call := func(tool string, args ...string) (structured map[string]any, failure string) {
		t.Helper()
		output, err := inspect(t, owner.Origin, header, "tools/call", append([]string{"--tool-name", tool}, args...)...)
		var result struct {
			IsError           bool
			Content           []struct{ Text string }
			StructuredContent map[string]any
		}

		// After the result of a tool that failed, the inspector prints an error of its own.
		if decodeErr := json.NewDecoder(strings.NewReader(output)).Decode(&result); decodeErr != nil {
			t.Fatalf("%s %v: %v, %v: %s", tool, args, err, decodeErr, output)
		}
		if result.IsError {
			return nil, result.Content[0].Text
		}
		return result.StructuredContent, ""
	}

	output, err := inspect(t, owner.Origin, header, "tools/list")
	var list struct{ Tools []struct{ Name string } }
	if err != nil || json.Unmarshal([]byte(output), &list) != nil || len(list.Tools) != 16 {
		t.Fatalf("%d tools, %v: %s", len(list.Tools), err, output)
	}

	if created, failure := call("create_site", "--tool-arg", "domain=shop.example", "timeZone=Europe/Berlin"); failure != "" || created["data"] == nil {
		t.Errorf("create_site: %v %s", created, failure)
	}
	report, failure := call("report", "--tool-arg", "site=shop.example", "interval=DAY", "by=PAGE", "compare=PREVIOUS_PERIOD",
		`metrics=["visitors","revenue"]`)
	if failure != "" || report["timeZone"] != "Europe/Berlin" {
		t.Errorf("report: %v %s", report, failure)
	}
	if live, failure := call("live", "--tool-arg", "site=shop.example"); failure != "" || live["graphql"] == nil {
		t.Errorf("live: %v %s", live, failure)
	}
	if _, failure := call("report", "--tool-arg", "site=unknown.example"); !strings.HasPrefix(failure, "NOT_FOUND: ") {
		t.Errorf("an unknown site: %s", failure)
	}

	// Without a token there is nothing.
	if output, err := inspect(t, owner.Origin, nil, "tools/list"); err == nil || strings.Contains(output, "create_site") {
		t.Errorf("without a token: %v, %s", err, output)
	}
}
