package segment

// Other is the text in a dictionary that stands for all texts without a row of their own, because the
// rows have more texts than Limits permit. No stored text has a NUL.
const Other = "\x00"

// MaxProperties is how many properties of an event reports have: the first ones by name. The others
// are in the stored row alone.
const MaxProperties = 30

// Limits bound the texts of a segment, so that its memory follows its rows and not what clients send.
// Beyond a limit the most frequent texts keep rows of their own, and all others are Other. Channels,
// ad platforms and screen widths have few values, and user ids must stay distinct: they have no limit.
type Limits struct {
	Names        int // names of properties
	ValuesOf     int // values of one property
	Values       int // values of all properties
	PropertyText int // bytes of the names and values of properties
	PropertyRows int // properties of events; more keep only the most frequent names

	Currencies int
	Texts      int // of each other domain, for example paths
	Text       int // bytes of all these domains
}

// DayLimits are the limits of a day's segment.
var DayLimits = Limits{
	Names: 300, ValuesOf: 1_000, Values: 10_000, PropertyText: 2 << 20, PropertyRows: 4_000_000,
	Currencies: 100, Texts: 100_000, Text: 16 << 20,
}

// MonthLimits are the limits of a month's segment.
var MonthLimits = Limits{
	Names: 600, ValuesOf: 4_000, Values: 40_000, PropertyText: 8 << 20, PropertyRows: 100_000_000,
	Currencies: 200, Texts: 300_000, Text: 48 << 20,
}

// isBounded reports whether a domain has a limit of its texts, other than those of properties.
func isBounded(domain Field) bool {
	switch domain {
	case Channel, ClickID, Width, User, PropName, PropValue:
		return false
	default:
		return true
	}
}

// of returns the limit of a bounded domain's texts.
func (l *Limits) of(domain Field) int {
	if domain == Currency {
		return l.Currencies
	}
	return l.Texts
}
