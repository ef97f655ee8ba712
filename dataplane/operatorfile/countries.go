package operatorfile

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/oschwald/maxminddb-golang/v2"

	"github.com/tallygate/tallygate/db/model"
)

// Countries finds the countries of addresses in a database in MaxMind's format. It is safe for
// concurrent use.
type Countries struct {
	reader *maxminddb.Reader

	// byRecord holds the code of each record by its offset, so that a lookup decodes nothing.
	byRecord map[uintptr]string
}

// OpenCountries opens a database of countries. Other databases in the same format, such as one of
// networks' owners, are refused.
func OpenCountries(s Source) (*File[*Countries], error) { return open(s, parseCountries) }

// Country returns the ISO code of an address's country, else of the country in which its network is
// registered; empty if the database has none. model.IsCountry accepts every code.
func (c *Countries) Country(addr netip.Addr) string {
	if !addr.IsValid() {
		return ""
	}

	record := c.reader.Lookup(addr.Unmap())
	if !record.Found() {
		return ""
	}
	return c.byRecord[record.Offset()]
}

// countryRecord is what Countries reads of a record.
type countryRecord struct {
	Country    isoCode `maxminddb:"country"`
	Registered isoCode `maxminddb:"registered_country"`
}

type isoCode struct {
	Code string `maxminddb:"iso_code"`
}

// parseCountries opens a database and reads all records that lookups can find, so that no damage is
// found later.
func parseCountries(data []byte) (*Countries, time.Time, error) {
	reader, err := maxminddb.OpenBytes(data)
	if err != nil {
		return nil, time.Time{}, fmt.Errorf("not a database in MaxMind's format (.mmdb), or a truncated one: %w", err)
	}

	c := &Countries{reader: reader, byRecord: make(map[uintptr]string)}
	known := false

	// A search tree has one network more than nodes. A damaged one can have loops, and so nearly
	// endless networks, also without data.
	left := reader.Metadata.NodeCount + 1
	for network := range reader.Networks(maxminddb.IncludeNetworksWithoutData()) {
		if err := network.Err(); err != nil {
			return nil, time.Time{}, fmt.Errorf("the database is damaged: %w", err)
		}
		if left == 0 {
			return nil, time.Time{}, errors.New("the database is damaged: its search tree has loops")
		}
		left--

		if !network.Found() {
			continue
		}
		offset := network.Offset()
		if _, read := c.byRecord[offset]; read {
			continue
		}

		var record countryRecord
		err := network.Decode(&record)
		if _, isForeign := errors.AsType[maxminddb.UnmarshalTypeError](err); err != nil && !isForeign {
			return nil, time.Time{}, fmt.Errorf("the database is damaged: %w", err)
		}

		code := record.code()
		c.byRecord[offset] = code
		known = known || code != ""
	}

	if !known {
		return nil, time.Time{}, fmt.Errorf("a database of the type %q without countries (country.iso_code); take a country edition, "+
			"such as DB-IP Lite Country or GeoLite2 Country", reader.Metadata.DatabaseType)
	}
	return c, buildTime(reader.Metadata), nil
}

// code returns the country of a record; empty without one that model knows.
func (r *countryRecord) code() string {
	code := r.Country.Code
	if code == "" {
		code = r.Registered.Code
	}

	// The string of the list is shared by all records.
	if i, found := slices.BinarySearch(model.Countries, code); found {
		return model.Countries[i]
	}
	return ""
}

// buildTime returns when a database was built; zero if it does not say.
func buildTime(metadata maxminddb.Metadata) time.Time {
	if metadata.BuildEpoch == 0 {
		return time.Time{}
	}
	return metadata.BuildTime()
}
