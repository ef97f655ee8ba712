package model

// The numbers of rows by kind, so that numbers of two kinds cannot be swapped. Package nodeid shows
// each as the id of its kind.
type (
	AccountID    int64
	AnnotationID int64
	APITokenID   int64
	ErasureID    int64
	FunnelID     int64
	ImportID     int64
	ImportJobID  int64
	InvitationID int64
	PasskeyID    int64
	SegmentID    int64
	SharedLinkID int64
	SiteID       int64
	SitekeyID    int64
	UserID       int64
)
