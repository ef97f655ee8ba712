package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/tallygate/tallygate/graph/export"
)

// row is what verify reads of an exported page view or event.
type row struct {
	RowID          string          `json:"row_id"`
	Time           time.Time       `json:"time"`
	PageviewID     string          `json:"pageview_id"`
	Event          string          `json:"event"`
	EngagedMS      int             `json:"engaged_ms"`
	TransactionID  string          `json:"transaction_id"`
	Properties     json.RawMessage `json:"properties"`
	VisitID        string          `json:"visit_id"`
	VisitStartedAt time.Time       `json:"visit_started_at"`
	VisitPageviews int             `json:"visit_pageviews"`
}

// mark finds the mark that the hit carried.
func (r *row) mark() (mark, bool) {
	if r.PageviewID != "" {
		return parseMark(r.PageviewID)
	}
	if _, id, ok := strings.Cut(r.TransactionID, "-"); ok {
		return parseMark(id)
	}

	var p struct{ Mark, File, Host string }
	if json.Unmarshal(r.Properties, &p) != nil {
		return 0, false
	}

	host, _, _ := strings.Cut(p.Host, ".")
	file := strings.TrimSuffix(strings.TrimPrefix(p.File, "/files/"), ".pdf")

	// an event has one of the three
	return parseMark(p.Mark + file + host)
}

// pageSize is how many rows one request of an export takes: the most that are allowed.
const pageSize = 50_000

// export calls each with the rows of a site from a moment on.
func (a *account) export(ctx context.Context, siteID, kind string, from time.Time, each func(*row) error) error {
	cursor := cursorBefore(from)
	for {
		rows, last, err := a.exportPage(ctx, siteID, kind, from, cursor, pageSize, each)
		if err != nil || rows < pageSize {
			return err
		}

		cursor = last
	}
}

// cursorBefore is the cursor before the first row of a moment: the last possible one of the
// microsecond before. Ids are compared as signed numbers.
func cursorBefore(moment time.Time) string {
	return fmt.Sprintf("%d-%016x", moment.UnixMicro()-1, int64(math.MaxInt64))
}

// exportPage reads one page of at most limit rows after a cursor, and returns how many there were
// and the last one's cursor.
func (a *account) exportPage(ctx context.Context, siteID, kind string, from time.Time, cursor string, limit int, each func(*row) error) (rows int, last string, err error) {
	query := url.Values{"site_id": {siteID}, "type": {kind}, "cursor": {cursor}, "limit": {strconv.Itoa(limit)},
		"from": {from.UTC().Format(time.DateOnly)}, "to": {time.Now().UTC().AddDate(0, 0, 1).Format(time.DateOnly)}}

	request, err := http.NewRequestWithContext(ctx, http.MethodGet, a.target.Control+export.Path+"?"+query.Encode(), nil)
	if err != nil {
		return 0, "", err
	}

	a.authorize(request)
	client := *a.http

	// a page may take long; the context bounds it
	client.Timeout = 0
	response, err := client.Do(request)
	if err != nil {
		return 0, "", err
	}
	defer response.Body.Close()

	if response.StatusCode != http.StatusOK {
		body, _ := io.ReadAll(io.LimitReader(response.Body, 500))
		return 0, "", fmt.Errorf("export of site %s: %s %s", siteID, response.Status, body)
	}

	if rows, last, err = readRows(response.Body, each); err != nil {
		return 0, "", fmt.Errorf("export of site %s: %w", siteID, err)
	}

	return rows, last, nil
}

// readRows reads an array of rows. One that breaks off is an error.
func readRows(body io.Reader, each func(*row) error) (rows int, last string, err error) {
	in := json.NewDecoder(body)
	if err := expect(in, '['); err != nil {
		return 0, "", err
	}

	// which also ends where nothing can be read any more
	for in.More() {
		var r row
		if err := in.Decode(&r); err != nil {
			return 0, "", err
		}
		if err := each(&r); err != nil {
			return 0, "", err
		}

		rows, last = rows+1, r.RowID
	}

	return rows, last, expect(in, ']')
}

func expect(in *json.Decoder, bracket json.Delim) error {
	token, err := in.Token()
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	if err == nil && token != bracket {
		err = fmt.Errorf("%v instead of %v", token, bracket)
	}

	return err
}
