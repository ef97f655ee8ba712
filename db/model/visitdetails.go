package model

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Shield leaves out hits by a list that the operator of the installation keeps.
type Shield string

// The shields. A new site has none.
const (
	ShieldReferrerSpam Shield = "REFERRER_SPAM" // hits of pages that advertise themselves as referrers
	ShieldDataCentres  Shield = "DATA_CENTRES"  // hits from networks of data centres
)

// Shields lists every shield.
var Shields = []Shield{ShieldReferrerSpam, ShieldDataCentres}

// Limits of the size of a group of visitors that is shown by itself. A group of MaxSmallGroup or more
// visitors is always shown.
const (
	DefaultSmallGroup = 3
	MaxSmallGroup     = 100
)

// personal are the dimensions that say something about the visitor. Rows of few visitors are one row
// in them: see Site.SmallGroup.
var personal = []ReportDimension{
	DimensionCountry, DimensionBrowser, DimensionSystem, DimensionDevice, DimensionLanguage, DimensionScreenWidth,
}

// IsPersonal reports whether the dimension says something about the visitor, not about the page or the
// way to it. Small groups are hidden in these dimensions alone.
func (d ReportDimension) IsPersonal() bool { return slices.Contains(personal, d) }

// ParseVisitDetails checks a list of details and returns it in the order of VisitDetails.
func ParseVisitDetails(field string, details List[VisitDetail]) (List[VisitDetail], error) {
	return parseChoices(field, "invalid_visit_detail", details, VisitDetails)
}

// ParseShields checks a list of shields and returns it in the order of Shields.
func ParseShields(field string, shields List[Shield]) (List[Shield], error) {
	return parseChoices(field, "invalid_shield", shields, Shields)
}

// parseChoices returns the chosen values in the order of all.
func parseChoices[T ~string](field, code string, chosen List[T], all []T) (List[T], error) {
	var wrong []error
	for i, value := range chosen {
		if !slices.Contains(all, value) {
			wrong = append(wrong, InvalidItem(field, i, code, fmt.Sprintf("Choose from %s.", joined(all))))
		}
	}
	if len(wrong) > 0 {
		return nil, errors.Join(wrong[:min(len(wrong), MaxListErrors)]...)
	}

	parsed := List[T]{}
	for _, value := range all {
		if slices.Contains(chosen, value) {
			parsed = append(parsed, value)
		}
	}
	return parsed, nil
}

func joined[T ~string](all []T) string {
	texts := make([]string, len(all))
	for i, value := range all {
		texts[i] = string(value)
	}
	return strings.Join(texts, ", ")
}

// ParseCountries checks codes of countries, and returns them in capital letters and sorted.
func ParseCountries(field string, codes List[string]) (List[string], error) {
	parsed := List[string]{}
	var wrong []error
	for i, code := range codes {
		code = strings.ToUpper(strings.TrimSpace(code))
		if !IsCountry(code) {
			wrong = append(wrong, InvalidItem(field, i, "invalid_country",
				"Enter the two letters of a country by ISO 3166-1, such as DE."))
		}
		parsed = append(parsed, code)
	}
	if len(wrong) > 0 {
		return nil, errors.Join(wrong[:min(len(wrong), MaxListErrors)]...)
	}

	slices.Sort(parsed)
	return slices.Compact(parsed), nil
}

// ParseExcludedPaths checks patterns of paths, see PatternMatcher, and returns them sorted.
func ParseExcludedPaths(field string, paths List[string]) (List[string], error) {
	parsed := List[string]{}
	var wrong []error
	for i, path := range paths {
		path = strings.TrimSpace(path)
		isPath := strings.HasPrefix(path, "/") || strings.HasPrefix(path, "*")
		if !isPath || !IsReportText(path) || strings.ContainsAny(path, "\r\n?#") {
			wrong = append(wrong, InvalidItem(field, i, "invalid_path",
				fmt.Sprintf("Enter the path of a page such as /admin/**, of at most %d characters, without host and query.",
					MaxFilterText)))
		}
		parsed = append(parsed, path)
	}
	if len(wrong) > 0 {
		return nil, errors.Join(wrong[:min(len(wrong), MaxListErrors)]...)
	}

	slices.Sort(parsed)
	parsed = slices.Compact(parsed)
	if len(parsed) > MaxExcludedPaths {
		return nil, &Error{
			Kind: Conflict, Code: "too_many_paths", Field: field,
			Message: fmt.Sprintf("A site has at most %d excluded paths.", MaxExcludedPaths),
		}
	}
	filter := ReportFilter{Dimension: DimensionPage, Operator: OperatorMatches, Values: parsed}
	return parsed, CheckReportSearch(field, "invalid_path", []ReportFilter{filter}, nil)
}

// ParseSmallGroup checks from how many visitors on a group is shown by itself.
func ParseSmallGroup(field string, visitors int) (int, error) {
	if visitors < 1 || visitors > MaxSmallGroup {
		return 0, InvalidField(field, "invalid_small_group", fmt.Sprintf("Use a number from 1 to %d.", MaxSmallGroup))
	}
	return visitors, nil
}
