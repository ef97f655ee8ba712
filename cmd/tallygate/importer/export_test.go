package importer

import "testing"

// SetMaxBytes sets the limit of all files for a test.
func SetMaxBytes(t *testing.T, n int64) {
	before := maxBytes
	maxBytes = n
	t.Cleanup(func() { maxBytes = before })
}

// The names of other services for the values of browsers.
var (
	BrowserOf  = browserOf
	SystemOf   = systemOf
	DeviceOf   = deviceOf
	CountryOf  = countryOf
	HostOf     = hostOf
	CountryKey = countryKey

	CountryFile = countryFile
)

// The forms of pages, events and referrers of other services.
var (
	PathOf    = pathOf
	EventName = eventName
	Address   = address
	SourceOf  = sourceOf
	Bounded   = bounded
)

// NewArchive opens an archive within the limits of its directory.
var NewArchive = newArchive
