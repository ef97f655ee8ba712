// Package version reports which build of the program runs.
package version

import (
	"runtime"
	"runtime/debug"
	"strings"
)

// Set by the linker, for example with -X
// github.com/tallygate/tallygate/cmd/tallygate/version.commit=0123abc.
var release, commit string

const unknown = "unknown"

// Build describes a build of the program.
type Build struct {
	Version string // such as v1.2.3; "devel" for other commits than a release's
	Commit  string // with the suffix -dirty if files differed from it; "unknown" outside of a repository
	Go      string // such as go1.26.0
}

// Read returns the build that runs: what the linker set, else what Go recorded.
func Read() Build {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		info = new(debug.BuildInfo)
	}
	return read(info, release, commit)
}

func read(info *debug.BuildInfo, release, commit string) Build {
	b := Build{Version: release, Commit: commit, Go: runtime.Version()}

	// Go writes (devel) if it knows no version, and nothing at all in tests.
	if b.Version == "" {
		b.Version = info.Main.Version
	}
	if b.Version == "" || b.Version == "(devel)" {
		b.Version = "devel"
	}

	settings := make(map[string]string)
	for _, s := range info.Settings {
		settings[s.Key] = s.Value
	}
	if b.Commit == "" {
		b.Commit = settings["vcs.revision"]
		if settings["vcs.modified"] == "true" {
			b.Commit += "-dirty"
		}
	}
	if b.Commit == "" {
		b.Commit = unknown
	}

	return b
}

// String returns the version and, if it is known, the commit with 12 digits.
func (b Build) String() string {
	if b.Commit == unknown {
		return b.Version
	}
	hash, changed, dirty := strings.Cut(b.Commit, "-")
	if dirty {
		changed = "-" + changed
	}
	return b.Version + " " + hash[:min(12, len(hash))] + changed
}
