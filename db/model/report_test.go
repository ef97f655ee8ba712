package model_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/tools/testkit"
)

// many returns n copies of a text.
func many(n int, text string) []string {
	list := make([]string, n)
	for i := range list {
		list[i] = text
	}
	return list
}

func TestReportFilters(t *testing.T) {
	long := strings.Repeat("ä", model.MaxFilterText)

	for name, test := range map[string]struct {
		filter model.ReportFilter
		ok     bool
	}{
		"page":                   {model.ReportFilter{Dimension: "PAGE", Operator: "IS", Values: []string{"/"}}, true},
		"no value of a campaign": {model.ReportFilter{Dimension: "UTM_SOURCE", Operator: "IS_NOT", Values: []string{""}}, true},
		"most values":            {model.ReportFilter{Dimension: "SOURCE", Operator: "CONTAINS", Values: many(50, "a")}, true},
		"longest value":          {model.ReportFilter{Dimension: "PAGE", Operator: "MATCHES", Values: []string{long}}, true},
		"property of all events": {model.ReportFilter{Dimension: "PROPERTY", Property: "plan", Operator: "IS", Values: []string{"pro"}}, true},
		"property of one event": {
			filter: model.ReportFilter{Dimension: "PROPERTY", Property: "plan", Event: "signup", Operator: "IS", Values: []string{"1"}},
			ok:     true,
		},
		"unknown dimension":       {model.ReportFilter{Dimension: "CITY", Operator: "IS", Values: []string{"Bonn"}}, false},
		"country":                 {model.ReportFilter{Dimension: "COUNTRY", Operator: "IS", Values: []string{"DE", ""}}, true},
		"unknown country":         {model.ReportFilter{Dimension: "COUNTRY", Operator: "IS", Values: []string{"UK"}}, false},
		"country in lower case":   {model.ReportFilter{Dimension: "COUNTRY", Operator: "IS_NOT", Values: []string{"de"}}, false},
		"part of a country":       {model.ReportFilter{Dimension: "COUNTRY", Operator: "CONTAINS", Values: []string{"D"}}, true},
		"unknown operator":        {model.ReportFilter{Dimension: "PAGE", Operator: "LIKE", Values: []string{"/"}}, false},
		"no value":                {model.ReportFilter{Dimension: "PAGE", Operator: "IS"}, false},
		"too many values":         {model.ReportFilter{Dimension: "PAGE", Operator: "IS", Values: many(51, "a")}, false},
		"too long a value":        {model.ReportFilter{Dimension: "PAGE", Operator: "IS", Values: []string{long + "x"}}, false},
		"NUL":                     {model.ReportFilter{Dimension: "PAGE", Operator: "IS", Values: []string{"a\x00"}}, false},
		"no UTF-8":                {model.ReportFilter{Dimension: "PAGE", Operator: "IS", Values: []string{"\xff"}}, false},
		"contains nothing":        {model.ReportFilter{Dimension: "PAGE", Operator: "CONTAINS", Values: []string{""}}, false},
		"property without a name": {model.ReportFilter{Dimension: "PROPERTY", Operator: "IS", Values: []string{"1"}}, false},
		"too long a property":     {model.ReportFilter{Dimension: "PROPERTY", Property: long + "x", Operator: "IS", Values: []string{"1"}}, false},
		"malformed event": {
			filter: model.ReportFilter{Dimension: "PROPERTY", Property: "p", Event: "A b", Operator: "IS", Values: []string{"1"}},
			ok:     false,
		},
		"page with a property": {model.ReportFilter{Dimension: "PAGE", Property: "plan", Operator: "IS", Values: []string{"/"}}, false},
		"page with an event":   {model.ReportFilter{Dimension: "PAGE", Event: "signup", Operator: "IS", Values: []string{"/"}}, false},
	} {
		err := model.CheckReportFilters("filters", []model.ReportFilter{test.filter})
		if (err == nil) != test.ok {
			t.Errorf("%s: %v", name, err)
		}
		if !test.ok && !strings.Contains(fmt.Sprint(err), "invalid_filter") {
			t.Errorf("%s: the error is %v", name, err)
		}
	}

	page := model.ReportFilter{Dimension: "PAGE", Operator: "IS", Values: []string{"/"}}
	for n, ok := range map[int]bool{0: true, 10: true, 11: false} {
		filters := make([]model.ReportFilter, n)
		for i := range filters {
			filters[i] = page
		}
		if err := model.CheckReportFilters("filters", filters); (err == nil) != ok {
			t.Errorf("%d filters: %v", n, err)
		}
	}
}

func TestFilterMatchers(t *testing.T) {
	for _, test := range []struct {
		operator model.ReportOperator
		values   []string
		value    string
		want     bool
	}{
		{"IS", []string{"/a", "/b"}, "/b", true},
		{"IS", []string{"/a"}, "/A", false},
		{"IS", []string{""}, "", true},
		{"IS_NOT", []string{"/a"}, "/a", true}, // the caller negates
		{"CONTAINS", []string{"x", "log"}, "/blog/1", true},
		{"CONTAINS", []string{"LOG"}, "/Blog/1", true},
		{"CONTAINS", []string{"straße"}, "/STRASSE", false},
		{"CONTAINS", []string{"ÜBER"}, "/über-uns", true},
		{"CONTAINS_NOT", []string{"LOG"}, "/blog/1", true}, // the caller negates
		{"CONTAINS_NOT", []string{"x"}, "/blog/1", false},
		{"MATCHES", []string{"/blog/*"}, "/blog/1", true},
		{"MATCHES", []string{"/blog/*"}, "/blog/1/2", false},
		{"MATCHES", []string{"/blog/*"}, "/blog/", true},
		{"MATCHES", []string{"/blog/**"}, "/blog/1/2", true},
		{"MATCHES", []string{"/blog/***"}, "/blog/1/2", true},
		{"MATCHES", []string{"/a.b"}, "/axb", false},
		{"MATCHES", []string{"/*/(x)|y"}, "/1/(x)|y", true},
		{"MATCHES", []string{"a", "b"}, "ab", false},
		{"MATCHES", []string{"**"}, "a\nb", true},
		{"MATCHES_NOT", []string{"*.pdf"}, "a.pdf", true},
	} {
		f := model.ReportFilter{Dimension: "PAGE", Operator: test.operator, Values: test.values}
		testkit.Equal(t, f.Matcher()(test.value), test.want, "%s %q of %q", test.operator, test.values, test.value)
	}

	for _, o := range model.ReportOperators {
		testkit.Equal(t, o.IsNegative(), strings.HasSuffix(string(o), "_NOT"), "%s is negative", o)
	}
	if model.PatternMatcher()("") {
		t.Error("no pattern matches the empty text")
	}
}

func TestFunnelSteps(t *testing.T) {
	page, event := model.FunnelStep{Page: "/a"}, model.FunnelStep{Event: "signup", Label: "Signed up"}
	for name, test := range map[string]struct {
		steps []model.FunnelStep
		ok    bool
	}{
		"two":             {[]model.FunnelStep{page, event}, true},
		"eight":           {[]model.FunnelStep{page, event, page, event, page, event, page, event}, true},
		"one":             {[]model.FunnelStep{page}, false},
		"nine":            {[]model.FunnelStep{page, event, page, event, page, event, page, event, page}, false},
		"both":            {[]model.FunnelStep{page, {Page: "/a", Event: "signup"}}, false},
		"neither":         {[]model.FunnelStep{page, {Label: "x"}}, false},
		"malformed event": {[]model.FunnelStep{page, {Event: "Sign up"}}, false},
		"NUL":             {[]model.FunnelStep{page, {Page: "\x00"}}, false},
		"long label":      {[]model.FunnelStep{page, {Page: "/", Label: strings.Repeat("x", 101)}}, false},
		"invisible label": {[]model.FunnelStep{page, {Page: "/", Label: "\u202e"}}, false},
	} {
		if err := model.CheckFunnelSteps("steps", test.steps); (err == nil) != test.ok {
			t.Errorf("%s: %v", name, err)
		}
	}
	if page.Name() != "/a" || event.Name() != "Signed up" || (&model.FunnelStep{Event: "lead"}).Name() != "lead" {
		t.Error("the name of a step is its label, or else its page or event")
	}
}

func TestTimeZones(t *testing.T) {
	for name, ok := range map[string]bool{
		"UTC": true, "Europe/Berlin": true, "America/Argentina/Buenos_Aires": true, "Etc/GMT+5": true, "Asia/Kolkata": true,
		"": false, "Local": false, "localtime": false, "right/Europe/Berlin": false, "posix/Europe/Berlin": false, "Factory": false,
		"Europe/Nowhere": false, "../etc/passwd": false, "/etc/localtime": false, "Europe/../UTC": false, "europe/berlin": false,
		"Europe/Berlin\x00": false, "UTC+1": false,
	} {
		got, err := model.ParseTimeZone("timeZone", name)
		if (err == nil) != ok || ok && got != name {
			t.Errorf("%q: %q, %v", name, got, err)
		}
	}

	site := model.Site{TimeZone: "Pacific/Auckland"}
	zone, err := site.Zone()
	if err != nil || zone.String() != site.TimeZone {
		t.Errorf("the zone of a site is %v, %v", zone, err)
	}
}
