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

// Row is what verify reads of an exported page view or event.
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

// pageSize is how many rows one request of an export takes: the most that are allowed.
const pageSize = 50_000

// Export calls each with the rows of a site from a moment on.
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

// CursorBefore is the cursor before the first row of a moment: the last possible one of the
// microsecond before. Ids are compared as signed numbers.
func CursorBefore(moment time.Time) string {
	return fmt.Sprintf("%d-%016x", moment.UnixMicro()-1, int64(math.MaxInt64))
}

// ExportPage reads one page of at most limit rows after a cursor, and returns how many there were
// and the last one's cursor.
func (a *Account) ExportPage(ctx context.Context, siteID, kind string, from time.Time, cursor string, limit int, each func(*Row) error) (rows int, last string, err error) {
	query := url.Values{"site_id": {siteID}, "type": {kind}, "cursor": {cursor}, "limit": {strconv.Itoa(limit)},
		"from": {from.UTC().Format(time.DateOnly)}, "to": {time.Now().UTC().AddDate(0, 0, 1).Format(time.DateOnly)}}

	request, err := http.NewRequestWithContext(ctx, http.MethodGet, a.Target.Control+export.Path+"?"+query.Encode(), nil)
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
func readRows(body io.Reader, each func(*Row) error) (rows int, last string, err error) {
	in := json.NewDecoder(body)
	if err := expect(in, '['); err != nil {
		return 0, "", err
	}

	// which also ends where nothing can be read any more
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
