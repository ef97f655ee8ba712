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

// Limits of the size of a group of visitors that is shown by itself. A group of MaxSmallGroup or
// more visitors is always shown.
const (
	DefaultSmallGroup = 3
	MaxSmallGroup     = 100
)

// personal are the dimensions that say something about the visitor. Rows of few visitors are one
// row in them: see Site.SmallGroup.
var personal = []ReportDimension{
	DimensionCountry, DimensionBrowser, DimensionSystem, DimensionDevice, DimensionLanguage, DimensionScreenWidth,
}

// IsPersonal reports whether the dimension says something about the visitor, not about the page or
// the way to it. Small groups are hidden in these dimensions alone.
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

// ParseExcludedPaths checks patterns of paths, see ExcludedPaths, and returns them sorted.
func ParseExcludedPaths(field string, paths List[string]) (List[string], error) {
	parsed := List[string]{}
	var wrong []error
	for i, path := range paths {
		path = strings.TrimSpace(path)
		isPath := strings.HasPrefix(path, "/") || strings.HasPrefix(path, "*")
		if !isPath || !IsStorable(path) || strings.ContainsAny(path, "\r\n?#") || len(sentPath(path)) > MaxExcludedPath {
			wrong = append(wrong, InvalidItem(field, i, "invalid_path", fmt.Sprintf(
				"Enter the path of a page such as /admin/**, of at most %d characters as browsers send it, without host and query.",
				MaxExcludedPath)))
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
	if cost := patternCost(sentPaths(parsed)...); cost.wildcards > MaxReportWildcards || cost.characters > MaxReportSearch {
		return nil, InvalidField(field, "invalid_path", fmt.Sprintf(
			"The patterns of a site's excluded paths have at most %d wildcards together, and those with several wildcards at most "+
				"%d characters.", MaxReportWildcards, MaxReportSearch))
	}
	return parsed, nil
}

// ExcludedPaths returns the function that reports whether a path matches one of the patterns, see
// PatternMatcher. Browsers send /über as /%C3%BCber, and owners may write either.
func ExcludedPaths(patterns List[string]) func(path string) bool {
	match := PatternMatcher(sentPaths(patterns)...)
	return func(path string) bool { return match(sentPath(path)) }
}

func sentPaths(patterns []string) []string {
	sent := make([]string, len(patterns))
	for i, pattern := range patterns {
		sent[i] = sentPath(pattern)
	}
	return sent
}

// sentPath returns a path as browsers send it: spaces, quotes and characters beyond ASCII are
// percent-encoded (WHATWG URL, path percent-encode set). Escapes beyond ASCII get capital letters,
// so that excluded paths are compared without regard to their case. It allocates for such paths
// alone.
func sentPath(path string) string {
	if strings.Contains(path, "%") {
		path = escapes.ReplaceAllStringFunc(path, strings.ToUpper)
	}

	isPlain := func(c byte) bool { return c > ' ' && c < 0x7f && !strings.ContainsRune("\"<>`{}", rune(c)) }
	i := 0
	for i < len(path) && isPlain(path[i]) {
		i++
	}
	if i == len(path) {
		return path
	}

	sent := []byte(path[:i])
	for ; i < len(path); i++ {
		if c := path[i]; isPlain(c) {
			sent = append(sent, c)
		} else {
			sent = fmt.Appendf(sent, "%%%02X", c)
		}
	}
	return string(sent)
}

// ParseSmallGroup checks from how many visitors on a group is shown by itself.
func ParseSmallGroup(field string, visitors int) (int, error) {
	if visitors < 1 || visitors > MaxSmallGroup {
		return 0, InvalidField(field, "invalid_small_group", fmt.Sprintf("Use a number from 1 to %d.", MaxSmallGroup))
	}
	return visitors, nil
}
