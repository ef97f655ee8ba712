package importer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tallygate/tallygate/db/model"
)

// goatAPI calls the API of a GoatCounter site.
type goatAPI struct {
	address *url.URL
	token   string
	client  *http.Client

	most   int  // bytes of an answer
	hidden bool // answers are not part of errors
	count  func(bytes int) error
}

// Limits of the API's answers and of calls that it refuses for its rate limit, 4 calls a second by
// default.
const (
	maxAnswer  = 64 << 20 // bytes
	maxHidden  = 8 << 20  // bytes, with a client of Options
	maxRefused = 20       // in a row
	goatList   = 100      // paths or referrers of an answer, unless GoatCounter runs with -api-max
	maxClients = 10_000   // browsers, systems or locations of a day
)

// newGoatAPI returns the API of the site at an address such as https://stats.example.com.
func newGoatAPI(address, token string, client *http.Client) (*goatAPI, error) {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" {
		return nil, fmt.Errorf("not the address of a GoatCounter site, such as https://stats.example.com: %.80q", address)
	}
	if token == "" {
		return nil, errors.New("the token of GoatCounter's API is missing")
	}

	if client != nil {
		return &goatAPI{address: u.JoinPath("/api/v0"), token: token, client: client, most: maxHidden, hidden: true}, nil
	}
	client = &http.Client{
		Timeout: time.Minute,
		// The token is for this address alone.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return &goatAPI{address: u.JoinPath("/api/v0"), token: token, client: client, most: maxAnswer}, nil
}

// get reads an answer into to. It waits and repeats a call that was refused for the rate limit.
func (a *goatAPI) get(ctx context.Context, path string, query url.Values, to any) error {
	u := a.address.JoinPath(path)
	u.RawQuery = query.Encode()
	failed := func(err error) error {
		// Queries list up to 100 ids.
		return placed(err, fmt.Sprintf("%.120s", u.RequestURI()), 0)
	}

	for range maxRefused {
		wait, err := a.call(ctx, u, to)
		if err != nil {
			return failed(err)
		}
		if wait == 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(wait):
		}
	}
	return failed(model.Damaged(model.FaultRateLimit, model.ImportValues{}))
}

// call makes one call. It returns how long to wait before the next try, or 0 after an answer.
func (a *goatAPI) call(ctx context.Context, u *url.URL, to any) (wait time.Duration, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return 0, err
	}
	request.Header.Set("Authorization", "Bearer "+a.token)
	request.Header.Set("Content-Type", "application/json") // the API refuses other types

	response, err := a.client.Do(request)
	if err != nil {
		return 0, err
	}
	defer response.Body.Close()

	if response.StatusCode == http.StatusTooManyRequests {
		seconds, _ := strconv.Atoi(response.Header.Get("Retry-After")) // rounded, so that it can be 0
		return time.Duration(min(max(seconds, 0), 60))*time.Second + 100*time.Millisecond, nil
	}
	body, err := io.ReadAll(io.LimitReader(response.Body, int64(a.most)+1))
	if err == nil {
		err = a.count(len(body))
	}
	switch {
	case err != nil:
		return 0, err
	case len(body) > a.most:
		return 0, unexpected("an answer of more than %d bytes", a.most)
	case response.StatusCode != http.StatusOK && a.hidden:
		return 0, unexpected("status %d", response.StatusCode)
	case response.StatusCode != http.StatusOK:
		return 0, unexpected("status %d: %.200q", response.StatusCode, strings.TrimSpace(string(body)))
	}
	if err := json.Unmarshal(body, to); err != nil && a.hidden {
		return 0, unexpected("not an answer of GoatCounter's API")
	} else if err != nil {
		return 0, unexpected("not an answer of GoatCounter's API: %v", err)
	}
	return 0, nil
}

// unexpected returns the failure of an answer that the API should not give.
func unexpected(format string, args ...any) error {
	return model.Damaged(model.FaultAnswer, model.ImportValues{Value: fmt.Sprintf(format, args...)})
}

// goatStat has the counts of a UTC day.
type goatStat struct {
	Day    string  `json:"day"`
	Hourly []int64 `json:"hourly"`
}

// goatHour is an hour with its count.
type goatHour struct {
	at time.Time
	n  int64
}

// hours returns the hours that have a count.
func (s *goatStat) hours() (hours []goatHour, err error) {
	on, err := day(s.Day)
	if err != nil {
		return nil, err
	}
	if len(s.Hourly) != 24 {
		return nil, unexpected("%v has %d hours instead of 24", on, len(s.Hourly))
	}

	for i, n := range s.Hourly {
		if n < 0 || n > model.MaxImportFigure {
			return nil, unexpected("the count of %v is not a number from 0 to %d: %d", on, int64(model.MaxImportFigure), n)
		}
		if n > 0 {
			hours = append(hours, goatHour{on.Start().Time().Add(time.Duration(i) * time.Hour), n})
		}
	}
	return hours, nil
}

// checkZone fails if the API shifts hours to another time zone than UTC.
func (a *goatAPI) checkZone(ctx context.Context) error {
	var me struct {
		User struct {
			Settings struct {
				Timezone string `json:"timezone"` // country and name, such as "DE.Europe/Berlin" or ".UTC"
			} `json:"settings"`
		} `json:"user"`
	}
	if err := a.get(ctx, "me", nil, &me); err != nil {
		return err
	}

	zone := me.User.Settings.Timezone
	if _, name, _ := strings.Cut(zone, "."); name != "UTC" && name != "Etc/UTC" {
		return model.Damaged(model.FaultTimeZone, model.ImportValues{Value: zone})
	}
	return nil
}

// totals returns the counts of all UTC days up to today.
func (a *goatAPI) totals(ctx context.Context) ([]goatStat, error) {
	var total struct {
		Total int64      `json:"total"`
		Stats []goatStat `json:"stats"`
	}
	query := url.Values{"start": {firstDay.Start().Time().Format(time.RFC3339)}}
	if err := a.get(ctx, "stats/total", query, &total); err != nil {
		return nil, err
	}
	if total.Total > 0 && len(total.Stats) == 0 {
		return nil, model.Damaged(model.FaultVersion, model.ImportValues{})
	}
	return total.Stats, nil
}

// paths returns the ids of all paths.
func (a *goatAPI) paths(ctx context.Context) ([]int64, error) {
	var ids []int64
	for {
		var page struct {
			Paths []struct {
				ID int64 `json:"id"`
			} `json:"paths"`
			More bool `json:"more"`
		}
		query := url.Values{"limit": {"200"}}
		if len(ids) > 0 {
			query.Set("after", strconv.FormatInt(ids[len(ids)-1], 10))
		}
		if err := a.get(ctx, "paths", query, &page); err != nil {
			return nil, err
		}

		for _, path := range page.Paths {
			if len(ids) > 0 && path.ID <= ids[len(ids)-1] {
				return nil, unexpected("GoatCounter lists paths twice")
			}
			ids = append(ids, path.ID)
		}
		if !page.More {
			return ids, nil
		}
		if len(page.Paths) == 0 || len(ids) > model.MaxImportFigures {
			return nil, unexpected("GoatCounter lists more than %d paths", len(ids))
		}
	}
}

// goatPath is a path with its counts.
type goatPath struct {
	ID    int64      `json:"path_id"`
	Path  string     `json:"path"`
	Event bool       `json:"event"`
	Stats []goatStat `json:"stats"`
}

// hits returns paths of those left that have counts from one time to another, both included, and
// removes them from left. more reports whether another call returns further ones.
func (a *goatAPI) hits(ctx context.Context, from, to time.Time, left map[int64]bool) (paths []goatPath, more bool, err error) {
	var page struct {
		Hits []goatPath `json:"hits"`
		More bool       `json:"more"`
	}
	if err := a.get(ctx, "stats/hits", rangeQuery(from, to, left), &page); err != nil {
		return nil, false, err
	}

	for i := range page.Hits {
		if !left[page.Hits[i].ID] {
			return nil, false, unexpected("GoatCounter lists the path %.40q without being asked", page.Hits[i].Path)
		}
		delete(left, page.Hits[i].ID)
	}
	more = page.More && len(left) > 0
	if more && len(page.Hits) == 0 {
		return nil, false, unexpected("GoatCounter lists paths that it does not return")
	}
	return page.Hits, more, nil
}

// rangeQuery asks for the counts of paths in the hours from one time to another. No ids are all
// paths.
func rangeQuery(from, to time.Time, ids map[int64]bool) url.Values {
	query := url.Values{
		"start": {from.UTC().Format(time.RFC3339)}, "end": {to.UTC().Format(time.RFC3339)}, "limit": {strconv.Itoa(goatList)},
	}
	if len(ids) > 0 {
		list := fmt.Sprint(slices.Sorted(maps.Keys(ids)))
		query.Set("include_paths", strings.ReplaceAll(strings.Trim(list, "[]"), " ", ","))
	}
	return query
}

// goatRef is a referrer. See goatOrigin.
type goatRef struct{ name, scheme string }

// refs adds the counts of the referrers of paths from a time until before another one to counts,
// times factor. The API returns a reliable list of only its first page, so a longer list is read in
// two halves of the time.
func (a *goatAPI) refs(
	ctx context.Context, from, until time.Time, ids map[int64]bool, factor int64, counts map[goatRef]int64,
) error {
	var page struct {
		Stats []struct {
			Name   string `json:"name"`
			Count  int64  `json:"count"`
			Scheme string `json:"ref_scheme"`
		} `json:"stats"`
		More bool `json:"more"`
	}
	if err := a.get(ctx, "stats/toprefs", rangeQuery(from, until.Add(-time.Second), ids), &page); err != nil {
		return err
	}

	if page.More {
		half := until.Sub(from).Truncate(2*time.Hour) / 2
		if half < time.Hour {
			return unexpected("the hour %s has more than %d referrers, which GoatCounter's API does not list", from.UTC().Format(time.DateTime),
				len(page.Stats))
		}
		if err := a.refs(ctx, from, from.Add(half), ids, factor, counts); err != nil {
			return err
		}
		return a.refs(ctx, from.Add(half), until, ids, factor, counts)
	}
	for _, ref := range page.Stats {
		if ref.Count < 0 || ref.Count > model.MaxImportFigure {
			return unexpected("the count of the referrer %.40q is not a number from 0 to %d: %d", ref.Name,
				int64(model.MaxImportFigure), ref.Count)
		}
		counts[goatRef{ref.Name, ref.Scheme}] += factor * ref.Count
	}
	return nil
}

// clients adds the counts of a list of browsers, systems or locations on a UTC day to counts, times
// factor, by name or by the code of the country.
func (a *goatAPI) clients(
	ctx context.Context, list string, day model.Day, ids map[int64]bool, factor int64, counts map[string]int64,
) error {
	from, until := day.Start().Time(), (day + 1).Start().Time()
	query, seen := rangeQuery(from, until.Add(-time.Second), ids), make(map[string]bool)
	for offset := 0; ; {
		var page struct {
			Stats []struct {
				ID    string `json:"id"`
				Count int64  `json:"count"`
			} `json:"stats"`
			More bool `json:"more"`
		}
		if err := a.get(ctx, "stats/"+list, query, &page); err != nil {
			return err
		}

		for _, one := range page.Stats {
			if one.Count < 0 || one.Count > model.MaxImportFigure {
				return unexpected("the count of %.40q in %s of %v is not a number from 0 to %d: %d", one.ID, list, day,
					int64(model.MaxImportFigure), one.Count)
			}

			// Rows with equal counts have no order, so that a later page can repeat them.
			if !seen[one.ID] {
				seen[one.ID] = true
				counts[one.ID] += factor * one.Count
			}
		}
		if !page.More {
			return nil
		}
		if offset += len(page.Stats); len(page.Stats) == 0 || offset > maxClients {
			return unexpected("GoatCounter lists more than %d %s on %v", offset, list, day)
		}
		query.Set("offset", strconv.Itoa(offset))
	}
}
