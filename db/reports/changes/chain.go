package changes

import (
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/reports/scan"
)

// MaxChain is how many values a chain has: all but the first cost two further counts, of both
// periods, which can cost as much as the report.
const MaxChain = 2

// Link is a value of a chain.
type Link struct {
	Value
	Names  []Value // other names of the same visits
	Counts *Counts // with the difference that the value names
}

// Chain names the difference, and then the difference among the visits of the value that it has
// named. The further counts also show which values are other names of that one. among returns
// them, or nil to end the chain.
func (c *Counts) Chain(among func(Value) (*Counts, error)) (chain []Link, err error) {
	var found []Value
	for counts := c; counts != nil; {
		cause, ok := counts.Cause(found...)
		if !ok {
			break
		}
		link := Link{Value: cause, Counts: counts}
		if found = append(found, cause); len(found) == MaxChain {
			return append(chain, link), nil
		}

		next, err := among(cause)
		if err != nil {
			return nil, err
		}
		if next != nil {
			link.Names = counts.Names(cause, next)
		}
		chain, counts = append(chain, link), next
	}
	return chain, nil
}

// Main returns the beginning of a chain that a line of text names: links with more than a third of
// the difference among their visits. Less is about the share of a value in a loss of all alike.
func Main(chain []Link) []Link {
	for i, link := range chain {
		if whole := link.Counts.Whole(); 3*size(link.Value) <= size(whole) {
			return chain[:i]
		}
	}
	return chain
}

// TableOf returns the table of a dimension. Values of fewer visitors than least in a period are
// not named; 0: all are.
func TableOf(by model.ReportDimension, before, after *scan.Rows, least int) Table {
	if least == 0 {
		return Table{By: by, Before: before, After: after}
	}

	shownBefore, shownAfter := before.WithoutSmall(int64(least)), after.WithoutSmall(int64(least))
	isHidden := func(shown, all *scan.Rows, value string) bool {
		some, every := shown.Of(value), all.Of(value)
		return some.Any() != every.Any()
	}
	return Table{By: by, Before: shownBefore, After: shownAfter, Hidden: func(value string) bool {
		return isHidden(shownBefore, before, value) || isHidden(shownAfter, after, value)
	}}
}
