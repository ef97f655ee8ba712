package model

import (
	"fmt"
	"hash/fnv"
	"slices"
	"strings"
)

// sourceNames holds the names of sources by host and by bare name, and the names themselves by
// their lower case, so that a name stands for itself.
var sourceNames = loadSourceNames()

var sourceNamesVersion = hashSourceNames()

// sourceNamesRule is part of the version of names. Increase it with each change of NameOfSource.
const sourceNamesRule = 1

// loadSourceNames reads sources/names.txt.
func loadSourceNames() map[string]string {
	names := make(map[string]string, 1024)
	for _, line := range sourceList("names") {
		name, entries, _ := strings.Cut(line, ":")
		names[strings.ToLower(name)] = name
		for _, entry := range strings.Fields(entries) {
			for _, source := range sourcesOf(entry) {
				names[source] = name
			}
		}
	}

	return names
}

// hashSourceNames returns a hash of what NameOfSource depends on: the names, and the groups of the
// listed hosts with a name or below a host with one. Other hosts of the lists can change.
func hashSourceNames() uint64 {
	var lines []string
	for source, name := range sourceNames {
		lines = append(lines, source+"\t"+name)
	}
	for _, list := range []map[string]SourceKind{channelSites, groupSites} {
		for host, kind := range list {
			if hasName(host) {
				lines = append(lines, fmt.Sprintf("%s\t%d", host, kind))
			}
		}
	}
	slices.Sort(lines)

	hash := fnv.New64a()
	hash.Write([]byte{sourceNamesRule})
	for _, line := range lines {
		hash.Write([]byte(line + "\n"))
	}
	return hash.Sum64()
}

// hasName reports whether a host or a host above it has a name.
func hasName(host string) bool {
	for found := true; found; _, host, found = strings.Cut(host, ".") {
		if _, ok := sourceNames[host]; ok {
			return true
		}
	}
	return false
}

// sourcesOf returns the sources of an entry of the names: itself, or all listed hosts that begin
// with it.
func sourcesOf(entry string) []string {
	begin, ok := strings.CutSuffix(entry, "*")
	if !ok {
		return []string{entry}
	}

	var hosts []string
	for _, list := range []map[string]SourceKind{channelSites, groupSites} {
		for host := range list {
			if strings.HasPrefix(host, begin) {
				hosts = append(hosts, host)
			}
		}
	}
	return hosts
}

// SourceNamesVersion identifies the names of this program. Sources with equal names in one version
// can have different names in another one. It is never 0.
func SourceNamesVersion() uint64 { return max(sourceNamesVersion, 1) }

// NameOfSource returns the name of a source of reports, such as Google for www.google.com and for
// the campaign value google. A source without a name is returned as it is. The name of a name is
// itself. It is safe for concurrent use.
func NameOfSource(source string) string {
	if len(source) > maxHost {
		return source
	}

	plain := strings.TrimSuffix(strings.ToLower(strings.TrimSpace(source)), ".")
	if strings.IndexByte(plain, '.') < 0 {
		if name, ok := sourceNames[plain]; ok {
			return name
		}
		return source
	}

	for host := plain; ; {
		// A service below a host has its own name, or none: mail.google.com is not Google, but a
		// mail service.
		if name, ok := sourceNames[host]; ok {
			if host != plain && GroupOfSource(host) != GroupOfSource(plain) {
				return source
			}
			return name
		}

		dot := strings.IndexByte(host, '.')
		if host = host[dot+1:]; strings.IndexByte(host, '.') < 0 {
			return source
		}
	}
}
