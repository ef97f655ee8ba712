package model

import "testing"

// TestImportDimensions checks which dimensions an import has: visits have all, and daily sums with sources have groups
// of sources.
func TestImportDimensions(t *testing.T) {
	sums := ReportImport{Dimensions: []string{string(DimensionSource), string(DimensionCountry)}}
	bare := ReportImport{Dimensions: []string{string(DimensionChannel)}}
	visits := ReportImport{VisitRows: true}
	for _, test := range []struct {
		of   *ReportImport
		by   ReportDimension
		want bool
	}{
		{&sums, DimensionSource, true}, {&sums, DimensionSourceGroup, true}, {&sums, DimensionCountry, true},
		{&sums, DimensionBrowser, false}, {&sums, DimensionHostname, false},
		{&bare, DimensionSourceGroup, false}, {&bare, DimensionChannel, true},
		{&visits, DimensionBrowser, true}, {&visits, DimensionSourceGroup, true},
	} {
		if got := test.of.HasDimension(test.by); got != test.want {
			t.Errorf("%v of %v: %v", test.by, test.of.Dimensions, got)
		}
	}
}
