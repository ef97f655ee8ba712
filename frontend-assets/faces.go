package assets

import (
	"regexp"
	"slices"
)

// faces lists the scripts that stand in for those of other analytics products, by path. All of them
// exist below the folder of a site key, too: such a script sends its messages to the same folder.
var faces = map[string]*file{
	"/script.js": umamiFace,
	"/umami.js":  umamiFace,
}

var umamiFace = builtFile("faces/umami.js", javascript)

// keyFolder matches the folder of a site key.
var keyFolder = regexp.MustCompile(`^/[0-9a-f]{32}/`)

// faceAt returns the face at a path, or nil.
func faceAt(path string) *file {
	if folder := keyFolder.FindString(path); folder != "" {
		path = path[len(folder)-1:]
	}
	return faces[path]
}

// facePatterns returns the paths of all faces, and the same below a site key.
func facePatterns() (patterns []string) {
	for path := range faces {
		patterns = append(patterns, path, "/{key}"+path)
	}
	slices.Sort(patterns)
	return patterns
}
