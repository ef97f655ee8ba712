package export

import (
	"bufio"
	"bytes"
	"encoding/csv"
	"io"

	"github.com/tallygate/tallygate/db/exports"
)

// rowWriter writes rows in one format.
type rowWriter interface {
	row([]exports.Field) error
	flush() error
	begun() bool // whether bytes may have been sent
	end() error
}

// output is the buffer of both formats. It records whether it was ever flushed to the client.
type output struct {
	*bufio.Writer
	sent sentFlag
}

// sentFlag records the first write to the client.
type sentFlag struct {
	io.Writer
	yes bool
}

func (s *sentFlag) Write(p []byte) (int, error) {
	s.yes = true
	return s.Writer.Write(p)
}

func newOutput(w io.Writer) *output {
	o := &output{sent: sentFlag{Writer: w}}
	o.Writer = bufio.NewWriterSize(&o.sent, 32<<10)
	return o
}

func (o *output) begun() bool { return o.sent.yes }

// jsonRows writes one array of objects.
type jsonRows struct {
	*output
	rows   int
	object []byte
}

func newJSONRows(w io.Writer) *jsonRows { return &jsonRows{output: newOutput(w)} }

func (j *jsonRows) row(row []exports.Field) error {
	separator := ",\n"
	if j.rows == 0 {
		separator = "[\n"
	}

	j.rows++
	object, err := exports.AppendJSON(append(j.object[:0], separator...), row)
	if err != nil {
		return err
	}

	j.object = object
	_, err = j.Write(object)
	return err
}

func (j *jsonRows) flush() error { return j.Flush() }

func (j *jsonRows) end() error {
	if j.rows == 0 {
		_ = j.WriteByte('[')
	}
	_, _ = j.WriteString("]\n")
	return j.Flush()
}

// csvRows writes RFC 4180 with a header line, also without rows. Lines end with CR and LF; line
// breaks within a cell are kept.
type csvRows struct {
	*output
	csv    *csv.Writer     // writes one record into line
	line   bytes.Buffer    // the current record
	blank  []exports.Field // a row for the names of the columns
	header bool
	record []string
}

func newCSVRows(w io.Writer, blank []exports.Field) *csvRows {
	c := &csvRows{output: newOutput(w), blank: blank}
	c.csv = csv.NewWriter(&c.line)
	return c
}

func (c *csvRows) row(row []exports.Field) error {
	if err := c.writeHeader(); err != nil {
		return err
	}

	c.record = c.record[:0]
	for _, f := range row {
		c.record = append(c.record, cell(f.Value))
	}

	return c.writeLine(c.record)
}

func (c *csvRows) writeHeader() error {
	if c.header {
		return nil
	}

	c.header = true
	names := make([]string, len(c.blank))
	for i, f := range c.blank {
		names[i] = f.Name
	}

	return c.writeLine(names)
}

// writeLine writes a record and its line end. The option UseCRLF of csv.Writer is no alternative:
// it changes the line breaks within cells too.
func (c *csvRows) writeLine(record []string) error {
	c.line.Reset()
	if err := c.csv.Write(record); err != nil {
		return err
	}

	c.csv.Flush()
	if err := c.csv.Error(); err != nil {
		return err
	}

	_, _ = c.Write(bytes.TrimSuffix(c.line.Bytes(), []byte("\n")))
	_, err := c.WriteString("\r\n")
	return err
}

func (c *csvRows) flush() error { return c.Flush() }

func (c *csvRows) end() error {
	if err := c.writeHeader(); err != nil {
		return err
	}
	return c.Flush()
}
