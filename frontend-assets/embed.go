// Package assets holds what browsers load from Tallygate: the scripts that site owners paste, and
// GraphiQL for the control plane. Everything is built or vendored beforehand, embedded, and already
// compressed; this package only hands it out.
//
// The data plane mounts Handler, the control plane mounts GraphiQL. The package imports nothing
// else of Tallygate.
package assets

import "embed"

//go:generate go run ./build

// built is made by the program in build/ from the sources in src/: each file as it is,
// gzip-compressed and brotli-compressed.
//
//go:embed dist
var built embed.FS

// thirdParty holds other people's browser code, gzip-compressed; each folder's README says what it
// is and under which licence.
//
//go:embed thirdparty/graphiql/*.gz
var thirdParty embed.FS
