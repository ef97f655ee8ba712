package target

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/tallygate/tallygate/graph/export"
)

// Row is an exported page view or event, as far as verification needs it.
type Row struct {
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

// pageSize is the number of rows per export request: the largest permitted.
const pageSize = 50_000

// Export calls each with every row of a site since from.
func (a *Account) Export(ctx context.Context, siteID, kind string, from time.Time, each func(*Row) error) error {
	cursor := CursorBefore(from)
	for {
		rows, last, err := a.ExportPage(ctx, siteID, kind, from, cursor, pageSize, each)
		if err != nil || rows < pageSize {
			return err
		}

		cursor = last
	}
}

// CursorBefore returns the cursor before the first row of a time: the last possible one of the
// microsecond before. Ids are compared as signed numbers.
func CursorBefore(at time.Time) string {
	return fmt.Sprintf("%d-%016x", at.UnixMicro()-1, int64(math.MaxInt64))
}

// ExportPage reads at most limit rows after a cursor. It returns their number and the cursor of the
// last one.
func (a *Account) ExportPage(ctx context.Context, siteID, kind string, from time.Time, cursor string, limit int,
	each func(*Row) error) (rows int, last string, err error) {
	query := url.Values{"site_id": {siteID}, "type": {kind}, "cursor": {cursor}, "limit": {strconv.Itoa(limit)},
		"from": {from.UTC().Format(time.DateOnly)}, "to": {time.Now().UTC().AddDate(0, 0, 1).Format(time.DateOnly)}}

	request, err := http.NewRequestWithContext(ctx, http.MethodGet, a.Target.Control+export.Path+"?"+query.Encode(),
		nil)
	if err != nil {
		return 0, "", err
	}

	a.authorize(request)
	client := *a.http

	// A page may take long; ctx bounds it.
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

// readRows decodes an array of rows. A truncated array is an error.
func readRows(body io.Reader, each func(*Row) error) (rows int, last string, err error) {
	in := json.NewDecoder(body)
	if err := expect(in, '['); err != nil {
		return 0, "", err
	}

	// More also returns false after a read error, which the next token reports.
	for in.More() {
		var r Row
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
