// Package typedclient is the client that github.com/Khan/genqlient generates from the schema and
// the operations in docs/configure-site.graphql. Only a test uses it: it proves that the schema
// suits generators of typed clients. The program never imports it.
package typedclient
