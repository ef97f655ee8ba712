package config

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/tallygate/tallygate/db"
)

// CellAddresses are addresses of PostgreSQL servers by the ids of cells.
type CellAddresses struct{ URLs map[int64]string }

// cellStart is the beginning of an entry. An address may name several hosts, separated by commas.
var cellStart = regexp.MustCompile(`(?:^|,)\s*([0-9]+)=`)

// UnmarshalFlag parses addresses of cells such as "2=postgres://…,3=postgres://…". Its errors do
// not contain them, because they may hold passwords.
func (c *CellAddresses) UnmarshalFlag(text string) error {
	starts := cellStart.FindAllStringSubmatchIndex(text, -1)
	if len(starts) == 0 || starts[0][0] != 0 {
		return errors.New("must be CELL=URL,CELL=URL, with the number of a cell before each address")
	}

	urls := make(map[int64]string, len(starts))
	for i, start := range starts {
		end := len(text)
		if i+1 < len(starts) {
			end = starts[i+1][0]
		}

		id, err := strconv.ParseInt(text[start[2]:start[3]], 10, 64)
		switch {
		case err != nil || id < 1:
			return errors.New("the number of a cell is not from 1 to 9223372036854775807")
		case id == db.DefaultCell:
			return fmt.Errorf("cell %d is always at --database-url", id)
		case urls[id] != "":
			return fmt.Errorf("cell %d has two addresses", id)
		}

		if strings.Count(text[start[1]:end], "://") > 1 {
			return fmt.Errorf("cell %d: the address contains another one without the number of its cell", id)
		}
		var url DatabaseURL
		if err := url.UnmarshalFlag(text[start[1]:end]); err != nil {
			return fmt.Errorf("cell %d: %w", id, err)
		}
		urls[id] = string(url)
	}

	c.URLs = urls
	return nil
}
