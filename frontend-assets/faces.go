package assets

import (
	"regexp"
	"slices"
)

// faces lists the scripts that take the place of other products' scripts for analytics, by path. All
// of them exist below the folder of a site key, too, and then send their messages to that folder.
var faces = map[string]*file{
	"/script.js":       umamiFace,
	"/umami.js":        umamiFace,
	"/js/script.js":    plausibleFace,
	"/js/plausible.js": plausibleFace,
	"/js/index.js":     plausibleFace,
	"/count.js":        builtFile("faces/goatcounter.js", javascript),
	"/matomo.js":       matomoFace,
	"/piwik.js":        matomoFace,
	"/js/":             matomoFace,
}

var (
	umamiFace     = builtFile("faces/umami.js", javascript)
	plausibleFace = builtFile("faces/plausible.js", javascript)
	matomoFace    = builtFile("faces/matomo.js", javascript)
)

// keyFolder matches the folder of a site key.
var keyFolder = regexp.MustCompile(`^/[0-9a-f]{32}/`)

// plausibleNames matches the further names of Plausible's script, which the script itself reads: the
// names of its variants, and the one with a site key.
var plausibleNames = regexp.MustCompile(`^/js/(?:(?:script|plausible)(?:\.[a-z-]{1,20}){1,9}|pa-[0-9a-f-]{32,36})\.js$`)

// faceAt returns the face at a path, or nil.
func faceAt(path string) *file {
	if folder := keyFolder.FindString(path); folder != "" {
		path = path[len(folder)-1:]
	}
	if plausibleNames.MatchString(path) {
		return plausibleFace
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
