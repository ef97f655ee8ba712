package model_test

import (
	"testing"

	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/tools/testkit"
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
		testkit.Equal(t, test.of.HasDimension(test.by), test.want, "%v of %v", test.by, test.of.Dimensions)
	}
}
