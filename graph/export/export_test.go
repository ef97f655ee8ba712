package export_test

import (
	"context"
	"encoding/binary"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/accounts"
	"github.com/tallygate/tallygate/db/ingest"
	"github.com/tallygate/tallygate/db/keys"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/nodeid"
	"github.com/tallygate/tallygate/db/sites"
	"github.com/tallygate/tallygate/graph/export"
	"github.com/tallygate/tallygate/tools/dbtest"
	"github.com/tallygate/tallygate/tools/testkit"
	"github.com/tallygate/tallygate/tools/world"
)

func TestMain(m *testing.M) { os.Exit(dbtest.RunByTurns(m)) }

var noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// shop is a site with page views, its owner, and the download handler.
type shop struct {
	t     *testing.T
	db    *db.DB
	owner *model.User
	site  *model.Site
	ids   *nodeid.IDs
	url   string

	// events is the number of stored events. Each has a visit of its own.
	events int16
}

func newShop(t *testing.T, d *db.DB, domain string) *shop {
	t.Helper()

	w := world.New(t, d)
	owner := w.User("owner@" + domain)
	site := w.Site(domain, world.Of(owner.AccountID))
	ids, err := keys.New(d).NodeIDs(t.Context())
	testkit.NoError(t, err)

	s := &shop{t: t, db: d, owner: owner, site: site, ids: ids}
	s.serve(export.Handler(export.Options{
		DB:   d,
		User: func(r *http.Request) (*model.User, error) { return s.user(r) },
		Log:  slog.New(slog.NewTextHandler(t.Output(), nil)),
	}), 0)

	return s
}

// socketBuffer is the size in bytes of the buffers of the server's sockets and of clients that do
// not read. The kernel's default holds megabytes, and each unread download would fill them.
const socketBuffer = 16 << 10

// serve serves the shop's downloads until the test ends.
func (s *shop) serve(handler http.Handler, writeTimeout time.Duration) {
	s.t.Helper()

	server := httptest.NewUnstartedServer(handler)
	server.Config.WriteTimeout = writeTimeout
	server.Config.ConnContext = func(ctx context.Context, conn net.Conn) context.Context {
		if err := conn.(*net.TCPConn).SetWriteBuffer(socketBuffer); err != nil {
			s.t.Error(err)
		}
		return ctx
	}

	server.Start()
	s.t.Cleanup(server.Close)
	s.url = server.URL + export.Path
}

// slowClient sends the requests whose responses are not read.
var slowClient = http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	return conn, conn.(*net.TCPConn).SetReadBuffer(socketBuffer)
}}}

// user replaces the session: it returns the owner, unless the request is marked as unauthenticated.
func (s *shop) user(r *http.Request) (*model.User, error) {
	if r.Header.Get("X-Unauthenticated") != "" {
		return nil, nil
	}
	return s.owner, nil
}

// store stores page views of one visit, one second apart, with the given paths.
func (s *shop) store(at time.Time, v model.Visit, paths ...string) {
	s.t.Helper()

	v.SiteID, v.N, v.StartedAt, v.LastPageviewAt = s.site.ID, int16(at.Unix()%10_000), model.At(at), model.At(at)
	v.Pageviews = int32(len(paths))
	changes := ingest.HitChanges{NewVisits: []model.Visit{v}}
	for i, path := range paths {
		row := model.Pageview{SiteID: s.site.ID, At: model.At(at).Add(time.Duration(i) * time.Second), ID: int64(i) - 1,
			Visitor: v.Visitor, N: v.N, Path: path, Language: "de", WidthRange: 1920, Manual: i == 0}
		changes.Pageviews = append(changes.Pageviews, row)
		changes.Engagement = append(changes.Engagement, model.Engagement{MS: 1500, Scroll: 40,
			EngagementKey: model.EngagementKey{SiteID: row.SiteID, Day: row.At.Day(), PageviewID: row.ID}})
	}

	hits := ingest.NewHitStore(dbtest.SitesCell(s.t, s.db))
	defer hits.Close()

	key := model.UsageKey{SiteID: s.site.ID, Month: model.At(at).Month()}
	err := hits.Update(s.t.Context(), ingest.HitKeys{Usage: []model.UsageKey{key}}, func(*ingest.HitState) *ingest.HitChanges { return &changes })
	testkit.NoError(s.t, err)
}

// storeEvent stores an event of a visit that has page views at the visit's times, or none if
// LastPageviewAt is 0. Store gives no visit such a high number.
func (s *shop) storeEvent(v model.Visit, e model.Event) {
	s.t.Helper()

	s.events++
	visitor, n := int64(binary.BigEndian.Uint64(v.Visitor[:])), 10_000+s.events

	// An empty text is stored as NULL.
	null := func(s string) any {
		if s == "" {
			return nil
		}
		return s
	}

	var value any

	if e.Currency != "" {
		value = int64(e.Value)
	}

	err := errors.Join(
		dbtest.Exec(s.db, `INSERT INTO visits (site_id, visitor, day, n, started_at, last_pageview_at, pageviews, channel, user_id, client, attribution)
			VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
			s.site.ID, visitor, e.At.Day(), n, e.At, v.LastPageviewAt, v.Pageviews, v.Channel.Number(), append([]byte{}, v.UserID...), v.Client.Pack(),
			model.PackAttribution(v.Referrer, &v.Campaign)),
		dbtest.Exec(s.db, `INSERT INTO events (site_id, at, id, visitor, n, name, path, value, currency, transaction_id, properties)
			VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
			s.site.ID, e.At, e.ID, visitor, n, e.Name, e.Path, value, null(e.Currency), null(e.TransactionID), null(e.Properties)))
	testkit.NoError(s.t, err)
}

// get downloads with parameters in addition to the required ones; an empty value removes one.
func (s *shop) get(parameters map[string]string, header http.Header) (*http.Response, string) {
	s.t.Helper()

	all := url.Values{"site_id": {nodeid.Of(s.ids, s.site.ID)}, "type": {"pageviews"}, "from": {"2026-11-20"}, "to": {"2026-11-20"}}
	for name, value := range parameters {
		if all.Set(name, value); value == "" {
			all.Del(name)
		}
	}

	request, err := http.NewRequest(http.MethodGet, s.url+"?"+all.Encode(), nil)
	testkit.NoError(s.t, err)

	request.Header = header.Clone()
	response, err := http.DefaultClient.Do(request)
	testkit.NoError(s.t, err)
	defer response.Body.Close()

	body, err := io.ReadAll(response.Body)
	testkit.NoError(s.t, err)

	return response, string(body)
}

func (s *shop) rows(parameters map[string]string) []map[string]any {
	s.t.Helper()
	response, body := s.get(parameters, nil)
	var rows []map[string]any
	if err := json.Unmarshal([]byte(body), &rows); err != nil || response.StatusCode != http.StatusOK {
		s.t.Fatalf("%v: %s %s, %v", parameters, response.Status, body, err)
	}
	return rows
}

func paths(rows []map[string]any) []string {
	paths := make([]string, len(rows))
	for i, row := range rows {
		paths[i] = row["path"].(string)
	}
	return paths
}

func TestErrors(t *testing.T) {
	dbtest.Parallel(t, func(t *testing.T, d *db.DB) {
		s, other := newShop(t, d, "shop.example"), newShop(t, d, "other.example")
		foreign := nodeid.Of(s.ids, other.site.ID)
		for _, test := range []struct {
			name       string
			parameters map[string]string
			header     http.Header
			status     int
			body       string
		}{
			{"no session", nil, http.Header{"X-Unauthenticated": {"1"}}, 401, `{"error":"not_signed_in"}`},
			{
				name: "no session comes before a bad parameter", parameters: map[string]string{"limit": "x"},
				header: http.Header{"X-Unauthenticated": {"1"}}, status: 401, body: `{"error":"not_signed_in"}`,
			},
			{"no site", map[string]string{"site_id": ""}, nil, 400, `{"error":"bad_parameter","parameter":"site_id"}`},
			{"an id of no form", map[string]string{"site_id": "7"}, nil, 404, `{"error":"unknown_site"}`},
			{"an unknown site", map[string]string{"site_id": s.ids.Of(nodeid.Site, 999)}, nil, 404, `{"error":"unknown_site"}`},
			{"a foreign site", map[string]string{"site_id": foreign}, nil, 404, `{"error":"unknown_site"}`},
			{"the id of something else", map[string]string{"site_id": s.ids.Of(nodeid.User, int64(s.site.ID))}, nil, 404, `{"error":"unknown_site"}`},
			{"no from", map[string]string{"from": ""}, nil, 400, `{"error":"bad_parameter","parameter":"from"}`},
			{"a day that is none", map[string]string{"from": "2026-02-30"}, nil, 400, `{"error":"bad_parameter","parameter":"from"}`},
			{"a day in another form", map[string]string{"to": "20.11.2026"}, nil, 400, `{"error":"bad_parameter","parameter":"to"}`},
			{"the day before the first one", map[string]string{"from": "1969-12-31"}, nil, 400, `{"error":"bad_parameter","parameter":"from"}`},
			{"from the year 0", map[string]string{"from": "0000-01-01"}, nil, 400, `{"error":"bad_parameter","parameter":"from"}`},
			{
				name: "from the year 9999", parameters: map[string]string{"from": "9999-01-01", "to": "9999-01-01"},
				header: nil, status: 400, body: `{"error":"bad_parameter","parameter":"from"}`,
			},
			{"to the year 9999", map[string]string{"to": "9999-01-01"}, nil, 400, `{"error":"bad_parameter","parameter":"to"}`},
			{"to the last day of all", map[string]string{"to": "9999-12-31"}, nil, 400, `{"error":"bad_parameter","parameter":"to"}`},
			{"to a year before 1970", map[string]string{"to": "1969-12-31"}, nil, 400, `{"error":"bad_parameter","parameter":"to"}`},
			{"to before from", map[string]string{"to": "2026-11-19"}, nil, 400, `{"error":"bad_parameter","parameter":"to"}`},
			{"no type", map[string]string{"type": ""}, nil, 400, `{"error":"bad_parameter","parameter":"type"}`},
			{"another type", map[string]string{"type": "visits"}, nil, 400, `{"error":"bad_parameter","parameter":"type"}`},
			{"another format", map[string]string{"format": "xml"}, nil, 400, `{"error":"bad_parameter","parameter":"format"}`},
			{"limit 0", map[string]string{"limit": "0"}, nil, 400, `{"error":"bad_parameter","parameter":"limit"}`},
			{"limit 50001", map[string]string{"limit": "50001"}, nil, 400, `{"error":"bad_parameter","parameter":"limit"}`},
			{"limit in words", map[string]string{"limit": "ten"}, nil, 400, `{"error":"bad_parameter","parameter":"limit"}`},
			{"negative offset", map[string]string{"offset": "-1"}, nil, 400, `{"error":"bad_parameter","parameter":"offset"}`},
			{
				name: "an offset beyond numbers", parameters: map[string]string{"offset": "99999999999999999999"},
				header: nil, status: 400, body: `{"error":"bad_parameter","parameter":"offset"}`,
			},
			{"a cursor that is none", map[string]string{"cursor": "x"}, nil, 400, `{"error":"bad_parameter","parameter":"cursor"}`},
		} {
			t.Run(test.name, func(t *testing.T) {
				response, body := s.get(test.parameters, test.header)
				if response.StatusCode != test.status || strings.TrimSpace(body) != test.body {
					t.Errorf("got %d %s, want %d %s", response.StatusCode, body, test.status, test.body)
				}
			})
		}

		// A parameter that cannot be decoded is not absent: a client that pages with it would read
		// the first page for ever.
		for parameters, name := range map[string]string{
			"limit=%zz": "limit", "offset=%zz": "offset", "limit=1;offset=1": "limit", "cursor=%": "cursor", "offset=1&limit=%f": "limit",
			"page%zz=1": "query", "a;b": "query", "other=%zz": "query",
		} {
			query := url.Values{"site_id": {nodeid.Of(s.ids, s.site.ID)}, "type": {"pageviews"},
				"from": {"2026-11-20"}, "to": {"2026-11-20"}}.Encode() + "&" + parameters
			response, err := http.Get(s.url + "?" + query)
			testkit.NoError(t, err)

			body, err := io.ReadAll(response.Body)
			response.Body.Close()
			want := `{"error":"bad_parameter","parameter":"` + name + `"}`
			if err != nil || response.StatusCode != http.StatusBadRequest || strings.TrimSpace(string(body)) != want {
				t.Errorf("%s: %d %s, %v; want 400 %s", parameters, response.StatusCode, body, err, want)
			}
		}

		response, err := http.Post(s.url, "text/plain", nil)
		testkit.NoError(t, err)

		response.Body.Close()

		if response.StatusCode != http.StatusMethodNotAllowed || response.Header.Get("Allow") != "GET, HEAD" {
			t.Errorf("POST: %d, Allow %q", response.StatusCode, response.Header.Get("Allow"))
		}
	})
}

func TestRange(t *testing.T) {
	dbtest.Parallel(t, func(t *testing.T, d *db.DB) {
		s := newShop(t, d, "shop.example")
		midnight := time.Date(2026, 11, 20, 0, 0, 0, 0, time.UTC)
		s.store(midnight.Add(-time.Microsecond), model.Visit{Channel: "direct", Visitor: model.VisitorID{1}}, "/19th")
		s.store(midnight, model.Visit{Channel: "direct", Visitor: model.VisitorID{2}}, "/20th first")
		s.store(midnight.Add(24*time.Hour-time.Microsecond), model.Visit{Channel: "direct", Visitor: model.VisitorID{2}}, "/20th last")
		s.store(midnight.Add(24*time.Hour), model.Visit{Channel: "direct", Visitor: model.VisitorID{3}}, "/21st")

		for _, test := range []struct {
			from, to string
			want     []string
		}{
			{"2026-11-20", "2026-11-20", []string{"/20th first", "/20th last"}},
			{"2026-11-19", "2026-11-20", []string{"/19th", "/20th first", "/20th last"}},
			{"2026-11-21", "2026-12-31", []string{"/21st"}},
			{"2026-11-22", "2026-12-31", []string{}},
			{"1970-01-01", "9998-12-31", []string{"/19th", "/20th first", "/20th last", "/21st"}},
		} {
			if got := paths(s.rows(map[string]string{"from": test.from, "to": test.to})); !slices.Equal(got, test.want) {
				t.Errorf("%s to %s: %q, want %q", test.from, test.to, got, test.want)
			}
		}
	})
}

func TestPaging(t *testing.T) {
	dbtest.Parallel(t, func(t *testing.T, d *db.DB) {
		s := newShop(t, d, "shop.example")
		var want []string
		for i := range 25 {
			want = append(want, fmt.Sprintf("/%02d", i))
		}

		s.store(noon, model.Visit{Channel: "direct"}, want...)
		var byOffset, byCursor []string
		cursor := ""

		for i := 0; i < len(want); i += 7 {
			byOffset = append(byOffset, paths(s.rows(map[string]string{"limit": "7", "offset": fmt.Sprint(i)}))...)
			page := s.rows(map[string]string{"limit": "7", "cursor": cursor})
			byCursor = append(byCursor, paths(page)...)
			cursor = page[len(page)-1]["row_id"].(string)
		}

		testkit.EqualSlices(t, byOffset, want, "by offset")
		testkit.EqualSlices(t, byCursor, want, "by cursor")
		if rest := s.rows(map[string]string{"cursor": cursor}); len(rest) != 0 {
			t.Errorf("after the last row: %v", rest)
		}
	})
}

// TestColumns compares a whole row, in both formats.
func TestColumns(t *testing.T) {
	dbtest.Parallel(t, func(t *testing.T, d *db.DB) {
		s := newShop(t, d, "shop.example")
		s.store(noon, model.Visit{Visitor: model.VisitorID{0xab, 7: 0xcd}, Channel: "paid search", Referrer: "www.google.com",
			UserID: []byte{0xfe, 15: 0x01},
			Client: model.Client{Country: "CH", Browser: model.SamsungInternet, System: model.Android, Device: model.Phone, Host: "shop.example"},
			Campaign: model.Campaign{
				Source: "google", Medium: "cpc", Name: "=1+1", Content: "a,b", Term: "\"tea\"", Gclid: "G", Gbraid: "-B",
				Wbraid: "W", Fbclid: "F", Msclkid: "M",
			}},
			"/shop")

		row := s.rows(nil)[0]
		visitID := row["visit_id"].(string)
		want := map[string]any{
			"row_id": "1795176000000000-ffffffffffffffff", "time": "2026-11-20T12:00:00.000000Z", "pageview_id": "ffffffffffffffff",
			"path": "/shop", "language": "de", "screen_width": "1920+", "engaged_ms": 1500.0, "scroll_percent": 40.0, "manual": true,
			"visitor_id": "vab000000000000cd", "visit_id": visitID, "visit_started_at": "2026-11-20T12:00:00.000000Z",
			"visit_last_pageview_at": "2026-11-20T12:00:00.000000Z", "visit_pageviews": 1.0, "channel": "paid search",
			"referrer": "www.google.com", "utm_source": "google", "utm_medium": "cpc", "utm_campaign": "=1+1", "utm_content": "a,b",
			"utm_term": `"tea"`, "gclid": "G", "gbraid": "-B", "wbraid": "W", "fbclid": "F", "msclkid": "M",
			"user_id": "fe000000000000000000000000000001",
			"country": "CH", "browser": "Samsung Internet", "system": "Android", "device": "phone", "hostname": "shop.example",
		}
		if got, want := fmt.Sprint(row), fmt.Sprint(want); got != want {
			t.Errorf("JSON row\n%s, want\n%s", got, want)
		}

		response, body := s.get(map[string]string{"format": "csv"}, nil)
		if got := response.Header.Get("Content-Disposition"); got != `attachment; filename="shop.example-pageviews.csv"` {
			t.Errorf("Content-Disposition %q", got)
		}

		records, err := csv.NewReader(strings.NewReader(body)).ReadAll()
		if err != nil || len(records) != 2 {
			t.Fatalf("CSV %q: %v", body, err)
		}

		for i, name := range records[0] {
			wantCell := fmt.Sprint(want[name])

			// A spreadsheet would run this text.
			switch name {
			case "utm_campaign":
				wantCell = "'=1+1"
			case "gbraid":
				wantCell = "'-B"
			}

			testkit.Equal(t, records[1][i], wantCell, "CSV column %s", name)
		}

		testkit.Equal(t, len(records[0]), len(want), "CSV columns")
	})
}

// TestEventColumns compares a whole row as it is sent, in both formats.
func TestEventColumns(t *testing.T) {
	dbtest.Parallel(t, func(t *testing.T, d *db.DB) {
		s := newShop(t, d, "shop.example")
		at := model.At(noon)
		s.storeEvent(
			model.Visit{Visitor: model.VisitorID{0xab, 7: 0xcd}, LastPageviewAt: at, Pageviews: 2, Channel: "direct",
				UserID: []byte{0xfe, 15: 0x01}, Campaign: model.Campaign{Source: "@newsletter"},
				Client: model.Client{Country: "DE", Browser: model.Firefox, System: model.Linux, Device: model.Desktop, Host: "www.shop.example"}},
			model.Event{At: at, ID: 7, Name: "refund", Path: "/return", Value: -12_340_000, Currency: "EUR", TransactionID: "=R1",
				Properties: `{"items":[{"item_id":"a, b","price":6.17}],"note":"\"x\""}`})

		visitID := s.rows(map[string]string{"type": "events"})[0]["visit_id"].(string)

		_, body := s.get(map[string]string{"type": "events"}, nil)

		want := `[
{"row_id":"1795176000000000-0000000000000007","time":"2026-11-20T12:00:00.000000Z","event":"refund","path":"/return",` +
			`"value":-12.34,"currency":"EUR","transaction_id":"=R1",` +
			`"properties":{"items":[{"item_id":"a, b","price":6.17}],"note":"\"x\""},` +
			`"visitor_id":"vab000000000000cd","visit_id":"` + visitID + `","visit_started_at":"2026-11-20T12:00:00.000000Z",` +
			`"visit_last_pageview_at":"2026-11-20T12:00:00.000000Z","visit_pageviews":2,"channel":"direct","referrer":null,` +
			`"utm_source":"@newsletter","utm_medium":null,"utm_campaign":null,"utm_content":null,"utm_term":null,` +
			`"gclid":null,"gbraid":null,"wbraid":null,"fbclid":null,"msclkid":null,"user_id":"fe000000000000000000000000000001",` +
			`"country":"DE","browser":"Firefox","system":"Linux","device":"desktop","hostname":"www.shop.example"}]
`
		if body != want {
			t.Errorf("JSON\n%s, want\n%s", body, want)
		}

		response, body := s.get(map[string]string{"type": "events", "format": "csv"}, nil)
		if got := response.Header.Get("Content-Disposition"); got != `attachment; filename="shop.example-events.csv"` {
			t.Errorf("Content-Disposition %q", got)
		}

		want = "row_id,time,event,path,value,currency,transaction_id,properties,visitor_id,visit_id,visit_started_at," +
			"visit_last_pageview_at,visit_pageviews,channel,referrer,utm_source,utm_medium,utm_campaign,utm_content,utm_term," +
			"gclid,gbraid,wbraid,fbclid,msclkid,user_id,country,browser,system,device,hostname\r\n" +
			"1795176000000000-0000000000000007,2026-11-20T12:00:00.000000Z,refund,/return,-12.34,EUR,'=R1," +
			`"{""items"":[{""item_id"":""a, b"",""price"":6.17}],""note"":""\""x\""""}",` +
			"vab000000000000cd," + visitID + ",2026-11-20T12:00:00.000000Z,2026-11-20T12:00:00.000000Z,2,direct,," +
			"'@newsletter,,,,,,,,,,fe000000000000000000000000000001,DE,Firefox,Linux,desktop,www.shop.example\r\n"
		if body != want {
			t.Errorf("CSV\n%s, want\n%s", body, want)
		}
	})
}

// TestControlCharacters: texts with tabs, newlines and quotes keep both formats readable and are
// returned as stored.
func TestControlCharacters(t *testing.T) {
	dbtest.Parallel(t, func(t *testing.T, d *db.DB) {
		s := newShop(t, d, "shop.example")
		at := model.At(noon)
		const path, properties = "/a\tb\nc \"d\", \x01\x7f\ufffd", `{"a\n":"\t\r\n\u0001","n":"1e400"}`
		s.storeEvent(model.Visit{LastPageviewAt: at, Pageviews: 1, Channel: "direct"},
			model.Event{At: at, ID: 7, Name: "signup", Path: path, Properties: properties})

		row := s.rows(map[string]string{"type": "events"})[0]
		if want := map[string]any{"a\n": "\t\r\n\x01", "n": "1e400"}; row["path"] != path || !reflect.DeepEqual(row["properties"], want) {
			t.Errorf("JSON: path %q, properties %q", row["path"], row["properties"])
		}

		_, text := s.get(map[string]string{"type": "events", "format": "csv"}, nil)
		records, err := csv.NewReader(strings.NewReader(text)).ReadAll()
		if err != nil || len(records) != 2 {
			t.Fatalf("CSV %q: %d records, %v; want 2", text, len(records), err)
		}
		testkit.Equal(t, records[1][3], path, "CSV: path")
		testkit.Equal(t, records[1][7], properties, "CSV: properties")
	})
}

// TestLineBreaks: the CSV file has line breaks of texts as they are stored. The bytes are compared,
// because Go's reader changes line breaks.
func TestLineBreaks(t *testing.T) {
	dbtest.Parallel(t, func(t *testing.T, d *db.DB) {
		s := newShop(t, d, "shop.example")
		at := model.At(noon)
		for i, path := range []string{"/a\nb", "/a\rb", "/a\r\nb", "\r\n", "/a\n\r=1\r"} {
			s.storeEvent(model.Visit{LastPageviewAt: at, Pageviews: 1, Channel: "direct"},
				model.Event{At: at, ID: int64(i) + 1, Name: "signup", Path: path})
		}

		_, body := s.get(map[string]string{"type": "events", "format": "csv"}, nil)

		rest := body
		for _, want := range []string{
			`"/a` + "\n" + `b"`, `"/a` + "\r" + `b"`, `"/a` + "\r\n" + `b"`, `"'` + "\r\n" + `"`,
			`"/a` + "\n\r'=1\r" + `"`,
		} {
			_, after, found := strings.Cut(rest, ",signup,"+want+",")
			if !found {
				t.Errorf("CSV %q: no cell %q in the rest %q", body, want, rest)
				continue
			}

			rest = after
		}

		if !strings.HasSuffix(rest, "\r\n") || strings.Count(rest, "\n") != 1 {
			t.Errorf("the last line ends in %q", rest)
		}
	})
}

// TestAmounts: every amount is a number with all its decimals, in both formats.
func TestAmounts(t *testing.T) {
	dbtest.Parallel(t, func(t *testing.T, d *db.DB) {
		s := newShop(t, d, "shop.example")

		amounts := map[model.Money]string{
			0: "0", 1: "0.000001", -1: "-0.000001", 19_990_000: "19.99", 1e18: "1000000000000", -1e18: "-1000000000000",
			100_000_000_000_100_000: "100000000000.1",
		}
		for value := range amounts {
			s.storeEvent(model.Visit{Channel: "direct"}, model.Event{
				At: model.At(noon), ID: int64(value), Name: "purchase", Path: "/", Value: value, Currency: "JPY",
			})
		}

		var rows []struct {
			RowID string          `json:"row_id"`
			Value json.RawMessage `json:"value"`
		}

		_, body := s.get(map[string]string{"type": "events"}, nil)
		if err := json.Unmarshal([]byte(body), &rows); err != nil || len(rows) != len(amounts) {
			t.Fatalf("%d rows, %v: %s", len(rows), err, body)
		}

		_, body = s.get(map[string]string{"type": "events", "format": "csv"}, nil)
		records, err := csv.NewReader(strings.NewReader(body)).ReadAll()
		testkit.NoError(t, err)

		for i, row := range rows {
			id, _ := strconv.ParseUint(row.RowID[len(row.RowID)-16:], 16, 64)
			want := amounts[model.Money(id)]
			testkit.Equal(t, string(row.Value), want, "JSON value of %d: %s", int64(id), row.Value)
			testkit.Equal(t, records[i+1][4], want, "CSV value of %d", int64(id))
		}
	})
}

// TestEventPaging: range, offset and cursor work for events as for page views, and neither appears
// among the other.
func TestEventPaging(t *testing.T) {
	dbtest.Parallel(t, func(t *testing.T, d *db.DB) {
		s, other := newShop(t, d, "shop.example"), newShop(t, d, "other.example")
		s.store(noon, model.Visit{Channel: "direct"}, "/a page view")
		midnight := model.At(time.Date(2026, 11, 20, 0, 0, 0, 0, time.UTC))
		event := func(s *shop, at model.Instant, id int64, path string) {
			s.storeEvent(model.Visit{Channel: "direct"}, model.Event{At: at, ID: id, Name: "signup", Path: path})
		}

		event(s, midnight.Add(-time.Microsecond), 0, "/19th")
		event(s, midnight.Add(24*time.Hour), 0, "/21st")
		event(other, midnight.Add(time.Hour), 0, "/of another site")

		// They have the same time and are ordered by id.
		want := []string{"/-2", "/-1", "/0", "/1", "/2"}
		for i := range int64(5) {
			event(s, midnight, i-2, want[i])
		}

		var byOffset, byCursor []string
		cursor := ""

		for i := 0; i < len(want); i += 2 {
			byOffset = append(byOffset, paths(s.rows(map[string]string{"type": "events", "limit": "2", "offset": fmt.Sprint(i)}))...)
			page := s.rows(map[string]string{"type": "events", "limit": "2", "cursor": cursor})
			byCursor = append(byCursor, paths(page)...)
			cursor = page[len(page)-1]["row_id"].(string)
		}

		testkit.EqualSlices(t, byOffset, want, "by offset")
		testkit.EqualSlices(t, byCursor, want, "by cursor")
		testkit.EqualSlices(t, paths(s.rows(nil)), []string{"/a page view"}, "page views")
	})
}

// TestFarRange: days outside of the range of time-based ids are accepted.
func TestFarRange(t *testing.T) {
	dbtest.Parallel(t, func(t *testing.T, d *db.DB) {
		s := newShop(t, d, "shop.example")
		s.store(noon, model.Visit{Channel: "direct"}, "/")

		for _, test := range []struct {
			from, to, cursor string
			want             int
		}{
			{"1970-01-01", "9998-12-31", "", 1},
			{"2019-12-31", "2093-06-01", "", 1},
			{"9998-12-31", "9998-12-31", "", 0},
			{"1970-01-01", "9998-12-31", "9223372036854775807-7fffffffffffffff", 0},
		} {
			if got := s.rows(map[string]string{"from": test.from, "to": test.to, "cursor": test.cursor}); len(got) != test.want {
				t.Errorf("%s to %s after %q: %d rows, want %d", test.from, test.to, test.cursor, len(got), test.want)
			}
		}
	})
}

func TestNothingToExport(t *testing.T) {
	dbtest.Parallel(t, func(t *testing.T, d *db.DB) {
		s := newShop(t, d, "shop.example")
		for kind, header := range map[string]string{"pageviews": "row_id,time,pageview_id,", "events": "row_id,time,event,"} {
			if _, body := s.get(map[string]string{"type": kind}, nil); strings.TrimSpace(body) != "[]" {
				t.Errorf("JSON of no %s: %q", kind, body)
			}

			_, body := s.get(map[string]string{"type": kind, "format": "csv"}, nil)
			if !strings.HasPrefix(body, header) || strings.Count(body, "\n") != 1 {
				t.Errorf("CSV of no %s: %q", kind, body)
			}
		}
	})
}

// TestNullColumns: an unknown value is null in JSON and empty in CSV.
func TestNullColumns(t *testing.T) {
	dbtest.Parallel(t, func(t *testing.T, d *db.DB) {
		s := newShop(t, d, "shop.example")
		s.store(noon, model.Visit{Channel: "direct"}, "/")

		// The visit has only events.
		s.storeEvent(model.Visit{Channel: "direct"}, model.Event{At: model.At(noon), Name: "signup", Path: "/"})

		for kind, columns := range map[string][]string{
			"pageviews": {"referrer", "utm_source", "gclid", "user_id"},
			"events": {"value", "currency", "transaction_id", "properties", "visit_last_pageview_at",
				"referrer", "utm_source", "gclid", "user_id"},
		} {
			row := s.rows(map[string]string{"type": kind})[0]
			_, body := s.get(map[string]string{"type": kind, "format": "csv"}, nil)
			records, err := csv.NewReader(strings.NewReader(body)).ReadAll()
			if err != nil || len(records) != 2 {
				t.Fatalf("CSV of %s: %q, %v", kind, body, err)
			}

			for _, name := range columns {
				if value, ok := row[name]; value != nil || !ok {
					t.Errorf("JSON of %s: %s is %v, present %v; want null", kind, name, value, ok)
				}
				if i := slices.Index(records[0], name); i < 0 || records[1][i] != "" {
					t.Errorf("CSV of %s: %s is %q; want nothing", kind, name, records[1])
				}
			}
		}
	})
}

func TestDatabaseUnavailable(t *testing.T) {
	dbtest.Parallel(t, func(t *testing.T, d *db.DB) {
		s := newShop(t, d, "shop.example")

		testkit.NoError(t, d.Close())

		response, body := s.get(nil, nil)
		if response.StatusCode != http.StatusServiceUnavailable || strings.TrimSpace(body) != `{"error":"unavailable"}` {
			t.Errorf("got %d %s, want 503 unavailable", response.StatusCode, body)
		}
	})
}

// TestDownloadsOfSeveralAccounts: a member downloads the sites of each of their accounts, and no
// other ones.
func TestDownloadsOfSeveralAccounts(t *testing.T) {
	dbtest.Parallel(t, func(t *testing.T, d *db.DB) {
		first, second, foreign := newShop(t, d, "first.example"), newShop(t, d, "second.example"), newShop(t, d, "foreign.example")
		world.New(t, d).Member(first.owner.AccountID, "agency@example.com", model.RoleViewer)
		testkit.NoError(t, dbtest.Exec(d, "INSERT INTO memberships (user_id, account_id, role, created_at) "+
			"SELECT id, ?, 'VIEWER', 2 FROM users WHERE email = 'agency@example.com'", second.owner.AccountID))

		agency, err := accounts.New(d).UserByEmail(t.Context(), "agency@example.com")
		testkit.NoError(t, err)

		first.owner = agency
		for site, want := range map[*model.Site]int{first.site: 200, second.site: 200, foreign.site: 404} {
			response, body := first.get(map[string]string{"site_id": nodeid.Of(first.ids, site.ID)}, nil)
			testkit.Equal(t, response.StatusCode, want, "%s: %s %s", site.Domain, response.Status, body)
		}
	})
}

// TestDownloadsOfGuests: a guest downloads the own site of an account, and no other one.
func TestDownloadsOfGuests(t *testing.T) {
	dbtest.Parallel(t, func(t *testing.T, d *db.DB) {
		first := newShop(t, d, "first.example")
		other := world.New(t, d).Site("other.example", world.Of(first.owner.AccountID))
		invitation := model.NewInvitation(first.owner.AccountID, "guest@example.com", model.RoleViewer, "secret", dbtest.Start)
		invitation.SiteIDs = []model.SiteID{first.site.ID}
		if _, err := accounts.New(d).Invitations.Create(t.Context(), invitation, nil); err != nil {
			t.Fatal(err)
		}
		guest, err := accounts.New(d).Invitations.Accept(t.Context(), model.HashToken("secret"), "hash", model.English, dbtest.Start)
		testkit.NoError(t, err)

		first.owner = guest
		for site, want := range map[*model.Site]int{first.site: 200, other: 404} {
			response, body := first.get(map[string]string{"site_id": nodeid.Of(first.ids, site.ID)}, nil)
			testkit.Equal(t, response.StatusCode, want, "%s: %s %s", site.Domain, response.Status, body)
		}
	})
}

// unread starts a download whose client does not read. The rows exceed the buffers of the sockets.
func (s *shop) unread() *http.Response {
	s.t.Helper()

	response, err := slowClient.Get(s.url + "?" + url.Values{"site_id": {nodeid.Of(s.ids, s.site.ID)}, "type": {"pageviews"},
		"from": {"2026-11-20"}, "to": {"2026-11-20"}, "limit": {"50000"}}.Encode())
	testkit.NoError(s.t, err)

	s.t.Cleanup(func() { _ = response.Body.Close() })
	return response
}

// manyRows is more than the rows that a download reads at once.
const manyRows = 1_100

// storeMany stores manyRows page views, of 2 KB each.
func (s *shop) storeMany() {
	s.t.Helper()
	many := make([]string, manyRows)
	for i := range many {
		many[i] = "/" + strings.Repeat("x", 2_000)
	}
	s.store(noon, model.Visit{Channel: "direct"}, many...)
}

// TestSlowReadersHoldNobody: downloads whose clients do not read hold no database connection.
func TestSlowReadersHoldNobody(t *testing.T) {
	dbtest.Parallel(t, func(t *testing.T, d *db.DB) {
		s := newShop(t, d, "shop.example")
		s.storeMany()

		// That is more than the connections of either pool.
		for i := range 12 {
			next := newShop(t, d, fmt.Sprintf("shop%d.example", i))
			testkit.NoError(t, dbtest.Exec(d, "UPDATE sites SET account_id = ? WHERE id = ?", next.owner.AccountID, s.site.ID))

			s.owner, next.site = next.owner, s.site
			for range 2 {
				if response := next.unread(); response.StatusCode != http.StatusOK {
					t.Fatalf("status %d", response.StatusCode)
				}
			}
		}

		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()

		if _, err := sites.New(d).Sites.SiteByID(ctx, s.owner.AccountID, s.site.ID); err != nil {
			t.Errorf("another query: %v", err)
		}
	})
}

// queued serves the shop's downloads with another maximum wait, and with a write deadline for
// requests that do not wait.
func (s *shop) queued(wait, writeTimeout time.Duration) export.Queue {
	s.t.Helper()
	queue := export.NewQueue(export.Options{DB: s.db, User: s.user, Log: slog.New(slog.NewTextHandler(s.t.Output(), nil))}, wait)
	s.serve(queue, writeTimeout)
	return queue
}

// outcome is the result of a download.
type outcome struct {
	status int
	rows   int
	err    error
}

// start starts a download of everything in the background.
func (s *shop) start(ctx context.Context) <-chan outcome {
	ended := make(chan outcome, 1)
	go func() {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url+"?"+url.Values{"site_id": {nodeid.Of(s.ids, s.site.ID)},
			"type": {"pageviews"}, "from": {"2026-11-20"}, "to": {"2026-11-20"}}.Encode(), nil)
		if err != nil {
			ended <- outcome{err: err}
			return
		}

		response, err := http.DefaultClient.Do(request)
		if err != nil {
			ended <- outcome{err: err}
			return
		}

		defer response.Body.Close()

		var rows []json.RawMessage

		if response.StatusCode == http.StatusOK {
			err = json.NewDecoder(response.Body).Decode(&rows)
		}

		ended <- outcome{response.StatusCode, len(rows), err}
	}()

	return ended
}

// TestSixDownloadsAtOnce: concurrent downloads of an account wait for each other, and all of them
// succeed.
func TestSixDownloadsAtOnce(t *testing.T) {
	dbtest.Parallel(t, func(t *testing.T, d *db.DB) {
		s := newShop(t, d, "shop.example")
		s.storeMany()

		// A busy machine must not end the wait.
		s.queued(time.Hour, 0)

		// The lock makes the six wait.
		first, second := s.unread(), s.unread()
		var all []<-chan outcome
		for range 6 {
			all = append(all, s.start(t.Context()))
		}

		// To read them through their small buffers would take ten seconds.
		for _, response := range []*http.Response{first, second} {
			if err := response.Body.Close(); err != nil {
				t.Error(err)
			}
		}

		for _, ended := range all {
			if got := <-ended; got.status != http.StatusOK || got.rows != manyRows || got.err != nil {
				t.Errorf("%+v, want %d rows", got, manyRows)
			}
		}
	})
}

// TestDownloadsQueue: an account has two downloads at once, and a bounded number that wait in order
// of arrival. A disconnected client leaves the queue. Waiting downloads hold no database connection
// and do not delay other accounts.
func TestDownloadsQueue(t *testing.T) {
	dbtest.Parallel(t, func(t *testing.T, d *db.DB) {
		s, other := newShop(t, d, "shop.example"), newShop(t, d, "other.example")
		s.storeMany()
		queue := s.queued(time.Hour, 0)
		first, second := s.unread(), s.unread()

		const line = 20 // more than either pool has connections
		leaving, leave := context.WithCancel(t.Context())
		defer leave()

		disconnected := s.start(leaving)
		testkit.Await(t, "the first one does not wait", func() bool { return queue.Waiting() == 1 })
		next := s.start(t.Context())
		testkit.Await(t, "the second one does not wait", func() bool { return queue.Waiting() == 2 })

		var waiting []<-chan outcome
		for range line - 2 {
			waiting = append(waiting, s.start(leaving))
		}

		testkit.Await(t, "the line is not full", func() bool { return queue.Waiting() == line })

		response, body := s.get(nil, nil)
		if response.StatusCode != http.StatusTooManyRequests || strings.TrimSpace(body) != `{"error":"too_many_downloads"}` ||
			response.Header.Get("Retry-After") != "5" || response.Header.Get("Content-Disposition") != "" {
			t.Errorf("one more than may wait: %s %v %s", response.Status, response.Header, body)
		}

		if response, body := s.get(map[string]string{"limit": "0"}, nil); response.StatusCode != http.StatusBadRequest {
			t.Errorf("one with a mistake: %s %s", response.Status, body)
		}

		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()

		if _, err := sites.New(d).Sites.SiteByID(ctx, s.owner.AccountID, s.site.ID); err != nil {
			t.Errorf("another query: %v", err)
		}

		other.rows(nil)

		leave()

		for _, ended := range append(waiting, disconnected) {
			if got := <-ended; !errors.Is(got.err, context.Canceled) {
				t.Errorf("a disconnected client: %+v", got)
			}
		}

		testkit.Await(t, "those that have left still wait", func() bool { return queue.Waiting() == 1 })
		second.Body.Close()

		if got := <-next; got.status != http.StatusOK || got.rows != manyRows || got.err != nil {
			t.Errorf("the remaining client: %+v", got)
		}

		first.Body.Close()
	})
}

// TestWaitInVain: a download without a turn is refused after its wait, even if that exceeds the
// server's write deadline.
func TestWaitInVain(t *testing.T) {
	t.Parallel()
	s := newShop(t, dbtest.Open(t, dbtest.SQLiteURL(t)), "shop.example")
	s.storeMany()
	const wait = 400 * time.Millisecond
	s.queued(wait, wait/4)
	s.unread()
	s.unread()
	began := time.Now()

	response, body := s.get(nil, nil)
	if response.StatusCode != http.StatusTooManyRequests || strings.TrimSpace(body) != `{"error":"too_many_downloads"}` ||
		response.Header.Get("Retry-After") != "5" {
		t.Errorf("%s %v %s", response.Status, response.Header, body)
	}
	if took := time.Since(began); took < wait {
		t.Errorf("refused after %v, before %v", took, wait)
	}
}

// TestBrokenDownload: an error after the first bytes aborts the connection, so a partial file
// cannot be mistaken for a complete one.
func TestBrokenDownload(t *testing.T) {
	testkit.SkipLong(t, "a download of many rows")
	dbtest.Parallel(t, func(t *testing.T, d *db.DB) {
		s := newShop(t, d, "shop.example")
		s.storeMany()

		response := s.unread()
		if response.StatusCode != http.StatusOK {
			t.Fatalf("status %d", response.StatusCode)
		}
		testkit.NoError(t, dbtest.Exec(d, "DROP TABLE pageviews"))
		if _, err := io.Copy(io.Discard, response.Body); !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("the client read to the end with %v, want an unexpected end", err)
		}
	})
}

// TestDatabaseStopped: while PostgreSQL is stopped a download is answered with 503 and Retry-After,
// and the log does not fill. It recovers by itself.
func TestDatabaseStopped(t *testing.T) {
	t.Parallel()
	t.Run("postgres", func(t *testing.T) {
		postgres := dbtest.StartPostgres(t)
		s := newShop(t, dbtest.Open(t, postgres.URL()), "example.com")
		address := s.url + "?type=pageviews&from=2026-11-20&to=2026-11-20&site_id=" + url.QueryEscape(nodeid.Of(s.ids, s.site.ID))
		download := func() *http.Response {
			t.Helper()
			response, err := http.Get(address)
			testkit.NoError(t, err)
			response.Body.Close()
			return response
		}
		if response := download(); response.StatusCode != http.StatusOK {
			t.Fatalf("with a database: %s", response.Status)
		}

		start := postgres.Crash()

		for range 3 {
			if response := download(); response.StatusCode != http.StatusServiceUnavailable || response.Header.Get("Retry-After") != "5" {
				t.Errorf("without one: %s, Retry-After %q", response.Status, response.Header.Get("Retry-After"))
			}
		}

		start()

		if response := download(); response.StatusCode != http.StatusOK {
			t.Errorf("afterwards: %s", response.Status)
		}
	})
}
