package serve

import (
	"flag"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"github.com/tallygate/tallygate/cmd/tallygate/config"
	"github.com/tallygate/tallygate/tools/dbtest"
	"github.com/tallygate/tallygate/tools/testkit"
)

var updateTable = flag.Bool("update", false, "rewrite the table of metrics in deploy/monitoring/README.md")

// The table of metrics is between these lines of deploy/monitoring/README.md.
const (
	metricsPage = "../../../deploy/monitoring/README.md"
	tableBegin  = "<!-- metrics: begin; written by go test ./cmd/tallygate/serve -run TestMetricsTable -update -->\n"
	tableEnd    = "<!-- metrics: end -->\n"
)

// openRoles opens a process with these roles on a database of its own.
func openRoles(t *testing.T, databaseURL string, roles ...config.Role) *App {
	t.Helper()
	return openConfig(t, databaseURL, rolesConfig(t, roles...))
}

// openTLS opens a process with one role that terminates TLS, if that role has clients.
func openTLS(t *testing.T, role config.Role) *App {
	t.Helper()
	c := rolesConfig(t, role)
	c.TLS, c.TLSAddr, c.TLSHTTPAddr, c.TLSDirectory = config.TLSAuto, "127.0.0.1:0", "127.0.0.1:0", "https://127.0.0.1:1/directory"
	c.BaseURL, c.AnalyticsURL = "https://app.example.org", "https://stats.example.org"
	return openConfig(t, "sqlite:", c)
}

func rolesConfig(t *testing.T, roles ...config.Role) *config.Config {
	return &config.Config{
		DataDir: t.TempDir(), Roles: roles, ControlAddr: "127.0.0.1:0", DataAddr: "127.0.0.1:0", MetricsAddr: "127.0.0.1:0",
		HealthAddr: "127.0.0.1:0", Secret: config.Secret(strings.Repeat("s", 32)), CaptchaDifficulty: 1024,
		DefaultSitePlan: "FREE", DefaultCaptchaPlan: "FREE", MailFrom: "noreply@localhost",
	}
}

func openConfig(t *testing.T, databaseURL string, c *config.Config) *App {
	t.Helper()
	if strings.HasPrefix(databaseURL, "postgres") {
		c.DatabaseURL = config.DatabaseURL(databaseURL)
	}

	a, err := Open(t.Context(), c, slog.New(slog.DiscardHandler))
	testkit.NoError(t, err)
	t.Cleanup(a.Close)
	return a
}

// described is a metric as its collector describes it.
type described struct {
	name, help string
	labels     []string
}

var descPattern = regexp.MustCompile(`^Desc\{fqName: "(.*?)", help: "(.*)", unit: ".*?", constLabels: \{(.*)\}, variableLabels: \{(.*)\}\}$`)

// describe returns the program's own metrics by name. Those of Go, the process and the pools are
// documented where they come from.
func describe(t *testing.T, a *App) map[string]described {
	t.Helper()

	descs := make(chan *prometheus.Desc)
	go func() { a.registry.Describe(descs); close(descs) }()

	all := make(map[string]described)
	for desc := range descs {
		parts := descPattern.FindStringSubmatch(desc.String())
		if parts == nil {
			t.Fatalf("cannot read %s", desc)
		}

		var labels []string
		for pair := range strings.SplitSeq(parts[3]+","+parts[4], ",") {
			if name, _, _ := strings.Cut(pair, "="); name != "" {
				labels = append(labels, name)
			}
		}
		if strings.HasPrefix(parts[1], "tallygate_") {
			all[parts[1]] = described{parts[1], parts[2], labels}
		}
	}
	return all
}

// TestMetricsTable checks that the table in deploy/monitoring/README.md is what the processes of
// each role register. With -update it writes the table.
func TestMetricsTable(t *testing.T) {
	roles := []config.Role{config.RoleControl, config.RoleData, config.RoleWorker}
	byName, rolesOf := make(map[string]described), make(map[string][]string)
	for _, role := range roles {
		for name, metric := range describe(t, openTLS(t, role)) {
			byName[name] = metric
			rolesOf[name] = append(rolesOf[name], string(role))
		}
	}

	// The parent of a child process has more.
	two := rolesConfig(t, roles...)
	two.Processes = config.ProcessesTwo
	for name, metric := range describe(t, openConfig(t, "sqlite:", two)) {
		if strings.HasPrefix(name, "tallygate_background_") {
			metric.labels = nil
			byName[name], rolesOf[name] = metric, []string{"data"}
		}
	}

	var table strings.Builder
	table.WriteString("| metric | roles | meaning |\n|---|---|---|\n")
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		metric, in := byName[name], strings.Join(rolesOf[name], ", ")
		if len(rolesOf[name]) == len(roles) {
			in = "all"
		}

		labels := ""
		if len(metric.labels) > 0 {
			labels = "{" + strings.Join(metric.labels, ",") + "}"
		}
		fmt.Fprintf(&table, "| `%s%s` | %s | %s |\n", name, labels, in, metric.help)
	}

	text, err := os.ReadFile(metricsPage)
	testkit.NoError(t, err)
	before, rest, found := strings.Cut(string(text), tableBegin)
	current, after, ended := strings.Cut(rest, tableEnd)
	if !found || !ended {
		t.Fatalf("%s has no table of metrics between %q and %q", metricsPage, tableBegin, tableEnd)
	}

	if *updateTable {
		testkit.NoError(t, os.WriteFile(metricsPage, []byte(before+tableBegin+table.String()+tableEnd+after), 0o644))
	} else if current != table.String() {
		t.Errorf("the table of metrics in %s is not current; with -update it becomes\n%s", metricsPage, &table)
	}
}

// TestMetricsOfAllRoles checks on each database that a process with all roles serves its metrics,
// that their names follow Prometheus' conventions, and that no label can have many values.
func TestMetricsOfAllRoles(t *testing.T) {
	for _, engine := range []string{"sqlite", "postgres"} {
		t.Run(engine, func(t *testing.T) {
			databaseURL := "sqlite:"
			if engine == "postgres" {
				databaseURL = dbtest.PostgresURL(t)
			}
			a := openRoles(t, databaseURL, config.RoleControl, config.RoleData, config.RoleWorker)

			families, err := a.registry.Gather()
			testkit.NoError(t, err)
			problems, err := promlint.NewWithMetricFamilies(families).Lint()
			if err != nil || len(problems) > 0 {
				t.Errorf("names: %v, %v", problems, err)
			}

			for _, family := range families {
				// Each of these is one of a list in the program.
				if n := len(family.GetMetric()); n > 100 {
					t.Errorf("%s has %d series", family.GetName(), n)
				}
			}
		})
	}
}

// TestPrivateListeners checks that metrics and health checks are on their own listeners, also of a
// process with the worker role alone, and not on the public ones.
func TestPrivateListeners(t *testing.T) {
	for _, roles := range [][]config.Role{{config.RoleWorker}, {config.RoleControl, config.RoleData}} {
		a := openRoles(t, "sqlite:", roles...)
		for name, s := range a.servers() {
			go func() { _ = s.Serve(s.listener) }()
			for path, want := range map[string]bool{
				"/metrics": name == "metrics", "/readyz": true, "/healthz": true,
			} {
				response, err := http.Get("http://" + a.Addr(name) + path)
				testkit.NoError(t, err)
				text, err := io.ReadAll(response.Body)
				_ = response.Body.Close()
				if served := response.StatusCode == http.StatusOK; err != nil || served != want {
					t.Errorf("%v: %s%s: %d %s, %v", roles, name, path, response.StatusCode, text, err)
				}
			}
		}
	}
}
