package test

import (
	"bytes"
	"crypto/md5"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/exports"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/sites"
	"github.com/tallygate/tallygate/tools/countrytest"
	"github.com/tallygate/tallygate/tools/dbtest"
	"github.com/tallygate/tallygate/tools/redistest"
	"github.com/tallygate/tallygate/tools/testkit"
)

// The address and the agent of the marked visitor. Both occur nowhere else. An address of IPv6 is
// found in binary form, too: its 16 bytes occur by chance in no file.
const (
	markedAddress = "2001:db8:77:1a2b:3c4d:5e6f:7a8b:9cad"
	markedAgent   = "Mozilla/5.0 (X11; Linux x86_64; rv:145.77) Gecko/20100101 Firefox/145.77"
	markedHint    = `"MarkedBrand";v="77"`
)

// rawForms are forms in which a raw value could be kept: as it is, as bytes, in hexadecimal and
// base64, and each of these of a hash without a key.
func rawForms() map[string][]byte {
	address := netip.MustParseAddr(markedAddress)
	binary := address.As16()
	values := map[string][]byte{
		"the address": []byte(markedAddress), "the expanded address": []byte(address.StringExpanded()), "the address's bytes": binary[:],
		"the agent": []byte(markedAgent), "the agent's version": []byte("145.77"), "the hint": []byte("MarkedBrand"),
		"address and agent": []byte(markedAddress + markedAgent), "address, line, agent": []byte(markedAddress + "\n" + markedAgent),
	}

	forms := make(map[string][]byte)
	for name, value := range values {
		md, s1, s2, s5 := md5.Sum(value), sha1.Sum(value), sha256.Sum256(value), sha512.Sum512(value)
		for hash, sum := range map[string][]byte{"": value, "MD5 of ": md[:], "SHA-1 of ": s1[:], "SHA-256 of ": s2[:], "SHA-512 of ": s5[:]} {
			forms[hash+name] = sum
			forms["hexadecimal "+hash+name] = []byte(hex.EncodeToString(sum))
			forms["base64 "+hash+name] = []byte(strings.TrimRight(base64.StdEncoding.EncodeToString(sum), "="))
			forms["URL base64 "+hash+name] = []byte(strings.TrimRight(base64.URLEncoding.EncodeToString(sum), "="))
		}
	}
	return forms
}

// TestNothingRawIsKeptRealRedis runs a whole installation with all details of visits on: hits of a
// marked visitor, a conversion webhook, the queue, an access log and exports. No form of the
// address and of the agent is in what the installation stores, logs or sends.
func TestNothingRawIsKeptRealRedis(t *testing.T) {
	dbtest.ParallelURL(t, testNothingRawIsKept)
}

func testNothingRawIsKept(t *testing.T, databaseURL string) {
	redis := redistest.New(t)
	var webhook received
	receiver := httptest.NewTLSServer(&webhook)
	t.Cleanup(receiver.Close)
	settings := settingsFor(t, databaseURL)
	files := newOperatorFiles(t, time.Now())
	files.replace(t, "TALLYGATE_GEO_FILE", countrytest.Countries(t, time.Now(), map[string]string{"2001:db8:77::/48": "DE"}))
	maps.Copy(settings, files)
	maps.Copy(settings, map[string]string{
		"TALLYGATE_SECRET": dbtest.ApplicationKey, "TALLYGATE_TRUSTED_PROXIES": "127.0.0.1", "TALLYGATE_REDIS_URL": redis.URL(),
		"TALLYGATE_WEBHOOK_ALLOW_NETS": "127.0.0.1", "TALLYGATE_WEBHOOK_CA_FILE": certificateFile(t, receiver), "TALLYGATE_ACCESS_LOG": "true",
		"TALLYGATE_METRICS_ADDR": dbtest.FreeAddress(t),
	})
	p := start(t, settings, []string{"control", "data", "metrics"})

	d := dbtest.Open(t, databaseOf(settings))
	siteKey := makeSite(t, d, receiver.URL)
	site := keepAllDetails(t, d, siteKey)

	sendMarked(t, p, siteKey)
	testkit.Await(t, "the webhook", func() bool { return bytes.Contains(webhook.bytes(), []byte("marked-order")) })

	_, metrics := get(t, "http://"+p.addr["metrics"]+"/metrics")
	rows := exported(t, d, site.ID)
	for _, want := range []string{`"country":"DE"`, `"browser":"Firefox"`, `"system":"Linux"`, `"device":"desktop"`, `"hostname":"shop.example"`} {
		if !strings.Contains(rows, want) {
			t.Errorf("the export lacks %s:\n%s", want, rows)
		}
	}

	kept := map[string][]byte{
		"the export": []byte(rows), "the webhook": webhook.bytes(), "the metrics": []byte(metrics), "the queue": dumpRedis(t, redis),
	}
	if d.IsPostgres() {
		kept["the database"] = dumpPostgres(t, d)
	}
	p.signal(syscall.SIGTERM)
	kept["the log"], kept["the access log"] = []byte(p.logged()), bytes.Clone(p.Out.Bytes())
	readFolder(t, settings["TALLYGATE_DATA_DIR"], kept)

	// The search would be worth nothing if it did not find what is there.
	everything := bytes.Join(slices.Collect(maps.Values(kept)), nil)
	for _, there := range []string{"marked-page", "marked-order", "DEfld"} {
		if !bytes.Contains(everything, []byte(there)) {
			t.Errorf("%q was not found", there)
		}
	}
	for form, value := range rawForms() {
		for place, content := range kept {
			if bytes.Contains(content, value) {
				t.Errorf("%s has %s", place, form)
			}
		}
	}
}

// received keeps all that a server gets.
type received struct {
	mu  sync.Mutex
	all bytes.Buffer
}

func (r *received) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	body, _ := io.ReadAll(request.Body)
	r.mu.Lock()
	defer r.mu.Unlock()
	fmt.Fprintf(&r.all, "%v\n%s\n", request.Header, body)
}

func (r *received) bytes() []byte {
	r.mu.Lock()
	defer r.mu.Unlock()
	return bytes.Clone(r.all.Bytes())
}

// keepAllDetails makes a site keep everything that a site can.
func keepAllDetails(t *testing.T, d *db.DB, siteKey string) *model.SiteRules {
	t.Helper()
	site, err := sites.New(d).Lookup.SiteRulesByKey(t.Context(), siteKey)
	testkit.NoError(t, err)
	details, shields := model.List[model.VisitDetail](model.VisitDetails), model.List[model.Shield](model.Shields)
	err = sites.New(d).Sites.UpdateSite(t.Context(), site.AccountID, site.ID, sites.SiteUpdate{VisitDetails: &details, Shields: &shields})
	testkit.NoError(t, err)
	return site
}

// sendMarked sends hits of all kinds by the marked visitor, also a refused and an ignored one.
func sendMarked(t *testing.T, p *process, siteKey string) {
	t.Helper()
	const view = "00000000000000aa"
	for _, call := range []struct {
		body   string
		status int
	}{
		{`{"k":"` + siteKey + `","t":"pageview","p":"/marked-page","i":"` + view + `","w":1920,"l":"de"}`, 204},
		{`{"k":"` + siteKey + `","t":"engagement","p":"/marked-page","i":"` + view + `","ms":5000,"sc":50}`, 204},
		{`{"k":"` + siteKey + `","t":"event","p":"/marked-page","e":"purchase",
			"m":{"transaction_id":"marked-order","value":19.9,"currency":"EUR"}}`, 204},
		{`{"k":"` + siteKey + `","t":"pageview","p":"/","r":"https://spam.example/"}`, 204},
		{`{"k":"` + siteKey + `","t":"event","p":"/","e":"unknown"}`, 400},
		{`{"k":"` + siteKey + `","t":"pageview","p":1`, 400},
	} {
		response, _ := exchange(t, http.DefaultClient, http.MethodPost, "http://"+p.addr["data"]+"/collect.php", call.body,
			map[string]string{
				"Origin": "https://shop.example", "User-Agent": markedAgent, "X-Forwarded-For": markedAddress,
				"Sec-CH-UA": markedHint, "Sec-CH-UA-Platform": `"Linux"`, "Sec-CH-UA-Mobile": "?0",
			})
		testkit.Require(t, response.StatusCode, call.status, "%s", call.body)
	}
}

// exported returns a site's page views and events as JSON.
func exported(t *testing.T, d *db.DB, siteID model.SiteID) string {
	t.Helper()
	var rows []byte
	add := func(fields []exports.Field) (err error) {
		rows, err = exports.AppendJSON(rows, fields)
		return err
	}
	store, all := exports.New(d), exports.Range{SiteID: siteID, To: 1 << 60, Limit: 1_000}
	testkit.NoError(t, store.ExportPageviews(t.Context(), all, func(row *exports.Pageview) error { return add(row.Fields()) }))
	testkit.NoError(t, store.ExportEvents(t.Context(), all, func(row *exports.Event) error { return add(row.Fields()) }))
	return string(rows)
}

// dumpRedis returns all keys and values of a server in its own form, which compresses only long
// texts.
func dumpRedis(t *testing.T, server *redistest.Server) (dump []byte) {
	t.Helper()
	client := server.Client()
	keys, err := client.Keys(t.Context(), "*").Result()
	if err != nil || len(keys) == 0 {
		t.Fatalf("%d keys, error %v", len(keys), err)
	}
	for _, key := range keys {
		value, err := client.Dump(t.Context(), key).Result()
		if err != nil {
			continue // it has expired
		}
		dump = append(append(dump, key...), value...)
	}
	return dump
}

// dumpPostgres returns all rows of all tables as text, with bytes in hexadecimal.
func dumpPostgres(t *testing.T, d *db.DB) (dump []byte) {
	t.Helper()
	tables, err := dbtest.Tables(d)
	if err != nil || len(tables["visits"]) == 0 {
		t.Fatalf("%d tables, error %v", len(tables), err)
	}
	for table := range tables {
		rows, err := dbtest.Rows[struct{ Text string }](d, `SELECT CAST(t AS text) AS text FROM "`+table+`" AS t`)
		testkit.NoError(t, err)
		for _, row := range rows {
			dump = append(append(dump, row.Text...), '\n')
		}
	}
	return dump
}

// readFolder adds the files of a folder.
func readFolder(t *testing.T, folder string, to map[string][]byte) {
	t.Helper()
	err := filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		to[path], err = os.ReadFile(path)
		return err
	})
	testkit.NoError(t, err)
}
