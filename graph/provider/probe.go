package provider

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"

	"github.com/tallygate/tallygate/db/model"
)

// Probe begins a sign-in as a browser does and redeems a code that does not exist. It returns an
// error if the provider cannot be reached, has another issuer or refuses the client, its secret or
// its redirect address. A provider that shows a refusal on a page with status 200 is not noticed.
// Probes have calls of their own, so that they delay no sign-in, and keep nothing: a correction at
// the provider counts at once.
func (c *Client) Probe(ctx context.Context, s Settings, redirect string) error {
	wait := time.NewTimer(callWait)
	defer wait.Stop()
	leave, err := take(ctx, wait.C, c.probes)
	if err != nil {
		return err
	}
	defer leave()
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()

	found, data, err := c.discover(ctx, s)
	if err != nil {
		return err
	}
	k, verifier := &known{provider: found, metadata: data}, oauth2.GenerateVerifier()
	config := client(k, s, redirect)
	address := config.AuthCodeURL(rand.Text(), oidc.Nonce(rand.Text()), oauth2.S256ChallengeOption(verifier))
	if err := c.open(ctx, s, address, redirect); err != nil {
		return err
	}

	// The provider refuses the code, and before that a client that it does not know.
	ctx = oidc.ClientContext(ctx, c.http(s))
	var failed error
	for _, style := range data.styles() {
		config.Endpoint.AuthStyle = style
		_, err := config.Exchange(ctx, rand.Text(), oauth2.VerifierOption(verifier))
		if failed = refusal(err); failed == nil {
			return nil
		}
	}
	return failed
}

// refusal returns the error of an exchange if the provider cannot be reached or refuses the client.
func refusal(err error) error {
	if err == nil {
		return nil
	}
	failed, ok := errors.AsType[*Error](failure(err))
	if !ok || failed.Reason != RefusedClient && failed.Reason != Unavailable {
		return nil
	}
	return failed
}

// temporary are the error codes with which a provider refuses for a while (RFC 6749, section
// 4.1.2.1).
var temporary = []string{"temporarily_unavailable", "server_error"}

// open opens the address of a sign-in, and returns an error if the provider refuses it.
func (c *Client) open(ctx context.Context, s Settings, address, redirect string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return newError(Misconfigured, err)
	}
	response, err := c.http(s).Do(request)
	if err != nil {
		return failure(err)
	}
	defer response.Body.Close()

	code := ""
	if to, err := response.Location(); err == nil && strings.HasPrefix(to.String(), redirect) {
		code = to.Query().Get("error")
	}
	status := said("status " + response.Status)
	switch {
	case code != "" && !slices.Contains(temporary, code):
		return newError(RefusedClient, said(fmt.Sprintf("error %q", model.Clean(code, maxCode))))
	case code != "", response.StatusCode >= http.StatusInternalServerError, response.StatusCode == http.StatusTooManyRequests:
		return newError(Unavailable, status)
	case response.StatusCode == http.StatusBadRequest, response.StatusCode == http.StatusUnauthorized:
		return newError(RefusedClient, status)
	}

	// Another refusal can be meant for programs, which this is.
	return nil
}
