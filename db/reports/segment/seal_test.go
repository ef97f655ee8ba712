package segment

// Seal and SealRollup write the right checksum, so that a fuzzed part or rollup reaches the
// decoder.
var (
	Seal       = seal
	SealRollup = sealRollup
)
