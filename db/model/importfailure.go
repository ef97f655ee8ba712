package model

import (
	"fmt"
	"strconv"
	"strings"
)

// Codes of imports that have failed. An import can also fail with the code of a model.Error about
// imports.
const (
	ImportDamaged     = "damaged_file"
	ImportNothing     = "nothing_to_import"
	ImportTooLarge    = "import_too_large"
	ImportAlready     = "already_imported"
	ImportExpired     = "import_expired"
	ImportInterrupted = "import_interrupted"
	ImportRefused     = "address_refused"
	ImportUnreachable = "address_unreachable"
	ImportTimeout     = "import_timeout"
	ImportToken       = "token_unreadable"
	ImportTooMuch     = "too_many_import_bytes"
	ImportInternal    = "internal_error"
)

// ImportFailure says why an export is not imported. A repetition fails again.
type ImportFailure struct {
	Code string
	Text string // in English
	File string // empty: no single one
	Line int    // 0: the whole file
	ImportValues
}

// Error returns the text with the file and the line.
func (f *ImportFailure) Error() string {
	switch {
	case f.File == "":
		return f.Text
	case f.Line == 0:
		return fmt.Sprintf("%s: %s", f.File, f.Text)
	}
	return fmt.Sprintf("%s, line %d: %s", f.File, f.Line, f.Text)
}

// ImportValues are the values of the message about a failure, for clients that write the message
// themselves.
type ImportValues struct {
	Fault  ImportFault  `json:"fault,omitempty"`  // of a damaged export
	Name   string       `json:"name,omitempty"`   // of a column, a table or another file
	Value  string       `json:"value,omitempty"`  // as the export has it, or as it should be
	Count  int64        `json:"count,omitempty"`  // 0: no number, or zero
	Limit  int64        `json:"limit,omitempty"`  // 0: no number, or zero
	Source ImportSource `json:"source,omitempty"` // of another import
	First  Day          `json:"first,omitempty"`  // 0: no day
	Last   Day          `json:"last,omitempty"`   // 0: no day
}

// ImportFault is the code of what is wrong in an export.
type ImportFault string

// The faults of files.
const (
	FaultNotCSV         ImportFault = "not_csv"
	FaultNotUTF8        ImportFault = "not_utf8"
	FaultSeparator      ImportFault = "separator"
	FaultEmptyFile      ImportFault = "empty_file"
	FaultNoTable        ImportFault = "no_table"
	FaultUnreadable     ImportFault = "unreadable"
	FaultLongRow        ImportFault = "long_row"
	FaultManyColumns    ImportFault = "many_columns"
	FaultMissingColumn  ImportFault = "missing_column"
	FaultRepeatedColumn ImportFault = "repeated_column"
	FaultUnknownColumn  ImportFault = "unknown_column"
	FaultFields         ImportFault = "wrong_fields"
	FaultNumber         ImportFault = "not_a_number"
	FaultDay            ImportFault = "not_a_day"
	FaultTime           ImportFault = "not_a_time"
	FaultValue          ImportFault = "not_a_value"
	FaultUnknownFile    ImportFault = "unknown_file"
	FaultUnknownTable   ImportFault = "unknown_table"
)

// The faults of figures.
const (
	FaultPeriodSums    ImportFault = "period_sums"
	FaultSecondSite    ImportFault = "second_website"
	FaultTwoDimensions ImportFault = "two_dimensions"
	FaultNoMetrics     ImportFault = "no_metrics"
	FaultNoStart       ImportFault = "no_start"
	FaultNoDays        ImportFault = "no_days"
	FaultBounces       ImportFault = "more_bounces"
	FaultEngaged       ImportFault = "more_engaged"
	FaultRepeatedDays  ImportFault = "repeated_days"
	FaultLargeSum      ImportFault = "large_sum"
	FaultNoTotals      ImportFault = "no_totals"
	FaultDayTotals     ImportFault = "day_without_totals"
	FaultManyVisits    ImportFault = "many_visits"
	FaultAnswer        ImportFault = "service_answer"
	FaultRateLimit     ImportFault = "api_rate_limit"
	FaultTimeZone      ImportFault = "api_time_zone"
	FaultVersion       ImportFault = "api_version"
)

// faultTexts are the texts of the faults, with the values of ImportValues.
var faultTexts = map[ImportFault]string{
	FaultNotCSV:         "not a CSV file in UTF-8",
	FaultSeparator:      "the columns are separated by semicolons or tabs. Export the file with commas",
	FaultNotUTF8:        "not UTF-8",
	FaultEmptyFile:      "the file is empty",
	FaultNoTable:        "the file has no table",
	FaultUnreadable:     "{value}",
	FaultLongRow:        "a row of more than {limit} bytes",
	FaultManyColumns:    "more than {limit} columns",
	FaultMissingColumn:  `there is no column "{name}"`,
	FaultRepeatedColumn: `the column "{name}" comes twice`,
	FaultUnknownColumn:  `the column "{name}" cannot be imported: a table has a date, at most one known dimension, and metrics`,
	FaultFields:         "{count} fields instead of {limit}",
	FaultNumber:         `{name} is not a number from 0 to {limit}: "{value}"`,
	FaultDay:            `not a day from 1995 on: "{value}"`,
	FaultTime:           `{name} is not a time: "{value}"`,
	FaultValue:          `{name} cannot be "{value}"`,
	FaultUnknownFile:    "not a file of {name}'s export: their names are such as {value}",
	FaultUnknownTable:   "{name} is no table that can be imported",

	FaultPeriodSums:    "sums of a whole period, which reports by day cannot show. Export the table website_event",
	FaultSecondSite:    `a second website, "{value}". Export one website`,
	FaultTwoDimensions: "a table with two dimensions, whose sums are not the sums of either. Export one table for each",
	FaultNoMetrics:     "the table has none of the metrics Total users, Sessions, Views and Event count",
	FaultNoStart:       "days are counted from a start date that is missing",
	FaultNoDays:        "the table has neither a column Date nor a period of a single day. Add the dimension Date to it",
	FaultBounces:       "{first} has more bounces, {count}, than visits, {limit}",
	FaultEngaged:       "more engaged sessions, {count}, than sessions, {limit}",
	FaultRepeatedDays:  "{name} has {value} as well, which would count twice",
	FaultLargeSum:      "the sum of {first} is larger than {limit}",
	FaultNoTotals:      "the totals are missing: import {value} as well",
	FaultDayTotals:     "the export has rows of {first} and no totals of this day: import {value} as well",
	FaultManyVisits:    "a session has more than {limit} visits on a day",
	FaultAnswer:        "{value}",
	FaultRateLimit:     "GoatCounter refuses calls for its rate limit",
	FaultTimeZone: `the token's user has the time zone "{value}" in GoatCounter, to which it shifts hours with today's offset. ` +
		"Set the user's time zone to UTC for the import",
	FaultVersion: "GoatCounter returns no days: this needs GoatCounter 2.7.0 or later",
}

// Damaged returns the failure of a damaged export, with the text of its fault.
func Damaged(fault ImportFault, v ImportValues) *ImportFailure {
	v.Fault, v.Name, v.Value = fault, Storable(v.Name, maxFailureText), Storable(v.Value, maxFailureText)
	text := strings.NewReplacer("{name}", v.Name, "{value}", v.Value, "{count}", strconv.FormatInt(v.Count, 10),
		"{limit}", strconv.FormatInt(v.Limit, 10), "{first}", v.First.String()).Replace(faultTexts[fault])
	return &ImportFailure{Code: ImportDamaged, Text: text, ImportValues: v}
}

// maxFailureText is the length of a value in characters.
const maxFailureText = 200
