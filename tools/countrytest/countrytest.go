// Package countrytest builds databases of addresses in MaxMind's format for tests.
package countrytest

import (
	"bytes"
	"net"
	"testing"
	"time"

	"github.com/maxmind/mmdbwriter"
	"github.com/maxmind/mmdbwriter/mmdbtype"

	"github.com/tallygate/tallygate/tools/testkit"
)

// Countries returns a database that maps networks to ISO codes of countries.
func Countries(tb testing.TB, built time.Time, countries map[string]string) []byte {
	tb.Helper()

	records := make(map[string]mmdbtype.Map)
	for network, code := range countries {
		records[network] = mmdbtype.Map{"country": mmdbtype.Map{
			"iso_code": mmdbtype.String(code),
			"names":    mmdbtype.Map{"en": mmdbtype.String("Name of " + code)},
		}}
	}
	return Database(tb, "DBIP-Country-Lite", built, records)
}

// Owners returns a database of the owners of networks, as a GeoLite2-ASN.mmdb is one.
func Owners(tb testing.TB, built time.Time) []byte {
	tb.Helper()
	return Database(tb, "GeoLite2-ASN", built, map[string]mmdbtype.Map{"192.0.3.0/24": {
		"autonomous_system_number":       mmdbtype.Uint32(64500),
		"autonomous_system_organization": mmdbtype.String("Example"),
	}})
}

// Database returns a database of records by network.
func Database(tb testing.TB, databaseType string, built time.Time, records map[string]mmdbtype.Map) []byte {
	tb.Helper()

	tree, err := mmdbwriter.New(mmdbwriter.Options{
		BuildEpoch: built.Unix(), DatabaseType: databaseType, RecordSize: 24, IncludeReservedNetworks: true,
	})
	testkit.NoError(tb, err)

	for network, record := range records {
		_, parsed, err := net.ParseCIDR(network)
		testkit.NoError(tb, err)
		testkit.NoError(tb, tree.Insert(parsed, record))
	}

	var file bytes.Buffer
	if _, err := tree.WriteTo(&file); err != nil {
		tb.Fatal(err)
	}
	return file.Bytes()
}
