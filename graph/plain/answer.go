package plain

import (
	"encoding/json"
	"slices"
	"strings"
	"unicode"
)

// metricNames are the figures of each total, part and row, in their order. Revenue follows them,
// with a name for each currency.
var metricNames = []string{
	"visitors", "visits", "pageviews", "viewsPerVisit", "bounceRate", "engagementTime", "timeOnPage", "scrollDepth", "events",
	"conversions", "conversionRate",
}

// selection selects the figures in GraphQL.
var selection = strings.Join(metricNames, " ") + " revenue { currency net }"

// metrics are the figures of GraphQL by their names.
type metrics map[string]json.RawMessage

// figure is one figure: a JSON number, or null.
type figure struct {
	name  string
	value json.RawMessage
}

// answer has the figures of a site.
type answer struct {
	question *question
	link     bool // read through a shared link
	asOf     string

	domain string
	about  []figure // site, days and time of reading, as JSON
	totals []figure
	series []row // nil: not asked for
	rows   []row // nil: not asked for
	more   int   // number of rows that exist
}

// row is a part of the period, or a value of a dimension.
type row struct {
	label   string // begin of the part, or value
	figures []figure
}

// newAnswer flattens GraphQL's data. A site without a report has no hit yet: its figures are null.
func newAnswer(q *question, found *siteFigures, isLink bool) *answer {
	a := &answer{question: q, link: isLink, domain: found.Domain}
	about := func(name, value string) { a.about = append(a.about, figure{name, quoted(value)}) }
	about("site", found.Domain)
	about("timeZone", found.TimeZone)

	r := found.Report
	if r == nil {
		return a
	}
	a.asOf = r.AsOf
	about("from", r.From)
	about("to", r.To)
	if q.compared {
		about("comparedFrom", r.ComparedFrom)
		about("comparedTo", r.ComparedTo)
	}
	about("asOf", r.AsOf)

	if found.Live != nil {
		a.totals = append(a.totals, figure{"live", found.Live.Visitors})
	}
	a.totals = append(a.totals, flat(r.Totals, "")...)
	for _, point := range r.Series {
		a.series = append(a.series, row{point.Start, flat(point.Metrics, "")})
	}
	if r.Breakdown != nil {
		a.rows, a.more = []row{}, r.Breakdown.TotalCount
		for _, node := range r.Breakdown.Nodes {
			a.rows = append(a.rows, row{node.Value, flat(node.Metrics, "")})
		}
	}
	return a
}

// flat returns figures in their order, then the net revenue of each currency, and then the figures
// of the other period with the prefix "previous".
func flat(m metrics, prefix string) []figure {
	named := func(name string) string {
		if prefix == "" {
			return name
		}
		return prefix + string(unicode.ToUpper(rune(name[0]))) + name[1:]
	}

	var list []figure
	for _, name := range metricNames {
		list = append(list, figure{named(name), m[name]})
	}

	var revenue []struct {
		Currency string
		Net      string // a decimal number
	}
	if json.Unmarshal(m["revenue"], &revenue) == nil {
		for _, r := range revenue {
			list = append(list, figure{named("revenue" + r.Currency), json.RawMessage(r.Net)})
		}
	}

	var other metrics
	if json.Unmarshal(m["comparison"], &other) == nil && other != nil {
		list = append(list, flat(other, "previous")...)
	}
	return list
}

// value returns the figure with a name, or null.
func (a *answer) value(name string) json.RawMessage {
	i := slices.IndexFunc(a.totals, func(f figure) bool { return f.name == name })
	if i < 0 {
		return json.RawMessage("null")
	}
	return a.totals[i].value
}

// quoted returns a text as JSON.
func quoted(text string) json.RawMessage {
	b, err := json.Marshal(text)
	if err != nil {
		// Texts can be encoded.
		panic(err)
	}
	return b
}
