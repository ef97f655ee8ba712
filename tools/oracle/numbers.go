package oracle

import (
	"encoding/json"
	"fmt"
	"math/big"
	"slices"
	"strconv"

	"github.com/tallygate/tallygate/db/reports/scan"
	"github.com/tallygate/tallygate/db/reports/segment"
)

// Numbers are the figures of numbers by group: "" for the totals, the index of a point, or a value.
type Numbers map[string]scan.NumberFigures

// numberGroup collects the events of a group.
type numberGroup struct {
	events  int64
	people  map[string]bool
	carry   map[string]bool // people with a number
	numbers []float64
}

// numbers counts the numbers of a property from the rows of days, with a list for each group.
func (n *naive) numbers(asked *scan.Numbers, days []segment.Rows) Numbers {
	groups := make(map[string]*numberGroup)
	for _, rows := range days {
		for _, v := range visitsOf(rows) {
			if !n.kept(&v) {
				continue
			}
			for _, e := range v.events {
				if asked.Event != "" && e.Name != asked.Event || !n.in(e.At) {
					continue
				}
				for _, key := range n.groupsOf(asked, &v, &e) {
					if groups[key] == nil {
						groups[key] = &numberGroup{people: map[string]bool{}, carry: map[string]bool{}}
					}
					groups[key].add(n.who(&v, e.At), &e, asked.Property)
				}
			}
		}
	}

	all := make(Numbers)
	for key, group := range groups {
		all[key] = group.figures()
	}
	return all
}

// groupsOf returns the groups of an event.
func (n *naive) groupsOf(asked *scan.Numbers, v *naiveVisit, e *segment.Event) (keys []string) {
	switch {
	case asked.Groups == scan.NumberTotals:
		return []string{""}
	case asked.Groups == scan.NumberPoints:
		for i := range n.points {
			if t := e.At.Time(); !t.Before(n.q.Points[i]) && t.Before(n.q.Points[i+1]) {
				keys = append(keys, strconv.Itoa(i))
			}
		}
		return keys
	case asked.By == scan.Page:
		return []string{e.Path}
	case asked.By >= scan.DayOfWeek:
		return []string{n.timeOf(e.At, asked.By)}
	default:
		return []string{attribute(v, asked.By)}
	}
}

func (g *numberGroup) add(who string, e *segment.Event, property string) {
	g.events++
	g.people[who] = true
	if text, ok := propertyOf(e, scan.Breakdown{Property: property}); ok {
		if number, ok := NumberOf(text); ok {
			g.numbers = append(g.numbers, number)
			g.carry[who] = true
		}
	}
}

// NumberOf returns the number that a value of a property is. ok is false if it is none.
func NumberOf(text string) (number float64, ok bool) {
	var written json.Number
	if text == "" || !json.Valid([]byte(text)) || text[0] != '-' && (text[0] < '0' || text[0] > '9') {
		return 0, false
	}
	last := text[len(text)-1]
	if last < '0' || last > '9' || json.Unmarshal([]byte(text), &written) != nil {
		return 0, false
	}

	number, err := written.Float64()
	exact, isRat := new(big.Float).SetString(text)
	return number + 0, err == nil && isRat && (number != 0 || exact.Sign() == 0)
}

// figures computes the figures of a group from its sorted numbers, with fractions.
func (g *numberGroup) figures() scan.NumberFigures {
	f := scan.NumberFigures{Events: g.events, Numbers: int64(len(g.numbers)), Visitors: int64(len(g.people)), Carriers: int64(len(g.carry))}
	if len(g.numbers) == 0 {
		return f
	}

	slices.Sort(g.numbers)
	sum := new(big.Rat)
	for _, number := range g.numbers {
		decimal, ok := new(big.Rat).SetString(strconv.FormatFloat(number, 'g', -1, 64))
		if !ok {
			panic(fmt.Sprintf("%v is no decimal", number))
		}
		sum.Add(sum, decimal)
	}
	f.Sum, _ = sum.Float64()
	f.Average, _ = sum.Quo(sum, new(big.Rat).SetInt64(f.Numbers)).Float64()

	f.Min, f.Max = g.numbers[0], g.numbers[len(g.numbers)-1]
	for i, percent := range scan.Percentiles {
		// The first number with so many percent of the numbers up to it.
		for n, number := range g.numbers {
			if (n+1)*100 >= percent*len(g.numbers) {
				f.Percentiles[i] = number
				break
			}
		}
	}
	return f
}

// ByGroup returns the counted figures of groups with an event.
func ByGroup(counted *scan.NumberCount) Numbers {
	all := make(Numbers)
	for i, f := range counted.Figures {
		key := ""
		switch {
		case counted.Groups == scan.NumberPoints:
			key = strconv.Itoa(i)
		case counted.Groups == scan.NumberRows:
			key = counted.Values[i]
		}
		if f.Events > 0 {
			all[key] = f
		}
	}
	return all
}

// AllNumbers asks for the numbers of a property in all groups.
func AllNumbers(event, property string) []scan.Numbers {
	all := []scan.Numbers{
		{Event: event, Property: property}, {Event: event, Property: property, Groups: scan.NumberPoints},
	}
	for by := range scan.Dimensions {
		if scan.HasNumbers(by) {
			all = append(all, scan.Numbers{Event: event, Property: property, Groups: scan.NumberRows, By: by})
		}
	}
	return all
}
