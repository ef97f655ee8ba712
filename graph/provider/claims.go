package provider

import (
	"context"
	"errors"
	"fmt"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"

	"github.com/tallygate/tallygate/db/model"
)

// claims are what a provider says about a person, by name.
type claims map[string]any

// claims returns the claims of an ID token. Claims that are needed and missing there come from the
// userinfo endpoint: where a provider issues an access token, it may have them there alone (OpenID
// Connect Core, section 5.4).
func (c *Client) claims(ctx context.Context, k *known, s Settings, token *oauth2.Token, id *oidc.IDToken) (claims, error) {
	var own claims
	if err := id.Claims(&own); err != nil {
		return nil, newError(BadToken, err)
	}
	if own.answer(s) || k.provider.UserInfoEndpoint() == "" {
		return own.with(nil, s.RoleClaim), nil
	}

	info, err := k.provider.UserInfo(ctx, oauth2.StaticTokenSource(token))
	var more claims
	switch {
	case err != nil:
		return nil, newError(Unavailable, fmt.Errorf("userinfo: %w", err))
	case info.Subject != id.Subject:
		return nil, newError(BadToken, errors.New("userinfo is of another person"))
	}
	if err := info.Claims(&more); err != nil {
		return nil, newError(Misconfigured, err)
	}
	return own.with(more, s.RoleClaim), nil
}

// answer reports whether the claims have all that is asked of a provider.
func (c claims) answer(s Settings) bool {
	return c["email"] != nil && (c["email_verified"] != nil || s.VerifiesEmails) &&
		(s.RoleClaim == "" || c.find(s.RoleClaim) != nil)
}

// with returns the claims of an ID token, and takes missing claims from userinfo. Whether an
// address is verified is known of the same address alone, and an ID token that says no is believed.
func (c claims) with(more claims, roleClaim string) claims {
	from := c
	if c["email"] == nil {
		from = more
	}
	all := claims{"email": from["email"], "email_verified": from["email_verified"]}
	if verified, says := c.verified(); says && !verified {
		all["email_verified"] = false
	}
	if all["email_verified"] == nil && c.text("email") == more.text("email") {
		all["email_verified"] = more["email_verified"]
	}

	all["roles"] = c.find(roleClaim)
	if all["roles"] == nil {
		all["roles"] = more.find(roleClaim)
	}
	return all
}

// verified returns whether the address is verified, and whether the claims say so or the contrary.
// Some providers send a text.
func (c claims) verified() (verified, says bool) {
	value := c["email_verified"]
	return value == true || value == "true", value != nil
}

// text returns a claim that is a text, or "".
func (c claims) text(name string) string {
	text, _ := c[name].(string)
	return text
}

// find returns a claim: the one with the whole name, or else one inside of objects, as in
// realm_access.roles. A name of a claim or object can have dots itself. It returns nil without the
// claim.
func (c claims) find(name string) any {
	if found := c[name]; found != nil {
		return found
	}
	for at := range len(name) {
		inner, ok := c[name[:at]].(map[string]any)
		if !ok || name[at] != '.' {
			continue
		}
		if found := claims(inner).find(name[at+1:]); found != nil {
			return found
		}
	}
	return nil
}

// texts returns the texts of a claim's value: one, or a list.
func texts(value any) []string {
	switch v := value.(type) {
	case string:
		return []string{v}
	case []any:
		var texts []string
		for _, item := range v {
			if text, ok := item.(string); ok {
				texts = append(texts, text)
			}
		}
		return texts
	}
	return nil
}

// person returns the person of verified claims. A provider that says that an address is not
// verified is believed, whatever the settings say of its addresses.
func person(s Settings, subject string, known claims) (*Person, error) {
	email, err := model.ParseEmail(known.text("email"))

	verified, says := known.verified()
	switch {
	case err != nil:
		return nil, newError(NoEmail, errors.New("the provider names no address"))
	case !verified && says:
		return nil, newError(NoEmail, errors.New("the provider says that the address is not verified"))
	case !verified && !s.VerifiesEmails:
		return nil, newError(NoEmail, errors.New("the provider does not say whether the address is verified"))
	}

	return &Person{Issuer: s.Issuer, Subject: subject, Email: email, Roles: texts(known["roles"])}, nil
}
