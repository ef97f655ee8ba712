package segment

// Other is the text in a dictionary that stands for all texts without a row of their own, because
// the rows have more texts than Limits permit. No stored text has a NUL.
const Other = "\x00"

// MaxProperties is how many properties of an event reports have: the first ones by name. The others
// are in the stored row alone.
const MaxProperties = 30

// Limits bound the texts of a segment, so that its memory follows its rows and not what clients
// send. Beyond a limit the most frequent texts keep rows of their own, and all others are Other.
// Channels, ad platforms, screen widths, countries and the like have few values, and user ids must
// stay distinct: they have no limit.
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

// The limits of a day.
const (
	dayNames        = 300
	dayValuesOf     = 1_000
	dayValues       = 10_000
	dayPropertyText = 2 << 20
	dayPropertyRows = 4_000_000
	dayCurrencies   = 100
	dayTexts        = 100_000
	dayText         = 16 << 20
)

// The limits of a month.
const (
	monthNames        = 600
	monthValuesOf     = 4_000
	monthValues       = 40_000
	monthPropertyText = 8 << 20
	monthPropertyRows = 100_000_000
	monthCurrencies   = 200
	monthTexts        = 300_000
	monthText         = 48 << 20
)

// DayLimits are the limits of a day's segment.
var DayLimits = Limits{
	Names: dayNames, ValuesOf: dayValuesOf, Values: dayValues, PropertyText: dayPropertyText,
	PropertyRows: dayPropertyRows, Currencies: dayCurrencies, Texts: dayTexts, Text: dayText,
}

// MonthLimits are the limits of a month's segment.
var MonthLimits = Limits{
	Names: monthNames, ValuesOf: monthValuesOf, Values: monthValues, PropertyText: monthPropertyText,
	PropertyRows: monthPropertyRows, Currencies: monthCurrencies, Texts: monthTexts, Text: monthText,
}

// isBounded reports whether Limits.Texts or Limits.Currencies bounds a domain.
func isBounded(domain Field) bool {
	switch domain {
	case Channel, ClickID, Width, User, PropName, PropValue, Country, Browser, System, Device, SourceGroup:
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
