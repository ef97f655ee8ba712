package test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml"

	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/tools/dbtest"
	"github.com/tallygate/tallygate/tools/testkit"
)

// monitoring is the folder of the dashboard and the alert rules.
const monitoring = "../../../deploy/monitoring"

// alertRule is a rule of rules.yaml.
type alertRule struct {
	Alert, Expr string
	Labels      map[string]string
	Annotations map[string]string
}

// alertRules reads rules.yaml.
func alertRules(t *testing.T) []alertRule {
	t.Helper()

	var file struct {
		Groups []struct{ Rules []alertRule }
	}
	readYAML(t, "rules.yaml", &file)
	if len(file.Groups) != 1 || len(file.Groups[0].Rules) < 20 {
		t.Fatalf("rules.yaml: %+v", file)
	}
	return file.Groups[0].Rules
}

func readYAML(t *testing.T, name string, into any) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(monitoring, name))
	if err == nil {
		err = yaml.Unmarshal(text, into)
	}
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
}

// TestAlertRules has promtool check the shipped files and run the tests of the rules, and checks
// that these let each alert fire and also not fire.
func TestAlertRules(t *testing.T) {
	t.Parallel()
	promtool := requireTool(t, "promtool")

	for _, args := range [][]string{
		{"check", "config", "prometheus.yaml"}, {"check", "rules", "rules.yaml"}, {"test", "rules", "rules-test.yaml"},
	} {
		cmd := exec.Command(promtool, args...)
		cmd.Dir = monitoring
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("promtool %v: %v\n%s", args, err, out)
		}
	}

	var tests struct {
		Tests []struct {
			AlertRuleTest []struct {
				Alertname string `yaml:"alertname"`
				ExpAlerts []any  `yaml:"exp_alerts"`
			} `yaml:"alert_rule_test"`
		}
	}
	readYAML(t, "rules-test.yaml", &tests)

	fires, rests := make(map[string]bool), make(map[string]bool)
	for _, test := range tests.Tests {
		for _, check := range test.AlertRuleTest {
			if len(check.ExpAlerts) > 0 {
				fires[check.Alertname] = true
			} else {
				rests[check.Alertname] = true
			}
		}
	}

	for _, rule := range alertRules(t) {
		if !fires[rule.Alert] || !rests[rule.Alert] {
			t.Errorf("rules-test.yaml: %s fires in a test: %v; does not fire in a test: %v",
				rule.Alert, fires[rule.Alert], rests[rule.Alert])
		}
		if rule.Annotations["summary"] == "" || rule.Annotations["action"] == "" ||
			!slices.Contains([]string{"page", "ticket"}, rule.Labels["severity"]) {
			t.Errorf("%s lacks a summary, an action or a severity: %+v", rule.Alert, rule)
		}
	}
}

// prometheus is a running Prometheus server.
type prometheus struct {
	t   *testing.T
	url string
}

// startPrometheus starts Prometheus with the shipped configuration, which then scrapes the targets
// every second.
func startPrometheus(t *testing.T, targets ...string) *prometheus {
	t.Helper()
	shipped := readFile(t, filepath.Join(monitoring, "prometheus.yaml"))
	rules, err := filepath.Abs(filepath.Join(monitoring, "rules.yaml"))
	testkit.NoError(t, err)

	text := strings.NewReplacer("scrape_interval: 15s", "scrape_interval: 1s", "- rules.yaml", "- "+rules,
		"- 127.0.0.1:9091", "- "+strings.Join(targets, "\n          - ")).Replace(shipped)
	return runPrometheus(t, "global:\n  evaluation_interval: 1s\n"+text)
}

// runPrometheus starts Prometheus with the text of a configuration.
func runPrometheus(t *testing.T, configuration string) *prometheus {
	t.Helper()
	program, dir, addr := requireTool(t, "prometheus"), t.TempDir(), dbtest.FreeAddress(t)
	file := writeFile(t, dir, "prometheus.yaml", configuration)
	p := &prometheus{t, runProxy(t, addr, exec.Command(program, "--config.file="+file,
		"--storage.tsdb.path="+filepath.Join(dir, "data"), "--web.listen-address="+addr, "--log.level=warn"))}
	testkit.AwaitState(t, "Prometheus is ready", func() (string, bool) {
		status, body := get(t, p.url+"/-/ready")
		return body, status == http.StatusOK
	})
	return p
}

// api calls Prometheus' API and decodes the data of its answer.
func (p *prometheus) api(path string, query url.Values, data any) error {
	response, err := http.Get(p.url + "/api/v1/" + path + "?" + query.Encode())
	if err != nil {
		return err
	}
	defer response.Body.Close()

	var answer struct {
		Status, Error string
		Data          json.RawMessage
	}
	if err := json.NewDecoder(response.Body).Decode(&answer); err != nil {
		return err
	}
	if answer.Status != "success" {
		return fmt.Errorf("%s: %s", response.Status, answer.Error)
	}
	return json.Unmarshal(answer.Data, data)
}

// results returns how many series an expression has now.
func (p *prometheus) results(expr string) (int, error) {
	var data struct{ Result []any }
	err := p.api("query", url.Values{"query": {expr}}, &data)
	return len(data.Result), err
}

// dashboardExpressions returns the expressions of the dashboard by panel, for any process.
func dashboardExpressions(t *testing.T) map[string]string {
	t.Helper()

	var dashboard struct {
		Panels []struct {
			Title   string
			Targets []struct{ RefID, Expr string }
		}
	}
	text, err := os.ReadFile(filepath.Join(monitoring, "dashboard.json"))
	if err == nil {
		err = json.Unmarshal(text, &dashboard)
	}
	testkit.NoError(t, err)

	all := make(map[string]string)
	for _, panel := range dashboard.Panels {
		for _, target := range panel.Targets {
			all[panel.Title+" "+target.RefID] = strings.NewReplacer("$job", "tallygate", "$instance", ".*",
				"$__rate_interval", "1m").Replace(target.Expr)
		}
	}
	if len(all) < 30 {
		t.Fatalf("the dashboard has only the expressions %v", all)
	}
	return all
}

// metricName finds the names of metrics in an expression.
var metricName = regexp.MustCompile(`\b(?:tallygate|go|process)_\w+|\bup\b`)

// TestPrometheus lets a real Prometheus scrape processes of each role. Each metric that the
// dashboard or a rule names exists, each expression of the dashboard has data, each rule can be
// evaluated, and a process that ends raises an alert.
func TestPrometheus(t *testing.T) {
	t.Parallel()
	t.Run("postgres", testPrometheus)
}

func testPrometheus(t *testing.T) {
	databaseURL := dbtest.PostgresURL(t)
	processes := make(map[string]*process)
	for _, role := range []string{"control", "data", "worker"} {
		settings := settingsFor(t, databaseURL)
		settings["TALLYGATE_ROLES"], settings["TALLYGATE_METRICS_ADDR"] = role, "127.0.0.1:0"
		settings["TALLYGATE_SECRET"] = strings.Repeat("a test's key ", 4)
		settings["TALLYGATE_CAPTCHA_DIFFICULTY"] = "1024"

		if role == "data" {
			maps.Copy(settings, newOperatorFiles(t, time.Now()))
		}

		listeners := []string{role, "metrics"}
		if role == "worker" {
			listeners = listeners[1:]
		}
		processes[role] = start(t, settings, listeners)
	}

	// A node on SQLite has the metrics of its disk, of the proxy's certificate and of its
	// background process.
	proxy := httptest.NewTLSServer(http.NotFoundHandler())
	t.Cleanup(proxy.Close)
	settings := settingsFor(t, "sqlite:")
	settings["TALLYGATE_METRICS_ADDR"], settings["TALLYGATE_BASE_URL"] = "127.0.0.1:0", proxy.URL
	settings["SSL_CERT_FILE"] = certificateFile(t, proxy)
	processes["embedded"] = start(t, settings, []string{"control", "data", "metrics"})

	// A process without a proxy has the metrics of its certificates, also while the authority is
	// away.
	settings = settingsFor(t, "sqlite:")
	settings["TALLYGATE_ROLES"], settings["TALLYGATE_METRICS_ADDR"], settings["TALLYGATE_BASE_URL"] = "control", "127.0.0.1:0", "https://app.example.org"
	settings["TALLYGATE_TLS"], settings["TALLYGATE_TLS_ACME_DIRECTORY"] = "auto", "https://"+dbtest.FreeAddress(t)+"/directory"
	settings["TALLYGATE_TLS_ADDR"], settings["TALLYGATE_TLS_HTTP_ADDR"] = "127.0.0.1:0", "127.0.0.1:0"
	processes["tls"] = start(t, settings, []string{"control", "metrics", "tls", "tls-http"})

	server := startPrometheus(t, processes["control"].addr["metrics"], processes["data"].addr["metrics"],
		processes["worker"].addr["metrics"], processes["embedded"].addr["metrics"], processes["tls"].addr["metrics"])
	site := newOwner(t, processes["control"]).signUp("crash.localhost")
	visitor := newSolver(processes["data"].addr["data"], model.TestSitekey, model.TestSitekeySecret)

	// Rates need two scrapes with traffic in between.
	expressions := dashboardExpressions(t)
	missing := make(map[string]string)
	testkit.AwaitState(t, "all expressions of the dashboard have data", func() (string, bool) {
		if status, err := sendPageview(http.DefaultClient, visitor.data, site.SiteKey, "/"); err != nil || status != http.StatusNoContent {
			t.Fatal(status, err)
		}
		testkit.NoError(t, visitor.once())

		clear(missing)
		for panel, expr := range expressions {
			if n, err := server.results(expr); n == 0 || err != nil {
				missing[panel] = fmt.Sprintf("%s: %v", expr, err)
			}
		}
		return fmt.Sprintf("%d lack data: %v", len(missing), missing), len(missing) == 0
	})

	named := make(map[string]bool)
	for _, expr := range expressions {
		for _, name := range metricName.FindAllString(expr, -1) {
			named[name] = true
		}
	}
	for _, rule := range alertRules(t) {
		for _, name := range metricName.FindAllString(rule.Expr, -1) {
			named[name] = true
		}
	}
	for name := range named {
		if n, err := server.results(name); n == 0 || err != nil {
			t.Errorf("there is no metric %s: %v", name, err)
		}
	}

	testkit.AwaitState(t, "all rules are evaluated without an error", func() (string, bool) {
		for _, rule := range server.rules() {
			if rule.Health != "ok" {
				return fmt.Sprintf("%+v", rule), false
			}
		}
		return "", true
	})

	processes["data"].kill()
	testkit.AwaitState(t, "the end of a process is noticed", func() (string, bool) {
		for _, rule := range server.rules() {
			if rule.Name == "TallygateDown" {
				return rule.State, rule.State == "pending"
			}
		}
		return "no rule", false
	})
}

// activeRule is a rule as Prometheus evaluates it.
type activeRule struct{ Name, State, Health, LastError string }

// rules returns the state of the rules.
func (p *prometheus) rules() []activeRule {
	p.t.Helper()
	var data struct {
		Groups []struct{ Rules []activeRule }
	}
	if err := p.api("rules", nil, &data); err != nil || len(data.Groups) != 1 {
		p.t.Fatalf("rules: %+v, %v", data, err)
	}
	return data.Groups[0].Rules
}
