package channel

import (
	"embed"
	"strings"
)

// kind says what sort of site a host or a source name belongs to.
type kind uint8

const (
	unlisted kind = iota
	search
	social
	video
	mail
	ads
	affiliates
	referral // below a listed host, but not of its kind
)

// files holds the lists. A line is a host, which stands for itself and the hosts below it, or a
// bare name as campaigns use for their source; # starts a comment.
//
//go:embed hosts/*.txt
var files embed.FS

var listNames = map[kind]string{
	search: "search", social: "social", video: "video", mail: "mail", ads: "ads", affiliates: "affiliates", referral: "referral",
}

var sites = load()

func load() map[string]kind {
	all := make(map[string]kind, 4096)
	for k, name := range listNames {
		for _, line := range list(name) {
			all[line] = k
		}
	}
	return all
}

// list returns the entries of one file in their order.
func list(name string) []string {
	text, err := files.ReadFile("hosts/" + name + ".txt")
	if err != nil {
		// the files are part of the program
		panic(err)
	}

	var entries []string
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimSpace(line); line != "" && line[0] != '#' {
			entries = append(entries, line)
		}
	}

	return entries
}

// longestHost is DNS's limit, with the trailing dot.
const longestHost = 254

// kindOfHost looks up the host, then the domains above it, one label at a time: the nearest listed
// one decides. It stops before the last label, because that may read like a name of ours
// (blog.google, dns.line).
func kindOfHost(host string) kind {
	if len(host) > longestHost {
		// what is no host could hold thousands of labels
		return unlisted
	}

	for host = strings.TrimSuffix(host, "."); ; {
		dot := strings.IndexByte(host, '.')
		if dot < 0 {
			return unlisted
		}
		if k, ok := sites[host]; ok {
			return k
		}

		host = host[dot+1:]
	}
}

// kindOfSource looks up a campaign's source: a bare name, or a host.
func kindOfSource(source string) kind {
	if strings.IndexByte(source, '.') < 0 {
		return sites[source]
	}
	return kindOfHost(source)
}
