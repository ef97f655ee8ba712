package operatorfile

import (
	"bytes"
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/gaissmai/bart"

	"github.com/tallygate/tallygate/db/model"
)

// maxEntries is the number of entries that a list can have.
const maxEntries = 200_000

// Domains is a set of domains with their subdomains. It is safe for concurrent use.
type Domains struct{ set map[string]bool } // by domain: whether its subdomains belong to it

// OpenDomains opens a list of domains, one a line.
func OpenDomains(s Source) (*File[*Domains], error) { return open(s, parseDomains) }

// Contains reports whether a host is one of the domains or below one. The host must be normalised,
// see model.OriginHost.
func (d *Domains) Contains(host string) bool {
	if _, found := d.set[host]; found {
		return true
	}
	for {
		_, parent, ok := strings.Cut(host, ".")
		if !ok || d.set[parent] {
			return ok
		}
		host = parent
	}
}

func parseDomains(data []byte) (*Domains, time.Time, error) {
	d := &Domains{set: make(map[string]bool)}
	err := eachEntry(data, func(entry string) error {
		host, err := model.ParseDomain(entry, false)
		if err != nil {
			return errors.New("is not a domain such as example.com")
		}

		// Public lists have suffixes such as kharkov.ua, under which others register domains. Sites
		// below one have other owners.
		_, shared := model.ParseNewSiteDomain(entry, false)
		d.set[host] = shared == nil
		return nil
	})
	return d, time.Time{}, err
}

// Networks is a set of networks. It is safe for concurrent use.
type Networks struct{ table bart.Lite }

// OpenNetworks opens a list of networks and addresses, one a line.
func OpenNetworks(s Source) (*File[*Networks], error) { return open(s, parseNetworks) }

// Contains reports whether an address is in one of the networks. An IPv4-mapped address counts as
// IPv4.
func (n *Networks) Contains(addr netip.Addr) bool {
	return n.table.Contains(addr.Unmap().WithZone(""))
}

func parseNetworks(data []byte) (*Networks, time.Time, error) {
	n := &Networks{}
	err := eachEntry(data, func(entry string) error {
		network := model.ParseNetwork(entry)
		switch {
		case !network.IsValid():
			return errors.New("is not an address or a network such as 192.0.2.0/24")
		case network.Bits() == 0:
			return errors.New("is the network of all addresses")
		}

		n.table.Insert(network.Masked())
		return nil
	})
	return n, time.Time{}, err
}

// byteOrderMark is what some editors write at the beginning of a text.
var byteOrderMark = []byte("\uFEFF")

// eachEntry calls add with each line of a list, without spaces and without a comment, which begins
// with "#". It returns the first error with the number of its line. A list without entries is an
// error: it is more likely truncated than meant.
func eachEntry(data []byte, add func(entry string) error) error {
	entries, line := 0, 0
	for raw := range bytes.Lines(bytes.TrimPrefix(data, byteOrderMark)) {
		line++

		text, _, _ := bytes.Cut(raw, []byte("#"))
		entry := string(bytes.TrimSpace(text))
		if entry == "" {
			continue
		}

		if entries++; entries > maxEntries {
			return fmt.Errorf("line %d: more than %d entries", line, maxEntries)
		}
		if err := add(entry); err != nil {
			return fmt.Errorf("line %d: %s %w", line, quoted(entry), err)
		}
	}

	if entries == 0 {
		return errors.New("the list has no entries")
	}
	return nil
}

// quoted returns the beginning of an entry in quotes.
func quoted(entry string) string {
	const most = 80
	if len(entry) > most {
		entry = entry[:most] + "…"
	}
	return strconv.Quote(entry)
}
