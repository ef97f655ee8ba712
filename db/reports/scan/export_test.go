package scan

// The worlds of the tests are small. Their smaller segments are counted in turn, the others side by
// side.
func init() { parallelFrom = 20 }
