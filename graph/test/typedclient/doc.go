// Package typedclient is what a public generator of typed clients, github.com/Khan/genqlient, makes
// of the schema and of the operations in docs/configure-site.graphql. It exists for a test: owners
// who automate in a typed language get such a client out of their own generator, so the schema must
// suit one.
package typedclient
