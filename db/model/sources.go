package model

import (
	"embed"
	"strings"
)

// SourceKind is the type of site that a host or a source name belongs to.
type SourceKind uint8

// The kinds. Hosts of the last three kinds may belong to another kind as far as channels are
// concerned, because the contract's channels know no such kinds: see KindOfHost and GroupOfSource.
const (
	SourceUnlisted SourceKind = iota
	SourceSearch
	SourceSocial
	SourceVideo
	SourceMail
	SourceAds
	SourceAffiliates
	SourceReferral // below a listed host, but not of its kind
	SourceAssistants
	SourceShopping
	SourceNews
)

// sourceFiles holds the lists. A line is a host, which matches itself and its subdomains, or a bare
// name that campaigns use as their source. # starts a comment. For names.txt, see loadSourceNames.
//
//go:embed sources/*.txt
var sourceFiles embed.FS

// sourceLists are the names of the files by the kind of their sites.
var sourceLists = map[SourceKind]string{
	SourceSearch: "search", SourceSocial: "social", SourceVideo: "video", SourceMail: "mail", SourceAds: "ads",
	SourceAffiliates: "affiliates", SourceReferral: "referral",
	SourceAssistants: "assistants", SourceShopping: "shopping", SourceNews: "news",
}

// channelSites holds the entries of the lists of channels with their kind, and groupSites the
// entries of the other lists.
var channelSites, groupSites = loadSources()

func loadSources() (channels, groups map[string]SourceKind) {
	channels, groups = make(map[string]SourceKind, 4096), make(map[string]SourceKind, 1024)
	for k, name := range sourceLists {
		to := channels
		if k >= SourceAssistants {
			to = groups
		}
		for _, line := range sourceList(name) {
			to[line] = k
		}
	}
	return channels, groups
}

// sourceList returns the entries of one file in their order.
func sourceList(name string) []string {
	text, err := sourceFiles.ReadFile("sources/" + name + ".txt")
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

// KindOfHost returns the kind of a host for channels: the kind of the host itself, or of the
// nearest parent domain that is listed. It is safe for concurrent use, as the other functions are.
func KindOfHost(host string) SourceKind { return kindIn(channelSites, host) }

// KindOfSource returns the kind of a campaign's source for channels. A source is a bare name or a
// host.
func KindOfSource(source string) SourceKind { return kindOfSource(channelSites, source) }

// kindIn returns the kind of a host by a list. It does not look up the last label, which may equal
// a bare name (blog.google, dns.line).
func kindIn(list map[string]SourceKind, host string) SourceKind {
	// A longer text is not a host, and could have thousands of labels.
	if len(host) > maxHost {
		return SourceUnlisted
	}

	for host = strings.TrimSuffix(host, "."); ; {
		dot := strings.IndexByte(host, '.')
		if dot < 0 {
			return SourceUnlisted
		}
		if k, ok := list[host]; ok {
			return k
		}

		host = host[dot+1:]
	}
}

func kindOfSource(list map[string]SourceKind, source string) SourceKind {
	if strings.IndexByte(source, '.') < 0 {
		return list[source]
	}
	return kindIn(list, source)
}

// SourceGroup is a group of sources in reports. Groups stand next to the contract's thirteen
// channels, and ignore how the visit was paid for.
type SourceGroup string

// The groups. A visit without a source has none.
const (
	GroupSearch     SourceGroup = "search"
	GroupSocial     SourceGroup = "social"
	GroupVideo      SourceGroup = "video"
	GroupAssistants SourceGroup = "ai assistants"
	GroupShopping   SourceGroup = "shopping"
	GroupNews       SourceGroup = "news"
	GroupMail       SourceGroup = "email"
	GroupAds        SourceGroup = "advertising"
	GroupOther      SourceGroup = "other"
)

var sourceGroups = [...]SourceGroup{
	SourceUnlisted: GroupOther, SourceSearch: GroupSearch, SourceSocial: GroupSocial, SourceVideo: GroupVideo,
	SourceMail: GroupMail, SourceAds: GroupAds, SourceAffiliates: GroupAds, SourceReferral: GroupOther,
	SourceAssistants: GroupAssistants, SourceShopping: GroupShopping, SourceNews: GroupNews,
}

// GroupOfSource returns the group of a source of reports: utm_source or, without one, the referring
// host. An empty source has no group.
func GroupOfSource(source string) SourceGroup {
	if source == "" {
		return ""
	}
	source = strings.ToLower(strings.TrimSpace(source))

	kind := kindOfSource(groupSites, source)
	if kind == SourceUnlisted {
		kind = KindOfSource(source)
	}
	if kind == SourceUnlisted && (source == "email" || source == "e-mail") {
		kind = SourceMail
	}
	return sourceGroups[kind]
}
