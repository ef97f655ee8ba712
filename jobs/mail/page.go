package mail

import (
	"strings"
	"unicode/utf8"

	"github.com/tallygate/tallygate/db/model"
)

// page is a mail that is laid out as plain text and as HTML.
type page struct {
	Language     model.Language
	Subject      string
	Installation string // its host; "": the mail does not name it

	AccountLabel, Account string
	SiteLabel, Site       string

	Blocks []block
	Link   string // URL; may be ""
	Button string // text of the link

	Reason             string // why the recipient gets the mail
	StopLabel, StopURL string
	Sender             string // which installation sent it
}

// block is a paragraph or a table.
type block struct {
	Text string     // the paragraph, or the caption of the table
	Rows [][]string // of a table; nil: a paragraph
}

// blocks splits a text at blank lines. A block with a tab is a table: its lines are rows with tabs
// between cells, and lines without a tab before them are its caption. The lines of a paragraph are
// joined.
func blocks(text string) []block {
	var all []block
	for part := range strings.SplitSeq(text, "\n\n") {
		var b block
		var words []string

		for line := range strings.Lines(part) {
			line = strings.Trim(line, "\n ")
			switch {
			case line == "":
			case strings.Contains(line, "\t"):
				b.Rows = append(b.Rows, strings.Split(line, "\t"))
			default:
				words = append(words, line)
			}
		}

		b.Text = strings.Join(words, " ")
		if b.Text != "" || b.Rows != nil {
			all = append(all, b)
		}
	}
	return all
}

// oneLine joins the lines of a text.
func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

// text returns the page as plain text.
func (p *page) text() string {
	head := []string{"Tallygate"}
	if p.Installation != "" {
		head[0] += " · " + p.Installation
	}
	if p.Account != "" {
		head = append(head, p.AccountLabel+": "+p.Account)
	}
	if p.Site != "" {
		head = append(head, p.SiteLabel+": "+p.Site)
	}

	parts := []string{strings.Join(head, "\n")}
	for _, b := range p.Blocks {
		parts = append(parts, b.plain())
	}
	if p.Link != "" {
		parts = append(parts, p.Button+":\n"+p.Link)
	}

	var foot []string
	if p.Reason != "" {
		foot = append(foot, p.Reason)
	}
	if p.StopURL != "" {
		foot = append(foot, p.StopLabel+": "+p.StopURL)
	}
	if p.Sender != "" {
		foot = append(foot, p.Sender)
	}
	if foot != nil {
		parts = append(parts, "---\n"+strings.Join(foot, "\n"))
	}

	return strings.Join(parts, "\n\n") + "\n"
}

// maxColumn is the widest first column of a table in plain text, in characters.
const maxColumn = 40

// plain returns the block as plain text. The first column of a table is padded, the others follow
// it.
func (b block) plain() string {
	width := 0
	for _, row := range b.Rows {
		width = max(width, min(maxColumn, utf8.RuneCountInString(row[0])))
	}

	var lines []string
	if b.Text != "" {
		lines = append(lines, b.Text)
	}
	for _, row := range b.Rows {
		pad := strings.Repeat(" ", max(0, width-utf8.RuneCountInString(row[0])))
		lines = append(lines, row[0]+pad+"  "+strings.Join(row[1:], "  "))
	}

	return strings.Join(lines, "\n")
}
