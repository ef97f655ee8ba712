package test

import (
	"encoding/json"
	"net/http"
	"net/url"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml"

	"github.com/tallygate/tallygate/tools/testkit"
)

// figuresPath finds the address of figures in a text, without its host.
var figuresPath = regexp.MustCompile("/figures/[^\\s\"`)]+")

// figureName finds the names of figures that a recipe reads: in mappings, columns and templates.
var figureName = regexp.MustCompile(`\bfield: (\w+)|"selector": "(\w+)"|\bvalue_json\.(\w+)|\.JSON\.\w+ "(\w+)"|\bdata\.\w+\?\.(\w+)`)

// figuresFiles is a service with figures, for recipes that read them.
type figuresFiles struct {
	*process

	token  string
	values *strings.Replacer // what stands in recipes for a value of an installation
}

// startFigures starts a service with the site of the recipes and a page view.
func startFigures(t *testing.T) *figuresFiles {
	t.Helper()
	p := start(t, map[string]string{"TALLYGATE_DATA_DIR": t.TempDir()}, []string{"control", "data"})
	owner := newOwner(t, p)
	site := owner.signUp("example.com")
	status, err := sendPageviewFrom(http.DefaultClient, "https://example.com", "http://"+p.addr["data"], site.SiteKey, "/pricing")
	if status != http.StatusNoContent || err != nil {
		t.Fatalf("the page view: %d, %v", status, err)
	}

	var made struct{ CreateSharedLink struct{ Token string } }
	owner.do(`mutation { createSharedLink(input: {siteId: "`+site.ID+`", name: "sheet"}) { token } }`, &made)
	today := time.Now().UTC().Format(time.DateOnly)
	return &figuresFiles{process: p, token: owner.apiToken("READ"), values: strings.NewReplacer(
		"SITE.FORMAT", "example.com.json", "tgl_…", made.CreateSharedLink.Token,
		"${__from:date:YYYY-MM-DD}", today, "${__to:date:YYYY-MM-DD}", today,
	)}
}

// get returns an answer with figures. Addresses with a link's token are read without an API token.
func (f *figuresFiles) get(t *testing.T, address string) string {
	t.Helper()
	header := map[string]string{"Authorization": "Bearer " + f.token}
	if strings.Contains(address, "/tgl_") {
		header = nil
	}

	response, body := exchange(t, http.DefaultClient, http.MethodGet, "http://"+f.addr["control"]+address, "", header)
	testkit.Require(t, response.StatusCode, http.StatusOK, "%s: %s: %s", address, response.Status, body)
	return body
}

// figuresAddresses returns the addresses of figures in the values of a file. Some programs have the
// parameters in a key of their own.
func figuresAddresses(value any) (all []string) {
	switch value := value.(type) {
	case []any:
		for _, each := range value {
			all = append(all, figuresAddresses(each)...)
		}
	case map[string]any:
		for key, each := range value {
			text, ok := each.(string)
			if address := figuresPath.FindString(text); ok && address != "" {
				all = append(all, address+parametersOf(value, key))
				continue
			}
			all = append(all, figuresAddresses(each)...)
		}
	}
	return all
}

// parametersOf returns the query string of the parameters that a file has next to an address, or "".
func parametersOf(values map[string]any, key string) string {
	name := "query"
	if key == "metrics_path" {
		name = "params"
	}

	parameters, _ := values[name].(map[string]any)
	query := url.Values{}
	for parameter, value := range parameters {
		switch value := value.(type) {
		case string:
			query.Add(parameter, value)
		case []any:
			query.Add(parameter, value[0].(string))
		}
	}
	if len(query) == 0 {
		return ""
	}
	return "?" + query.Encode()
}

// TestRecipeFigures reads the files for dashboards as their programs do: each address is answered
// with figures, which have the names in the file's mappings, columns and templates.
func TestRecipeFigures(t *testing.T) {
	t.Parallel()
	f := startFigures(t)
	names, err := filepath.Glob(recipes + "figures/*")
	if err != nil || len(names) < 8 {
		t.Fatalf("%v, %v", names, err)
	}

	for _, name := range names {
		t.Run(filepath.Base(name), func(t *testing.T) {
			text := readFile(t, name)
			var parsed any
			testkit.NoError(t, yaml.Unmarshal([]byte(text), &parsed)) // JSON is YAML, too
			if filepath.Ext(name) == ".json" && !json.Valid([]byte(text)) {
				t.Error("the file is not JSON")
			}

			addresses := figuresAddresses(parsed)
			if len(addresses) != 1 && filepath.Base(name) != "grafana-source.yaml" {
				t.Errorf("the file has the addresses %q", addresses)
			}
			for _, address := range addresses {
				f.wantNames(t, text, f.get(t, f.values.Replace(address)))
			}
		})
	}

	// The page has the address of a badge and of a sheet.
	for _, address := range figuresPath.FindAllString(readFile(t, "../../../docs/owner/figures.md"), -1) {
		f.get(t, f.values.Replace(address))
	}
}

// wantNames checks that an answer has the figures that a recipe names.
func (f *figuresFiles) wantNames(t *testing.T, recipe, answer string) {
	t.Helper()
	if !strings.HasPrefix(answer, "{") {
		return
	}

	var figures map[string]any
	testkit.NoError(t, json.Unmarshal([]byte(answer), &figures))
	if strings.Contains(recipe, `"root_selector": "series"`) {
		figures, _ = figures["series"].([]any)[0].(map[string]any)
	}
	for _, match := range figureName.FindAllStringSubmatch(recipe, -1) {
		name := strings.Join(match[1:], "")
		if value, ok := figures[name]; !ok || value == nil {
			t.Errorf("the recipe reads %s, which is %v in %s", name, value, answer)
		}
	}
}

// TestRecipeFiguresPrometheus lets Prometheus scrape the figures by the recipe.
func TestRecipeFiguresPrometheus(t *testing.T) {
	t.Parallel()
	requireTool(t, "prometheus")
	f := startFigures(t)
	token := writeFile(t, t.TempDir(), "token", f.token)

	server := runPrometheus(t, strings.NewReplacer("scheme: https", "scheme: http", "scrape_interval: 2m", "scrape_interval: 1s",
		"/etc/prometheus/tallygate-token", token, "app.example.com", f.addr["control"]).Replace(recipeFile(t, "figures/prometheus.yaml")))
	testkit.AwaitState(t, "Prometheus has the visitors", func() (string, bool) {
		n, err := server.results(`tallygate_site_visitors{site="example.com", period="today"}`)
		if err != nil {
			return err.Error(), false
		}
		return "no series", n == 1
	})
}
