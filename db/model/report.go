package model

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"
	"unicode/utf8"
)

// ReportView is the period and the comparison that a user has last chosen for the report of a site.
// Dates are never stored.
type ReportView struct {
	SiteID         SiteID `bun:",pk"`
	UserID         UserID `bun:",pk"`
	Preset         string `bun:",notnull"` // of package period
	Compare        string `bun:",notnull"` // kind of the comparison; empty: none
	MatchDayOfWeek bool   `bun:",notnull"`
}

// ReportDimension is what reports break visits, page views and events down by, and filter by.
type ReportDimension string

// The dimensions.
const (
	DimensionPage        ReportDimension = "PAGE"
	DimensionEntryPage   ReportDimension = "ENTRY_PAGE"
	DimensionExitPage    ReportDimension = "EXIT_PAGE"
	DimensionChannel     ReportDimension = "CHANNEL"
	DimensionSource      ReportDimension = "SOURCE"
	DimensionReferrer    ReportDimension = "REFERRER"
	DimensionUTMSource   ReportDimension = "UTM_SOURCE"
	DimensionUTMMedium   ReportDimension = "UTM_MEDIUM"
	DimensionUTMCampaign ReportDimension = "UTM_CAMPAIGN"
	DimensionUTMContent  ReportDimension = "UTM_CONTENT"
	DimensionUTMTerm     ReportDimension = "UTM_TERM"
	DimensionAdPlatform  ReportDimension = "AD_PLATFORM"
	DimensionLanguage    ReportDimension = "LANGUAGE"
	DimensionScreenWidth ReportDimension = "SCREEN_WIDTH"
	DimensionCountry     ReportDimension = "COUNTRY"
	DimensionBrowser     ReportDimension = "BROWSER"
	DimensionSystem      ReportDimension = "SYSTEM"
	DimensionDevice      ReportDimension = "DEVICE"
	DimensionHostname    ReportDimension = "HOSTNAME"
	DimensionSourceGroup ReportDimension = "SOURCE_GROUP"
	DimensionSourceName  ReportDimension = "SOURCE_NAME"
	DimensionEvent       ReportDimension = "EVENT"
	DimensionProperty    ReportDimension = "PROPERTY" // of ReportFilter.Property
	DimensionDayOfWeek   ReportDimension = "DAY_OF_WEEK"
	DimensionHourOfDay   ReportDimension = "HOUR_OF_DAY"
)

// ReportDimensions lists every dimension.
var ReportDimensions = []ReportDimension{
	DimensionPage, DimensionEntryPage, DimensionExitPage, DimensionChannel, DimensionSource, DimensionReferrer,
	DimensionUTMSource, DimensionUTMMedium, DimensionUTMCampaign, DimensionUTMContent, DimensionUTMTerm,
	DimensionAdPlatform, DimensionLanguage, DimensionScreenWidth, DimensionCountry, DimensionBrowser, DimensionSystem,
	DimensionDevice, DimensionHostname, DimensionSourceGroup, DimensionSourceName, DimensionEvent,
	DimensionProperty, DimensionDayOfWeek, DimensionHourOfDay,
}

// ReportOperator is how a filter compares a value with its own.
type ReportOperator string

// The operators. Negative operators drop the visits that positive operators keep.
const (
	OperatorIs          ReportOperator = "IS"
	OperatorIsNot       ReportOperator = "IS_NOT"
	OperatorContains    ReportOperator = "CONTAINS"
	OperatorContainsNot ReportOperator = "CONTAINS_NOT"
	OperatorMatches     ReportOperator = "MATCHES"
	OperatorMatchesNot  ReportOperator = "MATCHES_NOT"
)

// ReportOperators lists every operator.
var ReportOperators = []ReportOperator{
	OperatorIs, OperatorIsNot, OperatorContains, OperatorContainsNot, OperatorMatches, OperatorMatchesNot,
}

// IsNegative reports whether the operator drops the visits that match.
func (o ReportOperator) IsNegative() bool {
	return o == OperatorIsNot || o == OperatorContainsNot || o == OperatorMatchesNot
}

// isSearch reports whether the operator compares with a part or a pattern of values.
func (o ReportOperator) isSearch() bool { return o != OperatorIs && o != OperatorIsNot }

// Limits of filters and funnels. The contract does not limit them.
const (
	MaxReportFilters = 10
	MaxFilterValues  = 50
	MaxFilterText    = 2_048 // characters of a value or of the name of a property
	MinFunnelSteps   = 2
	MaxFunnelSteps   = 8
	MaxStepLabel     = 100 // characters

	// All filters and funnels of a report together, see CheckReportSearch.
	MaxReportWildcards = 100   // runs of asterisks in patterns
	MaxReportSearch    = 1_024 // characters of all searched texts
	reportSearchUnit   = 64    // characters; the searched text of each filter and each step is rounded up to it
)

// ReportFilter keeps or drops whole visits. DimensionPage, DimensionEvent and DimensionProperty
// keep a visit in which such a page view or event happened. The JSON form is stored.
type ReportFilter struct {
	Dimension ReportDimension `json:"dimension"`
	Operator  ReportOperator  `json:"operator"`
	Values    []string        `json:"values"` // any of these must match; the empty text matches "no value"

	// Property is the name of the property of DimensionProperty, and Event the name of the events
	// that it is of; empty for all events.
	Property string `json:"property,omitempty"`
	Event    string `json:"event,omitempty"`
}

// CheckReportFilters checks filters by the rules of the schema. It reports up to MaxListErrors
// wrong filters, with the code invalid_filter and their index in the field. If all are right, it
// checks them together with CheckReportSearch.
func CheckReportFilters(field string, filters []ReportFilter) error {
	if len(filters) > MaxReportFilters {
		return InvalidField(field, "invalid_filter", fmt.Sprintf("Use at most %d filters.", MaxReportFilters))
	}

	var wrong []error
	for i := range filters {
		if problem := filters[i].problem(); problem != "" {
			wrong = append(wrong, InvalidItem(field, i, "invalid_filter", problem))
		}
	}
	if len(wrong) > 0 {
		return errors.Join(wrong...)
	}

	return CheckReportSearch(field, "invalid_filter", filters, nil)
}

// CheckReportSearch checks the cost of all filters and funnels of a report together: a report
// compares each distinct text of a site with all of them. Pages without an asterisk and values of
// IS cost nothing here, patterns with one wildcard count as a wildcard, and CONTAINS and patterns
// with several wildcards count with their characters. Filters and steps must be valid on their own.
// A list that was stored before these limits can exceed them.
func CheckReportSearch(field, code string, filters []ReportFilter, steps []FunnelStep) error {
	var cost searchCost
	for i := range filters {
		cost.add(filters[i].searchCost())
	}
	for i := range steps {
		cost.add(patternCost(steps[i].Page))
	}

	switch {
	case cost.wildcards > MaxReportWildcards:
		return InvalidField(field, code, fmt.Sprintf(
			"The patterns of a report's filters and funnels have at most %d wildcards together.", MaxReportWildcards))
	case cost.characters > MaxReportSearch:
		return InvalidField(field, code, fmt.Sprintf(
			"The values of CONTAINS and the patterns with several wildcards of a report's filters and funnels have at most "+
				"%d characters together. Each filter and each page counts in steps of %d.", MaxReportSearch, reportSearchUnit))
	}
	return nil
}

// searchCost is what filters and steps cost a report for each text.
type searchCost struct {
	wildcards  int
	characters int // 64 of them are a word of search
}

// add adds the cost of a filter or step, which has a search of its own.
func (c *searchCost) add(one searchCost) {
	c.wildcards += one.wildcards
	c.characters += (one.characters + reportSearchUnit - 1) / reportSearchUnit * reportSearchUnit
}

func (f *ReportFilter) searchCost() searchCost {
	switch f.Operator {
	case OperatorContains, OperatorContainsNot:
		var cost searchCost
		for _, value := range f.Values {
			cost.characters += utf8.RuneCountInString(value) + 1
		}
		return cost
	case OperatorMatches, OperatorMatchesNot:
		return patternCost(f.Values...)
	}
	return searchCost{}
}

// patternCost returns the cost of PatternMatcher, before it is rounded.
func patternCost(patterns ...string) (cost searchCost) {
	for _, pattern := range patterns {
		s := sequenceOf(pattern)
		wildcards := s.wildcards()
		cost.wildcards += wildcards
		if wildcards > 1 {
			cost.characters += s.weight()
		}
	}
	return cost
}

// problem describes the filter's first fault in a sentence. It returns "" for a valid filter.
func (f *ReportFilter) problem() string {
	switch {
	case !slices.Contains(ReportDimensions, f.Dimension):
		return "There is no such dimension."
	case !slices.Contains(ReportOperators, f.Operator):
		return "There is no such operator."
	case f.Dimension == DimensionProperty && f.Property == "":
		return "A filter by PROPERTY needs the name of the property."
	case f.Dimension != DimensionProperty && (f.Property != "" || f.Event != ""):
		return "Only a filter by PROPERTY takes property and event."
	case !IsReportText(f.Property):
		return fmt.Sprintf("The name of a property has at most %d characters and no NUL.", MaxFilterText)
	case f.Event != "" && !IsEventName(f.Event):
		return "The event is not a name of 1 to 48 lower-case letters, digits, underscores and hyphens."
	case len(f.Values) == 0 || len(f.Values) > MaxFilterValues:
		return fmt.Sprintf("A filter has 1 to %d values.", MaxFilterValues)
	}

	for _, value := range f.Values {
		if !IsReportText(value) {
			return fmt.Sprintf("A value has at most %d characters and no NUL.", MaxFilterText)
		}
		if value == "" && f.Operator != OperatorIs && f.Operator != OperatorIsNot {
			return "Only IS and IS_NOT take an empty value."
		}
		if f.Dimension == DimensionCountry && value != "" && !f.Operator.isSearch() && !IsCountry(value) {
			return fmt.Sprintf("%q is not the code of a country by ISO 3166-1, such as DE.", value)
		}
	}

	return ""
}

// IsReportText reports whether both databases store the text, and whether it is short enough.
func IsReportText(s string) bool { return IsStorable(s) && cut(s, MaxFilterText) == s }

// Matcher returns the function that reports whether a value is one of the filter's, with the
// operator's negation left out: see ReportOperator.IsNegative. The filter must have passed
// CheckReportFilters. A call allocates only for a text with letters to decode, see containsMatcher;
// PatternMatcher has its cost.
func (f *ReportFilter) Matcher() func(value string) bool {
	switch f.Operator {
	case OperatorContains, OperatorContainsNot:
		return containsMatcher(f.Values)
	case OperatorMatches, OperatorMatchesNot:
		return PatternMatcher(f.Values...)
	}

	wanted := make(map[string]bool, len(f.Values))
	for _, value := range f.Values {
		wanted[value] = true
	}

	return func(value string) bool { return wanted[value] }
}

// FunnelStep is a page view or an event. The JSON form is stored.
type FunnelStep struct {
	Page  string `json:"page,omitempty"`  // a pattern, see PatternMatcher; empty for an event
	Event string `json:"event,omitempty"` // name; empty for a page
	Label string `json:"label,omitempty"` // for display; empty: the page or event
}

// CheckFunnelSteps checks the steps of a funnel by the rules of the schema, and reports every wrong
// one with the code invalid_step and its index in the field. If all are right, it checks them
// together with CheckReportSearch.
func CheckFunnelSteps(field string, steps []FunnelStep) error {
	if len(steps) < MinFunnelSteps || len(steps) > MaxFunnelSteps {
		return InvalidField(field, "invalid_step",
			fmt.Sprintf("A funnel has %d to %d steps.", MinFunnelSteps, MaxFunnelSteps))
	}

	var wrong []error
	for i := range steps {
		if problem := steps[i].problem(); problem != "" {
			wrong = append(wrong, InvalidItem(field, i, "invalid_step", problem))
		}
	}
	if len(wrong) > 0 {
		return errors.Join(wrong...)
	}

	return CheckReportSearch(field, "invalid_step", nil, steps)
}

// CheckJourneyStart checks the page or event of a journey by the rules of the schema.
func CheckJourneyStart(field string, start FunnelStep) error {
	if problem := start.problem(); problem != "" {
		return InvalidField(field, "invalid_argument", problem)
	}
	return CheckReportSearch(field, "invalid_argument", nil, []FunnelStep{start})
}

// Name returns the label of the step, or else its page or event.
func (s *FunnelStep) Name() string { return cmp.Or(s.Label, s.Page, s.Event) }

// problem describes the step's first fault in a sentence. It returns "" for a valid step.
func (s *FunnelStep) problem() string {
	switch {
	case (s.Page == "") == (s.Event == ""):
		return "A step is either a page or an event."
	case !IsReportText(s.Page):
		return fmt.Sprintf("A page has at most %d characters and no NUL.", MaxFilterText)
	case s.Event != "" && !IsEventName(s.Event):
		return "The event is not a name of 1 to 48 lower-case letters, digits, underscores and hyphens."
	case s.Label != "" && (cut(s.Label, MaxStepLabel) != s.Label || !IsVisible(s.Label)):
		return fmt.Sprintf("A label has at most %d visible characters.", MaxStepLabel)
	}
	return ""
}

// Limits of what a site's owner stores for reports. The contract does not limit it.
const (
	MaxAnnotations     = 1_000
	MaxSegments        = 50
	MaxFunnels         = 50
	MaxSharedLinks     = 50
	MaxAnnotationText  = 500    // characters
	MaxSegmentBytes    = 16_384 // of the filters of a segment, as JSON
	maxAnnotationYears = 100    // from 1970 until 2070
)

// LastAnnotationDay is the latest day of an annotation. The first one is day 0.
const LastAnnotationDay Day = maxAnnotationYears * 365

// Annotation is a note on a day of a site's time zone, shown with its reports.
type Annotation struct {
	ID        AnnotationID `bun:",pk,autoincrement"`
	SiteID    SiteID       `bun:",notnull"`
	Day       Day          `bun:",notnull"`
	Text      string       `bun:",notnull"`
	CreatedAt Instant      `bun:",notnull"`
}

// CheckAnnotation checks the day and the text of an annotation, and reports every wrong field.
func CheckAnnotation(day Day, text string) error {
	var dayErr, textErr error
	if day < 0 || day > LastAnnotationDay {
		dayErr = InvalidField("day", "invalid_day", "Use a day from 1970-01-01 to "+LastAnnotationDay.String()+".")
	}
	if cut(text, MaxAnnotationText) != text || !IsVisible(text) {
		textErr = InvalidField("text", "invalid_text",
			fmt.Sprintf("Use 1 to %d visible characters in one line.", MaxAnnotationText))
	}
	return errors.Join(dayErr, textErr)
}

// Segment is a named list of filters of a site.
type Segment struct {
	ID      SegmentID      `bun:",pk,autoincrement"`
	SiteID  SiteID         `bun:",notnull"`
	Name    string         `bun:",notnull"`
	Filters []ReportFilter `bun:"filters,type:text,notnull"`
}

// Funnel is a named list of steps of a site.
type Funnel struct {
	ID     FunnelID     `bun:",pk,autoincrement"`
	SiteID SiteID       `bun:",notnull"`
	Name   string       `bun:",notnull"`
	Steps  []FunnelStep `bun:"steps,type:text,notnull"`
}

// SharedLink lets every client that has its secret read the reports of one site.
type SharedLink struct {
	ID           SharedLinkID `bun:",pk,autoincrement"`
	SiteID       SiteID       `bun:",notnull"`
	Name         string       `bun:",notnull"`
	TokenHash    []byte       `bun:",notnull"`  // SHA-256, see HashToken
	TokenHint    string       `bun:",notnull"`  // the last characters
	PasswordHash string       `bun:",nullzero"` // argon2id in PHC string form; empty without a password
	SegmentID    SegmentID    `bun:",nullzero"` // its filters apply to every report; 0 without a segment
	CreatedAt    Instant      `bun:",notnull"`
	ExpiresAt    Instant      `bun:",nullzero"` // 0: never
	LastUsedAt   Instant      `bun:",nullzero"` // to the minute; 0 before the first use

	HidesRevenue bool         `bun:",notnull"` // readers see neither revenue nor properties of events
	SealedToken  []byte       `bun:",notnull"` // the token, see keys.LinkToken
	Origins      List[string] `bun:",notnull"` // of pages that may frame the report, see ParseOrigins; sorted

	Token string `bun:"-"` // for members who may create links; "" for others, and if it is not kept
}

// Expired reports whether the link has expired at the given time.
func (l *SharedLink) Expired(at Instant) bool { return l.ExpiresAt != 0 && at >= l.ExpiresAt }

// SharedViewLifetime is how long a shared link can be read after it was opened.
const SharedViewLifetime = 12 * time.Hour

// SharedView is a reader of a shared link.
type SharedView struct {
	Link *SharedLink
	Site *Site
}
