// Package client calls the GraphQL API for the demo and the load program. Its functions are generated
// from operations.graphql and the schema.
package client

import "fmt"

// Error returns the code and the message of an input that a mutation refused.
func (m *Mistake) Error() string { return fmt.Sprintf("%s: %s", m.Code, m.Message) }

// Refused returns the error of a call, or the first input that its mutation refused, as a *Mistake.
func Refused(err error, mistakes []Mistake) error {
	if err == nil && len(mistakes) > 0 {
		return &mistakes[0]
	}
	return err
}
