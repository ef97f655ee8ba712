package db

// The keys of PostgreSQL's advisory locks.
const (
	// MigrationLock is held while migrations are applied.
	MigrationLock = 7_211_906_114

	// installationLock is held by sign-ups, so that exactly one is the first of the installation,
	// and by changes that could remove the last operator.
	installationLock = 7_211_906_115

	// PartitionLock is held while partitions are created, attached, detached or dropped.
	PartitionLock = 7_211_906_116

	// siteLocks is added to a site's id, which is smaller: transactions that have entered the site
	// share the lock (Tx.EnterSite), and a move to another cell has it alone (Tx.LockCellOf).
	siteLocks = 1 << 62

	// accountLocks is added to an account's id, which is smaller: see Tx.LockMoveOf.
	accountLocks = 1 << 61

	// SaltLock is held while a day's salt is created: of two concurrent CREATE TABLE IF NOT EXISTS
	// one can fail.
	SaltLock = 7_211_906_118

	// turnLock is the lock of TakeTurn.
	turnLock = 7_211_906_120
)
