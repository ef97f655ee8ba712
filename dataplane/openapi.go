package dataplane

import _ "embed"

// OpenAPI is the OpenAPI 3.1 document of the data listener, in JSON. It is served at /openapi.json.
// Tests check every answer of the data plane against it; see tools/openapitest.
//
//go:embed openapi.json
var OpenAPI []byte
