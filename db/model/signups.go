package model

import "fmt"

// SignupPolicy restricts who can create an account over the network (setting TALLYGATE_SIGNUPS).
// The zero value is closed.
type SignupPolicy uint8

// The policies. Closed refuses even the first account, which is then created on the command line.
const (
	SignupsClosed    SignupPolicy = iota // no accounts
	SignupsFirstOnly                     // only the first account of an installation, which is the operator's
	SignupsOpen                          // any account
)

var signupNames = map[SignupPolicy]string{SignupsClosed: "closed", SignupsFirstOnly: "first-only", SignupsOpen: "open"}

// ParseSignupPolicy parses open, closed or first-only.
func ParseSignupPolicy(s string) (SignupPolicy, error) {
	for p, name := range signupNames {
		if s == name {
			return p, nil
		}
	}
	return SignupsClosed, fmt.Errorf("%q is not open, closed or first-only", s)
}

// String returns the policy's name in settings.
func (p SignupPolicy) String() string {
	if name, ok := signupNames[p]; ok {
		return name
	}
	return fmt.Sprintf("SignupPolicy(%d)", uint8(p))
}

// MarshalText returns the policy's name.
func (p SignupPolicy) MarshalText() ([]byte, error) { return []byte(p.String()), nil }

// UnmarshalText parses the policy's name.
func (p *SignupPolicy) UnmarshalText(text []byte) error {
	parsed, err := ParseSignupPolicy(string(text))
	if err != nil {
		return err
	}
	*p = parsed
	return nil
}
