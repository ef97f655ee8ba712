// Package assets serves the files that browsers load from Tallygate: the scripts that site owners
// paste, and GraphiQL for the control plane. All files are built or vendored beforehand, compressed
// and embedded; the package never builds or compresses at run time.
//
// The data plane mounts Handler, and the control plane mounts GraphiQL. The package imports no
// other package of Tallygate.
package assets

import "embed"

//go:generate go run ./build

// built holds the output of build/ from the sources in src/: each file uncompressed,
// gzip-compressed and brotli-compressed.
//
//go:embed dist
var built embed.FS

// thirdParty holds vendored browser code, gzip-compressed. Each folder's README names its origin
// and licence.
//
//go:embed thirdparty/graphiql/*.gz
var thirdParty embed.FS
