package report

import "io"

// Terminal is the output of a command: results on Out, progress on Log.
type Terminal struct {
	Out, Log io.Writer
}
