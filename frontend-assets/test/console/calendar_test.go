package console_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/tallygate/tallygate/tools/browsertest"
	"github.com/tallygate/tallygate/tools/testkit"
)

const dayFormat = "2006-01-02"

// addMonths returns the same day some months later, or the last day of a shorter month.
func addMonths(day time.Time, months int) time.Time {
	first := time.Date(day.Year(), day.Month()+time.Month(months), 1, 0, 0, 0, 0, time.UTC)
	last := first.AddDate(0, 1, -1)
	return first.AddDate(0, 0, min(day.Day(), last.Day())-1)
}

// monday returns the Monday of a day's week.
func monday(day time.Time) time.Time {
	return day.AddDate(0, 0, -(int(day.Weekday())+6)%7)
}

// isOn waits until the active day of the calendar is a day, and has the focus.
func (k keyboard) isOn(day time.Time) {
	k.t.Helper()
	k.WaitFor(fmt.Sprintf("document.activeElement.dataset.day === %q && document.activeElement.matches('[role=grid] [role=gridcell][tabindex=\"0\"]')",
		day.Format(dayFormat)))
}

// today returns the current day in a time zone, as a UTC time.
func today(t *testing.T, zone string) time.Time {
	t.Helper()
	location, err := time.LoadLocation(zone)
	testkit.NoError(t, err)

	now := time.Now().In(location)
	return time.Date(now.Year(), now.Month(), now.Day(), 0, 0, 0, 0, time.UTC)
}

// TestCalendarChromium chooses a period and the one to compare with by the keyboard alone. The
// site's day is another one than the browser's. Its clock is wrong as well.
func TestCalendarChromium(t *testing.T) {
	t.Parallel()

	s, id := siteWithHit(t)
	const zone = "Pacific/Kiritimati" // UTC+14
	s.UpdateSite(id, map[string]any{"timeZone": zone})

	k := keyboard{s.openSignedIn("/")}
	k.Do(emulation.SetTimezoneOverride("Pacific/Niue")) // UTC-11: always another day
	remove := k.Before(`Date.now = () => Date.parse('2020-02-03T12:00:00Z')`)
	defer remove()

	before := today(t, zone)
	k.Goto(s.Origin + "/sites/" + id + "?period=today")
	k.WaitFor("document.querySelector('.plot svg')")

	// The menu: the letters of its entries, the beginning of a name, the ends, and Escape.
	k.reach(periodMenu)
	k.keys(kb.Enter)
	k.WaitFor("document.activeElement === " + entry("Today") + " && document.activeElement.ariaChecked === 'true'")
	k.look("menu-period")
	k.keys("w")
	k.WaitFor("document.activeElement === " + entry("Last 7 days"))
	k.keys(kb.Home + "ye")
	k.WaitFor("document.activeElement === " + entry("Yesterday"))
	k.keys(kb.End)
	k.WaitFor("document.activeElement === " + entry("Other dates …"))
	k.keys(kb.ArrowDown)
	k.WaitFor("document.activeElement === " + entry("Today"))
	k.keys(kb.Escape)
	k.WaitFor("!document.querySelector('[role=menu]') && location.search === '?period=today' && document.activeElement === " + periodMenu)
	k.WaitFor(periodMenu + ".ariaExpanded === 'false'")

	// Escape closes the menu before it removes filters, also from elsewhere on the page.
	k.Goto(s.Origin + "/sites/" + id + "?period=today&f=language:is:de")
	k.WaitFor("document.querySelector('.chips') && document.querySelector('.plot svg')")
	k.reach(periodMenu)
	k.keys(kb.Enter)
	k.WaitFor("document.activeElement === " + entry("Today"))
	k.Eval("document.activeElement.blur()", nil)
	k.keys(kb.Escape)
	k.WaitFor("!document.querySelector('[role=menu]') && document.querySelector('.chips')")
	k.keys(kb.Escape)
	k.WaitFor("!document.querySelector('.chips')")

	k.reach(periodMenu)
	k.keys(kb.Enter)
	k.WaitFor("document.activeElement === " + entry("Today"))
	k.keys(kb.ArrowUp + kb.Enter)
	k.WaitFor("document.querySelector('dialog[open]')?.contains(document.activeElement)")
	day := k.siteDay(before, zone)

	// Arrows move by days and weeks, Home and End within the week, Page by months, and with Shift
	// by years.
	k.reach(`document.querySelector('.calendar [tabindex="0"]')`)
	k.isOn(day)
	k.keys(kb.ArrowRight) // tomorrow cannot be chosen
	k.isOn(day)
	for _, step := range []struct {
		key   string
		shift input.Modifier
		to    func() time.Time
	}{
		{kb.PageUp, input.ModifierShift, func() time.Time { return addMonths(day, -12) }},
		{kb.PageDown, 0, func() time.Time { return addMonths(day, 1) }},
		{kb.PageUp, 0, func() time.Time { return addMonths(day, -1) }},
		{kb.End, 0, func() time.Time { return monday(day).AddDate(0, 0, 6) }},
		{kb.Home, 0, func() time.Time { return monday(day) }},
		{kb.ArrowLeft, 0, func() time.Time { return day.AddDate(0, 0, -1) }},
		{kb.ArrowUp, 0, func() time.Time { return day.AddDate(0, 0, -7) }},
		{kb.ArrowDown, 0, func() time.Time { return day.AddDate(0, 0, 7) }},
		{kb.ArrowRight, 0, func() time.Time { return day.AddDate(0, 0, 1) }},
	} {
		day = step.to()
		k.Do(browsertest.Press(step.key, chromedp.KeyModifiers(step.shift)))
		k.isOn(day)
	}

	// The first and the last day, in any order.
	last := day
	k.keys(kb.Enter)
	k.WaitFor(fmt.Sprintf("%s.value === %q && document.querySelector('.calendar [role=status]').innerText === 'Choose the last day.'",
		labelled("First day"), last.Format(dayFormat)))
	k.keys(kb.ArrowUp + kb.ArrowUp + kb.ArrowRight)
	first := last.AddDate(0, 0, -13)
	k.isOn(first)
	k.keys(" ")
	k.WaitFor(fmt.Sprintf("%s.value === %q && %s.value === %q", labelled("First day"), first.Format(dayFormat), labelled("Last day"),
		last.Format(dayFormat)))
	k.WaitFor("document.querySelectorAll('[role=grid] [aria-selected=true]').length === 14")
	k.look("calendar-period")
	k.use("Show")
	address := fmt.Sprintf("?from=%s&to=%s", first.Format(dayFormat), last.Format(dayFormat))
	k.WaitFor(fmt.Sprintf("location.search === %q && document.querySelector('.plot')?.ariaValueMax === '14'", address))

	k.comparesByCalendar(first, address)
	k.clean(s)
}

// siteDay returns the site's day as the open dialog has it. before is the day when the report was
// read.
func (k keyboard) siteDay(before time.Time, zone string) time.Time {
	k.t.Helper()
	marked := k.Text("document.querySelector('.calendar [aria-current=date]').dataset.day")
	for _, day := range []time.Time{before, before.AddDate(0, 0, 1)} {
		if marked == day.Format(dayFormat) {
			k.see(fmt.Sprintf("Today is %s in %s. A period has at most 5 years.", day.Format("Jan 2, 2006"), zone))
			return day
		}
	}
	k.t.Fatalf("today is %s, want %s", marked, before.Format(dayFormat))
	return before
}

// comparesByCalendar chooses the first day of the period to compare with. The calendar shows as
// many days.
func (k keyboard) comparesByCalendar(first time.Time, address string) {
	k.t.Helper()
	k.reach(compareMenu)
	k.keys(kb.Enter)
	k.WaitFor("document.activeElement === " + entry("No comparison"))
	k.look("menu-compare")
	k.keys("other")
	k.WaitFor("document.activeElement === " + entry("Other first day …"))
	k.keys(kb.Enter)

	// The report has no comparison, so the calendar begins a year before.
	k.WaitFor(labelled("First day"))
	typed := addMonths(first, -2)
	k.setDate(labelled("First day"), typed.Format(dayFormat))
	k.WaitFor(fmt.Sprintf(`document.querySelector('.calendar [tabindex="0"]').dataset.day === %q`, typed.Format(dayFormat)))
	k.reach(`document.querySelector('.calendar [tabindex="0"]')`)
	k.isOn(typed)
	k.keys(kb.ArrowLeft + kb.Enter)
	chosen := typed.AddDate(0, 0, -1)
	k.WaitFor(fmt.Sprintf("%s.value === %q", labelled("First day"), chosen.Format(dayFormat)))
	k.look("calendar-compare")
	k.use("Show")
	k.WaitFor(fmt.Sprintf("location.search === %q", address+"&compare="+chosen.Format(dayFormat)+"&dates=1"))
	k.WaitFor(fmt.Sprintf("%s.innerText === %q", compareMenu, "Period from "+chosen.Format("Jan 2, 2006")))
	k.WaitFor(fmt.Sprintf("document.querySelectorAll('.legend > span')[1]?.textContent.startsWith(%q)", chosen.Format("Jan 2")))
	k.WaitFor(fmt.Sprintf("document.querySelector('.plot').ariaValueText.includes(%q)", chosen.AddDate(0, 0, 13).Format("Monday, January 2, 2006")))

	// The letter turns the comparison off.
	k.keys("x")
	k.WaitFor(fmt.Sprintf("location.search.startsWith(%q) && !location.search.includes('compare')", address))
}
