package model

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// Limits of an account's OpenID Connect provider.
const (
	maxIssuer       = 500 // bytes
	maxClientText   = 500 // bytes of a client id, and of a client secret
	maxRoleClaim    = 100 // bytes
	MaxProviderRole = 50  // values of a claim that set a role
	maxRoleValue    = 200 // bytes of one value

	// ProviderSignInLifetime bounds the time between the start of a sign-in through a provider and
	// its end.
	ProviderSignInLifetime = 10 * time.Minute

	// DomainCheckInterval is the time between two lookups of the DNS record of a verified domain.
	DomainCheckInterval = 24 * time.Hour
	// DomainGrace is how long a domain stays verified while lookups do not find its DNS record.
	DomainGrace = 7 * 24 * time.Hour
)

// ProviderRecordPrefix is what the text of a domain's DNS record begins with.
const ProviderRecordPrefix = "tallygate-domain="

// AccountProvider is the OpenID Connect provider of an account.
type AccountProvider struct {
	AccountID    AccountID       `bun:",pk"`
	Issuer       string          `bun:",notnull"`
	ClientID     string          `bun:",notnull"`
	ClientSecret []byte          `bun:",notnull"` // encrypted, see keys.ClientSecret
	Domain       string          `bun:",notnull"` // of the addresses of its people, normalised
	DomainToken  string          `bun:",notnull"` // what the domain's DNS record contains
	VerifiedAt   Instant         `bun:",notnull"` // when the record was found; 0: never
	CheckedAt    Instant         `bun:",notnull"` // of the last lookup; 0: an operator has confirmed the domain
	MissingSince Instant         `bun:",notnull"` // when lookups began not to find the record; 0: the last one did
	TrustsEmails bool            `bun:",notnull"` // without email_verified, addresses of the domain are verified
	DefaultRole  Role            `bun:",notnull"` // of new people
	RoleClaim    string          `bun:",notnull"` // the claim that sets roles; empty: none does
	Roles        map[string]Role `bun:"roles,type:text,notnull"`
	ChangedAt    Instant         `bun:",notnull"`
}

// RecordName returns the name of the DNS record that verifies the domain.
func (p *AccountProvider) RecordName() string { return "_tallygate." + p.Domain }

// RecordText returns the text of the DNS record that verifies the domain.
func (p *AccountProvider) RecordText() string { return ProviderRecordPrefix + p.DomainToken }

// HasAddress reports whether a normalised e-mail address belongs to the domain itself. Addresses of
// subdomains do not: others may own them.
func (p *AccountProvider) HasAddress(email string) bool {
	_, domain, ok := strings.Cut(email, "@")
	return ok && domain == p.Domain
}

// RoleOf returns the highest role of a claim's values, or the default role without a match. Without
// a claim it returns "": then the provider sets no roles.
func (p *AccountProvider) RoleOf(values []string) Role {
	if p.RoleClaim == "" {
		return ""
	}

	for _, role := range []Role{RoleOwner, RoleMember, RoleViewer} {
		if slices.ContainsFunc(values, func(value string) bool { return p.Roles[value] == role }) {
			return role
		}
	}
	return p.DefaultRole
}

// Check returns joined errors for the fields that break a rule, with the names of the API's input.
// It normalises the domain. The issuer must be checked with CheckWebhookURL in addition.
func (p *AccountProvider) Check(allowLocal bool) error {
	var domainErr error
	p.Domain, domainErr = ParseDomain(p.Domain, allowLocal)
	if domainErr == nil && isPublicSuffix(p.Domain) {
		domainErr = InvalidField("domain", "invalid_domain", "Others register their domains under it. Enter your own domain.")
	}

	return errors.Join(
		CheckIssuer("issuer", p.Issuer), checkClientText("clientId", p.ClientID), domainErr, p.checkRoles(),
	)
}

// checkRoles checks the default role and what the claim sets.
func (p *AccountProvider) checkRoles() error {
	var errs []error
	if p.DefaultRole == RoleOwner {
		errs = append(errs, InvalidField("defaultRole", "invalid_role", "New people cannot be owners by default."))
	}
	if len(p.RoleClaim) > maxRoleClaim || !IsClean(p.RoleClaim) {
		errs = append(errs, InvalidField("roleClaim", "invalid_text", fmt.Sprintf("Use at most %d characters.", maxRoleClaim)))
	}
	if p.RoleClaim == "" && len(p.Roles) > 0 {
		errs = append(errs, InvalidField("roleClaim", "invalid_text", "Name the claim that has these values."))
	}
	if len(p.Roles) > MaxProviderRole {
		errs = append(errs, InvalidField("roles", "invalid_text", fmt.Sprintf("Use at most %d values.", MaxProviderRole)))
	}
	for value := range p.Roles {
		if value == "" || len(value) > maxRoleValue || !utf8.ValidString(value) || !IsClean(value) {
			errs = append(errs, InvalidField("roles", "invalid_text", fmt.Sprintf("A value has 1 to %d characters.", maxRoleValue)))
			break
		}
	}

	return errors.Join(errs...)
}

// CheckClientSecret checks the secret of a client.
func CheckClientSecret(field, secret string) error { return checkClientText(field, secret) }

// checkClientText checks a client's id or secret.
func checkClientText(field, text string) error {
	if text == "" || len(text) > maxClientText || !IsClean(text) {
		return InvalidField(field, "invalid_text", fmt.Sprintf("Use 1 to %d characters without line breaks.", maxClientText))
	}
	return nil
}

// CheckIssuer checks the form of an issuer: an https address without a query, as OpenID Connect
// Discovery requires. On this machine http will do.
func CheckIssuer(field, issuer string) error {
	u, err := url.Parse(issuer)
	if err != nil || len(issuer) > maxIssuer || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" ||
		strings.ContainsAny(issuer, "?#") {
		return InvalidField(field, "invalid_url", "Enter the issuer's address, such as https://login.example.com.")
	}

	host := u.Hostname()
	local := host == "localhost" || host == "127.0.0.1" || host == "::1"
	if u.Scheme != "https" && (u.Scheme != "http" || !local) {
		return InvalidField(field, "invalid_url", "The issuer's address must begin with https://.")
	}
	return nil
}

// Identity is a person whom a provider knows.
type Identity struct {
	AccountID AccountID `bun:",pk"` // the account with the provider; 0: the installation's provider
	Issuer    string    `bun:",pk"`
	Subject   string    `bun:",pk"`
	UserID    UserID    `bun:",notnull"`
	CreatedAt Instant   `bun:",notnull"`
}

// Through returns the user as a session reaches it. A session of an account's provider reaches that
// account alone, and never operates the installation: the account's owners decide whom their
// provider names. Any other session does not reach accounts that require their own provider, except
// as an owner or a guest. provider is nil without a provider, and 0 for the installation's. It
// returns nil if no account is left.
func (u *User) Through(provider *AccountID) *User {
	member := *u
	member.Provider = provider
	member.Memberships = slices.DeleteFunc(slices.Clone(u.Memberships), func(m *Membership) bool {
		if provider != nil && *provider != 0 {
			return m.AccountID != *provider
		}
		return m.Account != nil && m.Account.RequireProvider && m.Role != RoleOwner && m.SiteIDs == nil
	})
	if len(member.Memberships) == 0 {
		return nil
	}
	if member.IsThroughAccount() {
		member.Operator = false
	}

	if in := member.In(u.AccountID); in != nil {
		return in
	}
	return member.Default()
}

// IsThroughAccount reports whether the provider of an account has signed the user in. It is the
// word of the account's owners: what belongs to the person, and not to the account, is closed.
func (u *User) IsThroughAccount() bool { return u.Provider != nil && *u.Provider != 0 }
