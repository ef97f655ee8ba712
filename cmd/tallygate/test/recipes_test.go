package test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/evanw/esbuild/pkg/api"

	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/tools/testkit"
)

const recipes = "../../../docs/owner/recipes/"

// runtimes are the programs that run the recipes, by the extension of a file.
var runtimes = map[string][]string{
	"go": {"go", "run"}, "mjs": {"node"}, "php": {"php"}, "py": {"python3"}, "rb": {"ruby"},
}

// recipe runs a file of docs/owner/recipes and returns what it prints. Without its runtime the test is
// skipped, or failed in CI, which installs all of them.
func recipe(t *testing.T, environment []string, path string, args ...string) (printed string, err error) {
	t.Helper()
	printed, _, err = recipeOutput(t, environment, path, args...)
	return printed, err
}

// recipeOutput is recipe that returns also what the file logs.
func recipeOutput(t *testing.T, environment []string, path string, args ...string) (printed, logged string, err error) {
	t.Helper()
	command := runtimes[strings.TrimPrefix(filepath.Ext(path), ".")]
	wantProgram(t, command[0])

	cmd := exec.CommandContext(t.Context(), command[0], append(append(command[1:len(command):len(command)], path), args...)...)
	cmd.Env = append(os.Environ(), environment...)
	var faults strings.Builder
	cmd.Stderr = &faults
	out, err := cmd.Output()
	if err != nil {
		t.Logf("%s: %v\n%s", path, err, faults.String())
	}
	return strings.TrimSpace(string(out)), faults.String(), err
}

func wantProgram(t *testing.T, name string) {
	t.Helper()
	testkit.SkipLong(t, name)
	if _, err := exec.LookPath(name); err != nil {
		testkit.Missing(t, name+" is not on the PATH")
	}
}

// TestRecipeSiteverify runs the recipe of each language with a fresh token, the same again, a wrong
// secret and no server.
func TestRecipeSiteverify(t *testing.T) {
	t.Parallel()

	p := start(t, map[string]string{"TALLYGATE_DATA_DIR": t.TempDir(), "TALLYGATE_CAPTCHA_DIFFICULTY": "1024"},
		[]string{"control", "data"})
	s := newSolver(p.addr["data"], model.TestSitekey, model.TestSitekeySecret)
	for _, extension := range []string{"go", "mjs", "php", "py", "rb"} {
		t.Run(extension, func(t *testing.T) {
			token, err := s.token()
			testkit.NoError(t, err)
			path := recipes + "siteverify." + extension
			if extension == "go" {
				// A Go file in docs/ would be a package of this module.
				path = writeFile(t, t.TempDir(), "main.go", recipeFile(t, "siteverify.go.txt"))
			}
			verify := func(origin, secret string) (string, error) {
				t.Helper()
				return recipe(t, []string{"CAPTCHA_URL=" + origin, "CAPTCHA_SECRET=" + secret}, path, token)
			}

			origin := "http://" + p.addr["data"]
			for _, test := range []struct{ secret, want string }{
				{"svcc_wrong", "false invalid-input-secret"}, {model.TestSitekeySecret, "true"},
				{model.TestSitekeySecret, "false timeout-or-duplicate"},
			} {
				if got, err := verify(origin, test.secret); got != test.want || err != nil {
					t.Errorf("printed %q, error %v; want %q", got, err, test.want)
				}
			}
			if got, err := verify("http://127.0.0.1:1", model.TestSitekeySecret); err == nil {
				t.Errorf("printed %q without a server", got)
			}
		})
	}
}

// recipeSite creates a site with e-commerce. It returns its server secret, and a token for its API.
func recipeSite(t *testing.T, p *process, domain string) (owner *testOwner, site testSite, secret, token string) {
	t.Helper()
	owner = newOwner(t, p)
	site = owner.signUp(domain)

	set := owner.data(`mutation { updateSite(input: {siteId: "` + site.ID + `", measureEcommerce: true}) { userErrors { code } }
		registerEvent(input: {siteId: "` + site.ID + `", name: "signup"}) { userErrors { code } } }`)
	secret, token = owner.rotateServerSecret(site.ID, ""), owner.apiToken("READ")
	if set != `{"updateSite":{"userErrors":[]},"registerEvent":{"userErrors":[]}}` || secret == "" {
		t.Fatalf("the site: %s", set)
	}
	return owner, site, secret, token
}

// TestRecipeImport: importing a module of a recipe makes no call.
func TestRecipeImport(t *testing.T) {
	folder, err := filepath.Abs(recipes)
	testkit.NoError(t, err)
	text := "import { purchase } from '" + folder + "/purchase.mjs'\nimport { verify } from '" + folder + "/siteverify.mjs'\n" +
		"console.log(typeof purchase, typeof verify)\n"
	if got, err := recipe(t, nil, writeFile(t, t.TempDir(), "import.mjs", text)); got != "function function" || err != nil {
		t.Errorf("printed %q, error %v", got, err)
	}
}

// TestRecipePurchase runs the recipe of each language: a purchase with its total as text is
// recorded, and the same again is ignored; a refusal is final. Then the report in TypeScript shows
// its site.
func TestRecipePurchase(t *testing.T) {
	t.Parallel()

	p := start(t, map[string]string{"TALLYGATE_DATA_DIR": t.TempDir()}, []string{"control", "data"})
	owner, site, secret, token := recipeSite(t, p, "shop.example")
	for _, extension := range []string{"mjs", "php", "py", "rb"} {
		t.Run(extension, func(t *testing.T) {
			order, err := json.Marshal(map[string]any{
				"id": "T-" + extension, "total": "39.90", "currency": "EUR", "ip": "203.0.113.7",
				"userAgent": "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0",
				"items":     []any{map[string]any{"item_id": "kettle", "quantity": 1, "price": 39.9}},
			})
			testkit.NoError(t, err)
			buy := func(origin, secret, order string) (string, string, error) {
				t.Helper()
				return recipeOutput(t, []string{"ANALYTICS_URL=" + origin, "SERVER_SECRET=" + secret},
					recipes+"purchase."+extension, order)
			}

			origin := "http://" + p.addr["data"]
			for _, want := range []string{"recorded", "ignored"} {
				if got, _, err := buy(origin, secret, string(order)); got != want || err != nil {
					t.Errorf("printed %q, error %v; want %s", got, err, want)
				}
			}

			// A text that is no number fails before the call.
			comma := strings.Replace(string(order), "39.90", "39,90", 1)
			if got, _, err := buy(origin, secret, comma); err == nil {
				t.Errorf("printed %q for %s", got, comma)
			}

			// A refusal is final, and logged; an outage or a limit is not.
			for _, test := range []struct{ secret, order, logged string }{
				{"svcs_wrong", string(order), `401 {"error":"invalid_secret"}`},
				{secret, strings.Replace(string(order), "EUR", "euro", 1), `400 {"error":"bad_event","field":"currency"}`},
			} {
				got, logged, err := buy(origin, test.secret, test.order)
				if got != "refused" || err != nil || !strings.Contains(logged, test.logged) {
					t.Errorf("printed %q, logged %q, error %v; want %s", got, logged, err, test.logged)
				}
			}
			for _, status := range []int{http.StatusTooManyRequests, http.StatusServiceUnavailable} {
				busy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) }))
				if got, _, err := buy(busy.URL, secret, string(order)); err == nil {
					t.Errorf("printed %q at a status of %d", got, status)
				}
				busy.Close()
			}
			if got, _, err := buy("http://127.0.0.1:1", secret, string(order)); err == nil {
				t.Errorf("printed %q without a server", got)
			}
		})
	}

	t.Run("ts", func(t *testing.T) {
		built := api.Transform(recipeFile(t, "report.ts"), api.TransformOptions{Loader: api.LoaderTS, Format: api.FormatESModule})
		if len(built.Errors) > 0 {
			t.Fatal(built.Errors)
		}
		path := writeFile(t, t.TempDir(), "report.mjs", string(built.Code))

		environment := []string{"BASE_URL=" + owner.Origin, "API_TOKEN=" + token, "SITE_ID=" + site.ID, "PRESET=TODAY"}
		const want = "0 visitors, 0 page views, imported figures: NONE\n0 /checkout/thanks"
		if got, err := recipe(t, environment, path); got != want || err != nil {
			t.Errorf("printed %q, error %v", got, err)
		}
		if got, err := recipe(t, append(environment, "API_TOKEN=tga_wrong"), path); err == nil {
			t.Errorf("printed %q with a wrong token", got)
		}
	})
}

// TestRecipeTheme renders the theme by Liquid, with the filter json as shops have it, and checks
// the plugin's syntax.
func TestRecipeTheme(t *testing.T) {
	const render = `require "liquid"
require "json"
Liquid::Template.register_filter(Module.new { def json(value) = JSON.generate(value) })
print Liquid::Template.parse(File.read(ARGV[0]), error_mode: :strict).render!({
  "template" => "product", "product" => {"id" => 7, "title" => "The \"best\" kettle"},
  "settings" => {"analytics_url" => "https://stats.example.com", "analytics_site_key" => "0123456789abcdef0123456789abcdef"},
}, strict_variables: true, strict_filters: true)`
	got, err := recipe(t, nil, writeFile(t, t.TempDir(), "render.rb", render), recipes+"theme.liquid")
	if err != nil || !strings.Contains(got, `src="https://stats.example.com/svc.js" data-site="0123456789abcdef0123456789abcdef">`) ||
		!strings.Contains(got, `svc('event', 'view_item', {item_id: 7, item_name: "The \"best\" kettle"})`) {
		t.Errorf("rendered %s, error %v", got, err)
	}

	wantProgram(t, "php")
	if out, err := exec.CommandContext(t.Context(), "php", "-l", recipes+"wordpress.php").CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
