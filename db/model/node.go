package model

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math"
)

// NodeKind is the kind of row that an opaque id identifies: an object of a type, or a position in a
// list. The values are part of ids that clients store, and never change.
type NodeKind byte

// The kinds of objects and, from AfterSite on, of positions in lists: after an object in the order
// of ids.
const (
	NodeAccount    NodeKind = 1
	NodeUser       NodeKind = 2
	NodeInvitation NodeKind = 3
	NodeAPIToken   NodeKind = 4
	NodeSite       NodeKind = 5
	NodeSitekey    NodeKind = 6
	NodeDelivery   NodeKind = 7
	NodeErasure    NodeKind = 8
	NodeAnnotation NodeKind = 9
	NodeSegment    NodeKind = 10
	NodeFunnel     NodeKind = 11
	NodeSharedLink NodeKind = 12
	NodeImport     NodeKind = 13
	NodeImportJob  NodeKind = 14
	NodePasskey    NodeKind = 26

	NodeAlertChannel NodeKind = 33
	NodeAlertMessage NodeKind = 34

	AfterSite     NodeKind = 65
	AfterSitekey  NodeKind = 66
	AfterDelivery NodeKind = 67

	// AfterAnnotation is a position in the order of days, see OfDay.
	AfterAnnotation NodeKind = 68

	// AfterReportRow is a position among the rows of a report.
	AfterReportRow NodeKind = 69

	AfterAuditEntry NodeKind = 80
	AfterAccount    NodeKind = 81

	// Positions in lists with another order than their first kind. A position in a text order is
	// followed by the text, see package resolver.
	AfterNewestSite       NodeKind = 90
	AfterSiteName         NodeKind = 91
	AfterSiteDomain       NodeKind = 92
	AfterNewestSitekey    NodeKind = 93
	AfterSitekeyName      NodeKind = 94
	AfterOldestDelivery   NodeKind = 95
	AfterOldestAnnotation NodeKind = 96
	AfterAlertMessage     NodeKind = 97

	stopChannel NodeKind = 133 // a secret in mails, which stops their alert channel
)

// nodePrefixes are the prefixes of ids, by which a person recognises the type.
var nodePrefixes = map[NodeKind]string{
	NodeAccount: "account_", NodeUser: "user_", NodeInvitation: "invitation_", NodeAPIToken: "token_",
	NodeSite: "site_", NodeSitekey: "sitekey_", NodeDelivery: "delivery_", NodeErasure: "erasure_",
	NodeAnnotation: "annotation_", NodeSegment: "segment_", NodeFunnel: "funnel_", NodeSharedLink: "sharedlink_",
	NodePasskey: "passkey_", NodeImport: "import_", NodeImportJob: "importjob_",
	NodeAlertChannel: "alertchannel_", NodeAlertMessage: "alertmessage_", AfterAlertMessage: "after_",
	stopChannel: "stop_",
	AfterSite:   "after_", AfterSitekey: "after_", AfterDelivery: "after_", AfterAnnotation: "after_", AfterReportRow: "after_",
	AfterAuditEntry: "after_", AfterAccount: "after_",
	AfterNewestSite: "after_", AfterSiteName: "after_", AfterSiteDomain: "after_",
	AfterNewestSitekey: "after_", AfterSitekeyName: "after_",
	AfterOldestDelivery: "after_", AfterOldestAnnotation: "after_",
}

// nodeTypes are the types of the GraphQL schema.
var nodeTypes = map[NodeKind]string{
	NodeAccount: "Account", NodeUser: "User", NodeInvitation: "Invitation", NodeAPIToken: "ApiToken",
	NodeSite: "Site", NodeSitekey: "Sitekey", NodeDelivery: "Delivery", NodeErasure: "UserDataErasure",
	NodeAnnotation: "Annotation", NodeSegment: "Segment", NodeFunnel: "Funnel", NodeSharedLink: "SharedLink",
	NodeAlertChannel: "AlertChannel", NodeAlertMessage: "AlertMessage",
	NodePasskey: "Passkey", NodeImport: "ReportImport", NodeImportJob: "ImportJob",
}

// Type returns the type in the GraphQL schema of an object's kind; "" for a position in a list.
func (k NodeKind) Type() string { return nodeTypes[k] }

// NodeKindOf returns the kind of the objects of a type, or 0.
func NodeKindOf(typeName string) NodeKind {
	for kind, name := range nodeTypes {
		if name == typeName {
			return kind
		}
	}
	return 0
}

// NodeIDs encodes and decodes the ids that GraphQL, the export and webhook calls use for a row. An
// id is a prefix and 22 characters of [A-Za-z0-9_-]. They are one AES block, so that they reveal
// neither the row's number nor the number of rows, and one row always has the same id. It is safe
// for concurrent use.
//
// A block before its encryption, big-endian:
//
//	kind u8 | site of a delivery, day of a position in the order of days, else 0, u56 | row u64
type NodeIDs struct {
	block        cipher.Block
	fingerprints []byte // the key of Fingerprint
}

// NodeIDKeySize is the size of a key of NodeIDs in bytes.
const NodeIDKeySize = 32

// NewNodeIDs returns the ids under a key of NodeIDKeySize bytes, given as hexadecimal digits.
func NewNodeIDs(key string) (*NodeIDs, error) {
	raw, err := hex.DecodeString(key)
	if err != nil || len(raw) != NodeIDKeySize {
		return nil, fmt.Errorf("the key of ids does not have %d bytes in hexadecimal digits", NodeIDKeySize)
	}

	block, err := aes.NewCipher(raw)
	if err != nil {
		return nil, err
	}

	derived := hmac.New(sha256.New, raw)
	derived.Write([]byte("fingerprints"))
	return &NodeIDs{block: block, fingerprints: derived.Sum(nil)}, nil
}

// Fingerprint returns a hash of a text for a purpose. It is keyed, so that a copy of the database
// does not let its reader guess short texts, such as passwords.
func (n *NodeIDs) Fingerprint(purpose, text string) []byte {
	mac := hmac.New(sha256.New, n.fingerprints)
	fmt.Fprintf(mac, "%d %s %s", len(purpose), purpose, text)
	return mac.Sum(nil)
}

// Of returns the id of a row that is identified by one number.
func (n *NodeIDs) Of(kind NodeKind, id int64) string { return n.seal(kind, 0, id) }

// IDOf returns the id of a row whose number has a type.
func IDOf[ID RowID](n *NodeIDs, id ID) string { return n.Of(id.Kind(), int64(id)) }

// OfDelivery returns the id of a delivery, which is also its webhook-id.
func (n *NodeIDs) OfDelivery(siteID SiteID, id int64) string {
	return n.seal(NodeDelivery, int64(siteID), id)
}

// Parse decodes the id of a row of the given kind. It accepts only the results of Of for positive
// numbers.
func (n *NodeIDs) Parse(kind NodeKind, s string) (id int64, ok bool) {
	got, siteID, id, ok := n.open(s)
	return id, ok && got == kind && siteID == 0 && id > 0
}

// ParseID is Parse for the kind of a type.
func ParseID[ID RowID](n *NodeIDs, s string) (id ID, ok bool) {
	number, ok := n.Parse(id.Kind(), s)
	return ID(number), ok
}

// ParseDelivery decodes an id that OfDelivery returns for positive numbers, and accepts nothing
// else.
func (n *NodeIDs) ParseDelivery(s string) (siteID SiteID, id int64, ok bool) {
	kind, site, id, ok := n.open(s)
	return SiteID(site), id, ok && kind == NodeDelivery && site > 0 && id > 0
}

// OfDay returns the position of a row of a day in a list that is ordered by day and row. The day
// must not be negative.
func (n *NodeIDs) OfDay(kind NodeKind, day Day, id int64) string { return n.seal(kind, int64(day), id) }

// ParseDay decodes a position that OfDay returns for a positive row, and accepts nothing else.
func (n *NodeIDs) ParseDay(kind NodeKind, s string) (day Day, id int64, ok bool) {
	got, number, id, ok := n.open(s)
	return Day(number), id, ok && got == kind && number <= math.MaxInt32 && id > 0
}

// maxStopRow bounds the numbers of channels in secrets. No database comes close to it, while one in
// 512 wrong secrets would decrypt to a channel without a bound.
const maxStopRow = 1<<40 - 1

// OfChannelStop returns the secret that stops an alert channel without signing in. It is one
// encrypted block, which cannot be made without the key. since is the time of the channel's
// confirmation: a channel that was confirmed again has another secret.
func (n *NodeIDs) OfChannelStop(channelID int64, since Instant) string {
	return n.seal(stopChannel, int64(since), channelID)
}

// ParseChannelStop decodes a secret that OfChannelStop returns, and accepts a wrong one once in
// 2^32 times.
func (n *NodeIDs) ParseChannelStop(s string) (channelID int64, since Instant, ok bool) {
	got, at, id, ok := n.open(s)
	return id, Instant(at), ok && got == stopChannel && id > 0 && id <= maxStopRow
}

// KindOf returns the kind of an id, or 0 for an invalid one.
func (n *NodeIDs) KindOf(s string) NodeKind {
	kind, _, _, _ := n.open(s)
	return kind
}

// nodeText is strict: one block has exactly one text.
var nodeText = base64.RawURLEncoding.Strict()

// maxNodeSite is the largest site number in an id: 56 bits.
const maxNodeSite = 1<<56 - 1

func (n *NodeIDs) seal(kind NodeKind, siteID, id int64) string {
	var b [aes.BlockSize]byte
	binary.BigEndian.PutUint64(b[:], uint64(kind)<<56|uint64(siteID)&maxNodeSite)
	binary.BigEndian.PutUint64(b[8:], uint64(id))
	n.block.Encrypt(b[:], b[:])
	return nodePrefixes[kind] + nodeText.EncodeToString(b[:])
}

// open decodes an id of any kind. The kind is 0 if ok is false.
func (n *NodeIDs) open(s string) (kind NodeKind, siteID, id int64, ok bool) {
	at := len(s) - nodeText.EncodedLen(aes.BlockSize)
	if at < 0 {
		return 0, 0, 0, false
	}

	// The decoder skips line breaks, so that text with one decodes to fewer bytes.
	b, err := nodeText.DecodeString(s[at:])
	if err != nil || len(b) != aes.BlockSize {
		return 0, 0, 0, false
	}

	n.block.Decrypt(b, b)
	kind = NodeKind(b[0])
	if prefix, known := nodePrefixes[kind]; !known || prefix != s[:at] {
		return 0, 0, 0, false
	}

	first := binary.BigEndian.Uint64(b)
	return kind, int64(first & maxNodeSite), int64(binary.BigEndian.Uint64(b[8:])), true
}
