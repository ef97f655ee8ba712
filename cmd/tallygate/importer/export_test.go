package importer

import "testing"

// SetMaxBytes sets the limit of all files for a test.
func SetMaxBytes(t *testing.T, n int64) {
	before := maxBytes
	maxBytes = n
	t.Cleanup(func() { maxBytes = before })
}
