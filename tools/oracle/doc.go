// Package oracle counts reports from the rows of the export alone, with maps, as plainly as
// docs/owner/reports.md defines the figures. It shares no step with package scan. Tests compare the two
// over random worlds, which it makes.
package oracle
