// Package text has what the texts of mails use: the parts of a mail, what a text reads in addition
// to the data of its kind, and numbers and dates in its language. Packages en and de have a file
// for each kind.
package text

// Part is a part of a mail that a text writes.
type Part int

// The parts of a mail. Page lays them out, so their line breaks do not matter, except for blank
// lines between the paragraphs of the body.
const (
	Subject Part = iota // the heading as well
	Button              // text of the link
	Body                // paragraphs, and tables with Tab between the cells of a row
	Reason              // why the recipient gets the mail
)

// Tab separates the cells of a table's row.
const Tab = "\t"

// View is what the text of each kind can read.
type View struct {
	*Locale

	Account string // its name, without addresses that mail programs would link; may be ""
	Site    string // its domain; may be ""
	CanStop bool   // the mail has a link that ends mails of its kind
}
