package graph_test

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/graph/upload"
	"github.com/tallygate/tallygate/tools/dbtest"
	"github.com/tallygate/tallygate/tools/testkit"
)

// uploads serves the upload route of an app.
func (a *app) uploads() string {
	a.t.Helper()
	handler := value(upload.Handler(upload.Options{
		DB: a.db, Log: slog.New(slog.DiscardHandler), BaseURL: a.url, Now: a.clock.Now, User: a.auth.Uploader,
	}))(a.t)
	server := httptest.NewServer(handler)
	a.t.Cleanup(server.Close)
	return server.URL
}

// put sends a piece of an upload, with the client's cookies.
func (c *client) put(base, job string, offset int, data []byte, header ...string) string {
	c.t.Helper()
	address := fmt.Sprintf("%s%s?job_id=%s&offset=%d", base, upload.Path, job, offset)
	request := value(http.NewRequestWithContext(c.t.Context(), http.MethodPut, address, bytes.NewReader(data)))(c.t)
	for i := 0; i < len(header); i += 2 {
		request.Header.Set(header[i], header[i+1])
	}
	response := value(c.http.Do(request))(c.t)
	defer response.Body.Close()
	body := value(io.ReadAll(response.Body))(c.t)
	return fmt.Sprintf("%d %s", response.StatusCode, strings.TrimSpace(string(body)))
}

const startUpload = `mutation($site: ID!, $size: Int64!) { startImport(input: {siteId: $site, source: UMAMI, firstDay: "2020-01-01",
	files: [{name: "a.csv", size: $size}, {name: "b.csv", size: 3}]}) { importJob { id state size received files { name size } }
	userErrors { field code } } }`

// TestImportUpload uploads two files in pieces: in order, again, out of order, by others, and after
// a cancellation.
func TestImportUpload(t *testing.T) {
	eachApp(t, func(t *testing.T, a *app) {
		base := a.uploads()
		c := a.owner("owner@first.example")
		site := c.createSite("first.example").ok(t, "createSite").at("createSite.site.id").(string)
		other := a.owner("owner@second.example")
		viewer := a.join(c, "viewer@first.example", model.RoleViewer)
		writer, reader := c.createToken("READ", "WRITE"), c.createToken("READ")

		const size = model.ImportChunk + 7
		started := c.query(startUpload, "site", site, "size", size-3).ok(t, "startImport")
		job := started.at("startImport.importJob.id").(string)
		c.query(startUpload, "site", site, "size", 5).named("a second job").fails(t, "startImport", "siteId:IMPORT_IN_PROGRESS")

		data := bytes.Repeat([]byte("x"), size)
		first, rest := data[:model.ImportChunk], data[model.ImportChunk:]
		for _, call := range []struct {
			name   string
			client *client
			job    string
			offset int
			data   []byte
			header []string
			want   string
		}{
			{"unauthenticated", a.client(), job, 0, first, nil, `401 {"error":"not_signed_in"}`},
			{"viewer", viewer, job, 0, first, nil, `403 {"error":"forbidden"}`},
			{"another account", other, job, 0, first, nil, `404 {"error":"not_found"}`},
			{"unknown", c, a.unknown(job), 0, first, nil, `404 {"error":"not_found"}`},
			{"reading token", a.client(), job, 0, first, []string{"Authorization", "Bearer " + reader.secret}, `403 {"error":"forbidden"}`},
			{
				name: "another origin", client: c, job: job, offset: 0, data: first,
				header: []string{"Origin", "https://evil.example", "Sec-Fetch-Site", "cross-site"},
				want:   `403 {"error":"forbidden"}`,
			},
			{"out of order", c, job, model.ImportChunk, rest, nil, `200 {"received":0}`},
			{"odd offset", c, job, 5, rest, nil, `400 {"error":"bad_parameter","parameter":"offset"}`},
			{"short", c, job, 0, rest, nil, `400 {"error":"bad_chunk"}`},
			{"long", c, job, 0, data, nil, `400 {"error":"bad_chunk"}`},
			{"first", c, job, 0, first, nil, `200 {"received":1048576}`},
			{"first again", c, job, 0, first, nil, `200 {"received":1048576}`},
			{
				name: "last, by a token", client: a.client(), job: job, offset: model.ImportChunk, data: rest,
				header: []string{"Authorization", "Bearer " + writer.secret}, want: `200 {"received":1048583}`,
			},
			{"last again", c, job, model.ImportChunk, rest, nil, `200 {"received":1048583}`},
			{"after the end", c, job, 2 * model.ImportChunk, rest, nil, `409 {"error":"import_finished"}`},
		} {
			equal(t, call.client.put(base, call.job, call.offset, call.data, call.header...), call.want, "%s", call.name)
		}

		const read = `query($id: ID!) { site(id: $id) { importJobs { state received progress preview { days } error { code } finishedAt } imports { id } } }`
		if got := c.query(read, "id", site); got.Body != `{"data":{"site":{"importJobs":[{"state":"READING","received":1048583,"progress":0,`+
			`"preview":null,"error":null,"finishedAt":null}],"imports":[]}}}` {
			t.Errorf("the job is %s", got.Body)
		}

		c.do("confirmImport", "importJobId", job).named("confirmed early").fails(t, "confirmImport", "importJobId:IMPORT_NOT_READY")
		c.done("cancelImport", "importJobId", job).named("canceled").has(t, "cancelImport.importJob.state", "CANCELED")
		c.do("cancelImport", "importJobId", job).named("canceled twice").fails(t, "cancelImport", "importJobId:IMPORT_FINISHED")

		// An expired upload takes no piece.
		expired := c.query(startUpload, "site", site, "size", 5).ok(t, "startImport").at("startImport.importJob.id").(string)
		a.clock.Add(model.ImportJobExpiry + time.Second)
		again := a.client()
		again.signIn("owner@first.example", password).ok(t, "signIn")
		equal(t, again.put(base, expired, 0, []byte("12345678")), `409 {"error":"import_finished"}`, "an expired upload")
	})
}

// TestImportInput checks the errors in the input of startImport.
func TestImportInput(t *testing.T) {
	eachAppWith(t, func(s *settings) { s.graph.WebhookNets = []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")} }, func(t *testing.T, a *app) {
		c := a.owner("owner@first.example")
		site := c.createSite("first.example").ok(t, "createSite").at("createSite.site.id").(string)
		for input, want := range map[string]string{
			`source: UMAMI`:                                                                                                "files:INVALID_FILES",
			`source: UMAMI, files: []`:                                                                                     "files:INVALID_FILES",
			`source: UMAMI, files: [{name: "a", size: 0}]`:                                                                 "files.0:INVALID_FILES",
			`source: UMAMI, files: [{name: "", size: 5}]`:                                                                  "files.0:INVALID_FILES",
			`source: UMAMI, files: [{name: "a", size: 268435457}]`:                                                         "files:UPLOAD_TOO_LARGE",
			`source: UMAMI, files: [{name: "a", size: 5}], address: "https://example.com"`:                                 "address:INVALID_FILES",
			`source: UMAMI, files: [{name: "a", size: 5}], firstDay: "2026-02-02", lastDay: "2026-02-01"`:                  "lastDay:INVALID_DAY",
			`source: GOATCOUNTER_API, address: "https://stats.example.com"`:                                                "token:INVALID_API_TOKEN",
			`source: GOATCOUNTER_API, token: "t"`:                                                                          "address:INVALID_URL",
			`source: GOATCOUNTER_API, token: "t", address: "http://stats.example.com"`:                                     "address:INVALID_URL",
			`source: GOATCOUNTER_API, token: "t", address: "https://127.0.0.1:8443"`:                                       "address:INVALID_URL",
			`source: GOATCOUNTER_API, token: "t", address: "https://stats.example.com", files: [{name: "a.csv", size: 5}]`: "files:INVALID_FILES",
		} {
			got := c.query(`mutation($site: ID!) { startImport(input: {siteId: $site, `+input+
				`}) { importJob { id } userErrors { field code } } }`, "site", site)
			got.named("%s", input).fails(t, "startImport", want)
		}

		// The token is never shown.
		got := c.done("startImport", "siteId", site, "source", "GOATCOUNTER_API", "token", "a-secret-token", "address", "https://10.1.2.3:9000")
		if got.at("startImport.importJob.state") != "READING" || strings.Contains(a.dump(), "a-secret-token") {
			t.Errorf("started: %s", got.Body)
		}
	})
}

// TestUndoImport removes an import that is listed.
func TestUndoImport(t *testing.T) {
	eachApp(t, func(t *testing.T, a *app) {
		c := a.owner("owner@first.example")
		site := c.createSite("first.example").ok(t, "createSite").at("createSite.site.id").(string)
		id := a.storedImport(site)
		const author = `query($id: ID!) { site(id: $id) { imports { importedBy byCommand } } }`
		c.query(author, "id", site).named("an import of the command line").shows(t, `{"importedBy":null,"byCommand":true}`)
		must(t, dbtest.Exec(a.db, "UPDATE report_imports SET created_by = 1000000"))
		c.query(author, "id", site).
			named("an import of a person who is no member").shows(t, `{"importedBy":null,"byCommand":false}`)
		must(t, dbtest.Exec(a.db, "UPDATE report_imports SET created_by = (SELECT id FROM users WHERE email = 'owner@first.example')"))

		const list = `query($id: ID!) { site(id: $id) { imports { source firstDay lastDay visitors visits pageviews events importedBy hasVisits } } }`
		const want = `[{"source":"PLAUSIBLE","firstDay":"2024-10-04","lastDay":"2024-10-05","visitors":3,"visits":4,"pageviews":5,"events":6,` +
			`"importedBy":"owner@first.example","hasVisits":false}]`
		c.query(list, "id", site).named("the imports").shows(t, want)

		c.done("undoImport", "importId", id).named("undone").prints(t, "undoImport.import.pageviews", "5")
		c.query(list, "id", site).named("the imports").shows(t, `"imports":[]`)
		c.do("undoImport", "importId", id).named("undone twice").fails(t, "undoImport", "importId:NOT_FOUND")
	})
}

// TestImportError reads why a job has failed, in values from which clients write the message.
func TestImportError(t *testing.T) {
	eachApp(t, func(t *testing.T, a *app) {
		c := a.owner("owner@first.example")
		site := c.createSite("first.example").ok(t, "createSite").at("createSite.site.id").(string)
		c.done("startImport", "siteId", site, "source", "UMAMI", "files", []any{map[string]any{"name": "u.csv", "size": 5}})

		const list = `query($id: ID!) { site(id: $id) { importJobs { error { code fault name value count limit source firstDay lastDay line } } } }`
		for _, test := range []struct{ code, values, want string }{
			{"already_imported", `{"source":"plausible","first":20485,"last":20488}`,
				`{"code":"ALREADY_IMPORTED","fault":null,"name":null,"value":null,"count":0,"limit":0,"source":"PLAUSIBLE","firstDay":"2026-02-01","lastDay":"2026-02-04","line":null}`},
			{"damaged_file", `{"fault":"not_a_number","name":"visitors","value":"x","limit":1099511627776}`,
				`{"code":"DAMAGED_FILE","fault":"NOT_A_NUMBER","name":"visitors","value":"x","count":0,"limit":1099511627776,"source":null,"firstDay":null,"lastDay":null,"line":null}`},
			{
				code: "import_expired", values: "",
				want: `{"code":"IMPORT_EXPIRED","fault":null,"name":null,"value":null,"count":0,"limit":0,"source":null,"firstDay":null,"lastDay":null,"line":null}`,
			},
		} {
			err := dbtest.Exec(a.db, fmt.Sprintf("UPDATE import_jobs SET state = 5, error_code = '%s', error_values = '%s'", test.code, test.values))
			testkit.NoError(t, err)
			c.query(list, "id", site).named("the error").shows(t, test.want)
		}
	})
}

// TestSlowUploads checks that senders that never finish a piece, of more accounts than pieces are
// stored at once, delay no other account, and that their pieces are stored when they arrive.
func TestSlowUploads(t *testing.T) {
	eachApp(t, func(t *testing.T, a *app) {
		base := a.uploads()
		start := func(domain string) (c *client, job string) {
			c = a.owner("owner@" + domain)
			return c, c.query(startUpload, "site", c.siteOf(domain), "size", 5).ok(t, "startImport").at("startImport.importJob.id").(string)
		}

		const slow = 12
		read, answers := make(chan struct{}, slow), make(chan string, slow)
		var bodies []*io.PipeWriter
		for i := range slow {
			c, job := start(fmt.Sprintf("slow%d.example", i))
			body, write := io.Pipe()
			bodies = append(bodies, write)

			// The server answers 100 when it begins to read the body.
			trace := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{Got100Continue: func() { read <- struct{}{} }})
			request := value(http.NewRequestWithContext(trace, http.MethodPut, fmt.Sprintf("%s%s?job_id=%s&offset=0", base, upload.Path, job), body))(t)
			request.ContentLength = 8
			request.Header.Set("Expect", "100-continue")
			sender := http.Client{Jar: c.http.Jar, Transport: &http.Transport{ExpectContinueTimeout: 5 * time.Minute}}
			go func() {
				response, err := sender.Do(request)
				if err != nil {
					answers <- err.Error()
					return
				}
				defer response.Body.Close()
				text, _ := io.ReadAll(response.Body)
				answers <- fmt.Sprintf("%d %s", response.StatusCode, strings.TrimSpace(string(text)))
			}()
			select {
			case <-read:
			case answer := <-answers:
				t.Fatalf("slow sender %d: %s", i, answer)
			}
			if _, err := write.Write([]byte("1234")); err != nil {
				t.Fatal(err)
			}
		}

		c, job := start("honest.example")
		equal(t, c.put(base, job, 0, []byte("12345678")), `200 {"received":8}`, "an honest sender")
		for _, body := range bodies {
			if _, err := body.Write([]byte("5678")); err != nil {
				t.Error(err)
			}
			body.Close()
		}
		for range slow {
			equal(t, <-answers, `200 {"received":8}`, "a slow sender")
		}
	})
}
