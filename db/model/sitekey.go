package model

import "strings"

// Sitekey is a captcha sitekey with the secret that belongs to it (captcha contract, section 2).
// The secret itself is shown once and stored as a hash.
type Sitekey struct {
	ID         int64    `bun:",pk,autoincrement"`
	AccountID  int64    `bun:",notnull"`
	Sitekey    string   `bun:",notnull"` // public; see NewSitekey
	Name       string   `bun:",notnull"` // display name, 1 to 100 characters
	Domains    []string `bun:",notnull"` // normalised, sorted; subdomains are implied; empty: valid on every domain
	SecretHash []byte   `bun:",notnull"` // SHA-256, see HashToken
	SecretHint string   `bun:",notnull"` // the last characters of the secret
	CreatedAt  Instant  `bun:",notnull"`
}

// Limits of sitekeys. The contract sets none.
const (
	MaxSitekeys       = 1_000 // of an account
	MaxSitekeyDomains = 50    // that a sitekey may be bound to
)

// CaptchaSecretPrefix is the prefix of every sitekey's secret, see NewSecret.
const CaptchaSecretPrefix = "svcc_"

const (
	sitekeyPrefix = "svck_"
	sitekeyRandom = 24 // base62 characters, 142 bits
)

// NewSitekey returns a public sitekey: "svck_" and 24 random base62 characters.
func NewSitekey() string { return sitekeyPrefix + randomBase62(sitekeyRandom) }

// IsSitekey reports whether s has the form of a sitekey.
func IsSitekey(s string) bool {
	random, ok := strings.CutPrefix(s, sitekeyPrefix)
	if !ok || len(random) != sitekeyRandom {
		return false
	}

	for i := range len(random) {
		if !isBase62(random[i]) {
			return false
		}
	}

	return true
}

// The test credentials (captcha contract, section 5), the same in every installation. The sitekey
// is valid on every domain and requires the real work; its tokens are accepted once like others and
// never count against a quota. No other secret accepts the sitekey's tokens. They must not be used
// in production: the secret is public.
const (
	TestSitekey       = "svck_TestTestTestTestTestTest"
	TestSitekeySecret = "svcc_TestTestTestTestTestTestTestTe0kP4So"
)
