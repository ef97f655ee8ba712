package doctor

import (
	"context"
	"errors"
	"time"

	"github.com/tallygate/tallygate/cmd/tallygate/config"
	"github.com/tallygate/tallygate/cmd/tallygate/serve"
	"github.com/tallygate/tallygate/graph/auth"
	"github.com/tallygate/tallygate/graph/provider"
)

// providerTimeout bounds a call of the installation's OpenID Connect provider.
const providerTimeout = 5 * time.Second

// checkProvider checks the OpenID Connect provider of the installation: that it can be reached, has
// the configured issuer and accepted signatures, and knows this installation's redirect address.
func (e *examination) checkProvider(ctx context.Context) bool {
	if e.c.OIDCIssuer == "" || !e.c.Has(config.RoleControl) {
		return false
	}
	authorities, err := serve.Certificates(e.c.OIDCCAFile)
	if err != nil {
		// checkSettings has reported it.
		return false
	}

	client := provider.New(provider.Options{Authorities: authorities, Now: e.Now, Timeout: providerTimeout})
	settings := serve.Provider(e.c)
	failed, ok := errors.AsType[*provider.Error](client.Check(ctx, settings))
	switch {
	case ok && failed.Reason == provider.Unavailable:
		e.fault("oidc-unreachable", "Start the provider, or correct TALLYGATE_OIDC_ISSUER and TALLYGATE_OIDC_CA_FILE. People who "+
			"have a password can use it.", "the OpenID Connect provider cannot be reached: %v", failed.Cause)
		return true
	case ok:
		e.fault("oidc-metadata", "Set TALLYGATE_OIDC_ISSUER to the issuer exactly as the provider writes it, and let it sign ID "+
			"tokens with RS256 or better.", "the OpenID Connect provider cannot sign anyone in: %v", failed.Cause)
		return true
	}

	redirect := string(e.c.BaseURL) + auth.ProviderCallbackPath
	if e.c.BaseURL == "" {
		e.warn("oidc-redirect", "Set TALLYGATE_BASE_URL, and register its address with "+auth.ProviderCallbackPath+" at the provider.",
			"the redirect address is not known without a base URL")
		return true
	}
	if err := client.Probe(ctx, settings, redirect); err != nil {
		e.fault("oidc-redirect", "Register this address, and the client with its secret, at the provider.",
			"the OpenID Connect provider refuses the client, its secret or the redirect address %s: %v", redirect, err)
	}
	return true
}
