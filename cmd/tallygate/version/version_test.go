package version

import (
	"runtime"
	"runtime/debug"
	"strings"
	"testing"
)

// TestRead: what the linker set comes before what Go recorded, and nothing is ever empty.
func TestRead(t *testing.T) {
	commit := strings.Repeat("0123456789", 4)
	recorded := &debug.BuildInfo{
		Main:     debug.Module{Version: "v0.0.0-20261124163300-abc"},
		Settings: []debug.BuildSetting{{Key: "vcs.revision", Value: commit}, {Key: "vcs.modified", Value: "true"}},
	}

	for _, test := range []struct {
		name            string
		info            *debug.BuildInfo
		release, commit string
		want            Build
		text            string
	}{
		{"nothing", new(debug.BuildInfo), "", "", Build{Version: "devel", Commit: "unknown"}, "devel"},
		{"without a repository", &debug.BuildInfo{Main: debug.Module{Version: "(devel)"}}, "", "",
			Build{Version: "devel", Commit: "unknown"}, "devel"},
		{"recorded", recorded, "", "", Build{Version: "v0.0.0-20261124163300-abc", Commit: commit + "-dirty"},
			"v0.0.0-20261124163300-abc 012345678901-dirty"},
		{"linked", recorded, "v1.2.3", "0f0f", Build{Version: "v1.2.3", Commit: "0f0f"}, "v1.2.3 0f0f"},
	} {
		test.want.Go = runtime.Version()
		if got := read(test.info, test.release, test.commit); got != test.want || got.String() != test.text {
			t.Errorf("%s: %+v, %q", test.name, got, got)
		}
	}

	if b := Read(); b.Version == "" || b.Commit == "" || b.Go == "" {
		t.Errorf("this test is %+v", b)
	}
}
