package model_test

import (
	"testing"

	"github.com/tallygate/tallygate/db/model"
)

// TestImportDimensions checks which dimensions an import has: visits have all, and daily sums with
// sources have groups and names of sources.
func TestImportDimensions(t *testing.T) {
	sums := model.ReportImport{Dimensions: []string{string(model.DimensionSource), string(model.DimensionCountry)}}
	bare := model.ReportImport{Dimensions: []string{string(model.DimensionChannel)}}
	visits := model.ReportImport{VisitRows: true}
	for _, test := range []struct {
		of   *model.ReportImport
		by   model.ReportDimension
		want bool
	}{
		{&sums, model.DimensionSource, true}, {&sums, model.DimensionSourceGroup, true}, {&sums, model.DimensionCountry, true},
		{&sums, model.DimensionBrowser, false}, {&sums, model.DimensionHostname, false},
		{&sums, model.DimensionSourceName, true}, {&bare, model.DimensionSourceName, false}, {&visits, model.DimensionSourceName, true},
		{&bare, model.DimensionSourceGroup, false}, {&bare, model.DimensionChannel, true},
		{&visits, model.DimensionBrowser, true}, {&visits, model.DimensionSourceGroup, true},
	} {
		if got := test.of.HasDimension(test.by); got != test.want {
			t.Errorf("%v of %v: %v", test.by, test.of.Dimensions, got)
		}
	}
}
