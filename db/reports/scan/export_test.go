package scan

import "github.com/tallygate/tallygate/db/reports/segment"

// The worlds of the tests are small. Their smaller segments are counted in turn, the others side by
// side, and days of more visits in several blocks.
func init() { parallelFrom, maxBlock = 20, 30 }

// Rest returns which days of a segment are counted from its columns.
func (s *Scanner) Rest(g *segment.Segment, spans []segment.Span) []bool { return s.rest(g, spans) }

// UseLargeBlocks makes scanners count as many visits at once as in the program, for benchmarks.
func UseLargeBlocks() { maxBlock = 1 << 15 }
