package doctor

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/tallygate/tallygate/cmd/tallygate/config"
	"github.com/tallygate/tallygate/tools/testkit"
)

// TestProvider checks what is found about the installation's OpenID Connect provider.
func TestProvider(t *testing.T) {
	t.Parallel()

	for _, test := range []struct {
		name, want string
		metadata   map[string]any // that differs
		status     int            // of the sign-in page
		away       bool
	}{
		{name: "a provider that works", status: http.StatusOK},
		{name: "away", away: true, want: "oidc-unreachable"},
		{name: "another issuer", metadata: map[string]any{"issuer": "https://login.example"}, want: "oidc-metadata"},
		{name: "weak signatures", metadata: map[string]any{"id_token_signing_alg_values_supported": []string{"HS256"}}, want: "oidc-metadata"},
		{name: "an unknown redirect address", status: http.StatusBadRequest, want: "oidc-redirect"},
	} {
		t.Run(test.name, func(t *testing.T) {
			var server *httptest.Server
			server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/authorize" {
					testkit.Equal(t, r.FormValue("redirect_uri"), "https://app.example/sign-in/callback", "the redirect address")
					w.WriteHeader(test.status)
					return
				}

				metadata := map[string]any{
					"issuer": server.URL, "authorization_endpoint": server.URL + "/authorize", "token_endpoint": server.URL + "/token",
					"jwks_uri": server.URL + "/keys", "id_token_signing_alg_values_supported": []string{"RS256"},
				}
				for name, value := range test.metadata {
					metadata[name] = value
				}
				w.Header().Set("Content-Type", "application/json")
				_ = json.NewEncoder(w).Encode(metadata)
			}))
			defer server.Close()
			if test.away {
				server.Close()
			}

			e := &examination{Options: Options{Now: time.Now}, c: &config.Config{
				Roles: config.Roles{config.RoleControl}, BaseURL: "https://app.example", OIDCIssuer: server.URL,
				OIDCClientID: "tallygate", OIDCClientSecret: "secret",
			}}
			if !e.checkProvider(t.Context()) {
				t.Fatal("the provider was not checked")
			}
			got := ""
			if len(e.report.Findings) > 0 {
				got = e.report.Findings[0].Check
			}
			if got != test.want || len(e.report.Findings) > 1 {
				t.Errorf("findings %+v, want %q", e.report.Findings, test.want)
			}
		})
	}
}
