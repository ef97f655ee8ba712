package channel

import (
	"embed"
	"strings"
)

// kind is the type of site that a host or a source name belongs to.
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

// files holds the lists. A line is a host, which matches itself and its subdomains, or a bare name
// that campaigns use as their source. # starts a comment.
//
//go:embed hosts/*.txt
var files embed.FS

// listNames are the names of the files by the kind of their sites.
var listNames = map[kind]string{
	search: "search", social: "social", video: "video", mail: "mail", ads: "ads", affiliates: "affiliates",
	referral: "referral",
}

// sites holds the entries of all lists with their kind.
var sites = load()

// load returns all entries with their kind.
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
		// The files are embedded.
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

// maxHost is the length limit of DNS, including the trailing dot.
const maxHost = 254

// kindOfHost returns the kind of a host: that of the host itself, or of the nearest parent domain
// that is listed. It does not look up the last label, which may equal a bare name (blog.google,
// dns.line).
func kindOfHost(host string) kind {
	// A longer text is not a host, and could have thousands of labels.
	if len(host) > maxHost {
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

// kindOfSource returns the kind of a campaign's source, which is a bare name or a host.
func kindOfSource(source string) kind {
	if strings.IndexByte(source, '.') < 0 {
		return sites[source]
	}
	return kindOfHost(source)
}
