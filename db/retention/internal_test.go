package retention

// ErasureBodies is erasureBodies, for tests.
const ErasureBodies = erasureBodies
