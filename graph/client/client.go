// Package client calls the GraphQL API as a program of an owner does. The demo, the load program
// and tests use it. github.com/Khan/genqlient generates its functions from the schema, from the
// operations in docs/owner/configure-site.graphql, and from operations.graphql. So each build also proves
// that the schema suits generators of typed clients.
package client

import "fmt"

// Error returns the code and the message of an input that a mutation refused.
func (m *Mistake) Error() string { return fmt.Sprintf("%s: %s", m.Code, m.Message) }

// Payload is the payload of a mutation.
type Payload interface{ GetUserErrors() []Mistake }

// Refused returns the error of a call, or the first input that its mutations refused, as a
// *Mistake. A payload may be nil only if err is not.
func Refused(err error, payloads ...Payload) error {
	if err != nil {
		return err
	}

	for _, payload := range payloads {
		if mistakes := payload.GetUserErrors(); len(mistakes) > 0 {
			return &mistakes[0]
		}
	}

	return nil
}
