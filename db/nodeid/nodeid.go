// Package nodeid makes and reads the ids of rows that GraphQL, the export and webhook calls use.
package nodeid

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

	"github.com/tallygate/tallygate/db/model"
)

// Kind is the kind of row that an opaque id identifies: an object of a type, or a position in a
// list. The values are part of ids that clients store, and never change.
type Kind byte

// The kinds of objects and, from AfterSite on, of positions in lists: after an object in the order
// of ids.
const (
	Account    Kind = 1
	User       Kind = 2
	Invitation Kind = 3
	APIToken   Kind = 4
	Site       Kind = 5
	Sitekey    Kind = 6
	Delivery   Kind = 7
	Erasure    Kind = 8
	Annotation Kind = 9
	Segment    Kind = 10
	Funnel     Kind = 11
	SharedLink Kind = 12
	Import     Kind = 13
	ImportJob  Kind = 14
	Passkey    Kind = 26

	AlertChannel Kind = 33
	AlertMessage Kind = 34

	AfterSite     Kind = 65
	AfterSitekey  Kind = 66
	AfterDelivery Kind = 67

	// AfterAnnotation is a position in the order of days, see OfDay.
	AfterAnnotation Kind = 68

	// AfterReportRow is a position among the rows of a report.
	AfterReportRow Kind = 69

	AfterAuditEntry Kind = 80
	AfterAccount    Kind = 81

	// Positions in lists with another order than their first kind. A position in a text order is
	// followed by the text, see package resolver.
	AfterNewestSite       Kind = 90
	AfterSiteName         Kind = 91
	AfterSiteDomain       Kind = 92
	AfterNewestSitekey    Kind = 93
	AfterSitekeyName      Kind = 94
	AfterOldestDelivery   Kind = 95
	AfterOldestAnnotation Kind = 96
	AfterAlertMessage     Kind = 97

	stopChannel Kind = 133 // a secret in mails, which stops their alert channel
)

// nodePrefixes are the prefixes of ids, by which a person recognises the type.
var nodePrefixes = map[Kind]string{
	Account: "account_", User: "user_", Invitation: "invitation_", APIToken: "token_",
	Site: "site_", Sitekey: "sitekey_", Delivery: "delivery_", Erasure: "erasure_",
	Annotation: "annotation_", Segment: "segment_", Funnel: "funnel_", SharedLink: "sharedlink_",
	Passkey: "passkey_", Import: "import_", ImportJob: "importjob_",
	AlertChannel: "alertchannel_", AlertMessage: "alertmessage_", AfterAlertMessage: "after_",
	stopChannel: "stop_",
	AfterSite:   "after_", AfterSitekey: "after_", AfterDelivery: "after_", AfterAnnotation: "after_", AfterReportRow: "after_",
	AfterAuditEntry: "after_", AfterAccount: "after_",
	AfterNewestSite: "after_", AfterSiteName: "after_", AfterSiteDomain: "after_",
	AfterNewestSitekey: "after_", AfterSitekeyName: "after_",
	AfterOldestDelivery: "after_", AfterOldestAnnotation: "after_",
}

// nodeTypes are the types of the GraphQL schema.
var nodeTypes = map[Kind]string{
	Account: "Account", User: "User", Invitation: "Invitation", APIToken: "ApiToken",
	Site: "Site", Sitekey: "Sitekey", Delivery: "Delivery", Erasure: "UserDataErasure",
	Annotation: "Annotation", Segment: "Segment", Funnel: "Funnel", SharedLink: "SharedLink",
	AlertChannel: "AlertChannel", AlertMessage: "AlertMessage",
	Passkey: "Passkey", Import: "ReportImport", ImportJob: "ImportJob",
}

// Type returns the type in the GraphQL schema of an object's kind; "" for a position in a list.
func (k Kind) Type() string { return nodeTypes[k] }

// KindOfType returns the kind of the objects of a type, or 0.
func KindOfType(typeName string) Kind {
	for kind, name := range nodeTypes {
		if name == typeName {
			return kind
		}
	}
	return 0
}

// Number is the number of a row. The kind of the row follows from the type of the number.
type Number interface {
	model.AccountID | model.AnnotationID | model.APITokenID | model.ErasureID | model.FunnelID |
		model.ImportID | model.ImportJobID | model.InvitationID | model.PasskeyID | model.SegmentID |
		model.SharedLinkID | model.SiteID | model.SitekeyID | model.UserID
}

// numberKinds are the kinds of rows by the zero number of their type.
var numberKinds = map[any]Kind{
	model.AccountID(0): Account, model.UserID(0): User, model.InvitationID(0): Invitation, model.APITokenID(0): APIToken,
	model.SiteID(0): Site, model.SitekeyID(0): Sitekey, model.ErasureID(0): Erasure,
	model.AnnotationID(0): Annotation, model.SegmentID(0): Segment, model.FunnelID(0): Funnel,
	model.SharedLinkID(0): SharedLink, model.PasskeyID(0): Passkey, model.ImportID(0): Import, model.ImportJobID(0): ImportJob,
}

// KindOf returns the kind of the rows with numbers of a type.
func KindOf[ID Number]() Kind {
	kind, ok := numberKinds[ID(0)]
	if !ok {
		panic(fmt.Sprintf("nodeid: %T has no kind", ID(0)))
	}
	return kind
}

// IDs encodes and decodes the ids that GraphQL, the export and webhook calls use for a row. An
// id is a prefix and 22 characters of [A-Za-z0-9_-]. They are one AES block, so that they reveal
// neither the row's number nor the number of rows, and one row always has the same id. It is safe
// for concurrent use.
//
// A block before its encryption, big-endian:
//
//	kind u8 | site of a delivery, day of a position in the order of days, else 0, u56 | row u64
type IDs struct {
	block        cipher.Block
	fingerprints []byte // the key of Fingerprint
}

// KeySize is the size of a key of IDs in bytes.
const KeySize = 32

// New returns the ids under a key of KeySize bytes, given as hexadecimal digits.
func New(key string) (*IDs, error) {
	raw, err := hex.DecodeString(key)
	if err != nil || len(raw) != KeySize {
		return nil, fmt.Errorf("the key of ids does not have %d bytes in hexadecimal digits", KeySize)
	}

	block, err := aes.NewCipher(raw)
	if err != nil {
		return nil, err
	}

	derived := hmac.New(sha256.New, raw)
	derived.Write([]byte("fingerprints"))
	return &IDs{block: block, fingerprints: derived.Sum(nil)}, nil
}

// Fingerprint returns a hash of a text for a purpose. It is keyed, so that a copy of the database
// does not let its reader guess short texts, such as passwords.
func (n *IDs) Fingerprint(purpose, text string) []byte {
	mac := hmac.New(sha256.New, n.fingerprints)
	fmt.Fprintf(mac, "%d %s %s", len(purpose), purpose, text)
	return mac.Sum(nil)
}

// Of returns the id of a row that is identified by one number.
func (n *IDs) Of(kind Kind, id int64) string { return n.seal(kind, 0, id) }

// Of returns the id of a row by a number with a type.
func Of[ID Number](n *IDs, id ID) string { return n.Of(KindOf[ID](), int64(id)) }

// OfDelivery returns the id of a delivery, which is also its webhook-id.
func (n *IDs) OfDelivery(siteID model.SiteID, id int64) string {
	return n.seal(Delivery, int64(siteID), id)
}

// Parse decodes the id of a row of the given kind. It accepts only the results of Of for positive
// numbers.
func (n *IDs) Parse(kind Kind, s string) (id int64, ok bool) {
	got, siteID, id, ok := n.open(s)
	return id, ok && got == kind && siteID == 0 && id > 0
}

// Parse is Parse for the kind of a type.
func Parse[ID Number](n *IDs, s string) (id ID, ok bool) {
	number, ok := n.Parse(KindOf[ID](), s)
	return ID(number), ok
}

// ParseDelivery decodes an id that OfDelivery returns for positive numbers, and accepts nothing
// else.
func (n *IDs) ParseDelivery(s string) (siteID model.SiteID, id int64, ok bool) {
	kind, site, id, ok := n.open(s)
	return model.SiteID(site), id, ok && kind == Delivery && site > 0 && id > 0
}

// OfDay returns the position of a row of a day in a list that is ordered by day and row. The day
// must not be negative.
func (n *IDs) OfDay(kind Kind, day model.Day, id int64) string { return n.seal(kind, int64(day), id) }

// ParseDay decodes a position that OfDay returns for a positive row, and accepts nothing else.
func (n *IDs) ParseDay(kind Kind, s string) (day model.Day, id int64, ok bool) {
	got, number, id, ok := n.open(s)
	return model.Day(number), id, ok && got == kind && number <= math.MaxInt32 && id > 0
}

// maxStopRow bounds the numbers of channels in secrets. No database comes close to it, while one in
// 512 wrong secrets would decrypt to a channel without a bound.
const maxStopRow = 1<<40 - 1

// OfChannelStop returns the secret that stops an alert channel without signing in. It is one
// encrypted block, which cannot be made without the key. since is the time of the channel's
// confirmation: a channel that was confirmed again has another secret.
func (n *IDs) OfChannelStop(channelID int64, since model.Instant) string {
	return n.seal(stopChannel, int64(since), channelID)
}

// ParseChannelStop decodes a secret that OfChannelStop returns, and accepts a wrong one once in
// 2^32 times.
func (n *IDs) ParseChannelStop(s string) (channelID int64, since model.Instant, ok bool) {
	got, at, id, ok := n.open(s)
	return id, model.Instant(at), ok && got == stopChannel && id > 0 && id <= maxStopRow
}

// KindOf returns the kind of an id, or 0 for an invalid one.
func (n *IDs) KindOf(s string) Kind {
	kind, _, _, _ := n.open(s)
	return kind
}

// nodeText is strict: one block has exactly one text.
var nodeText = base64.RawURLEncoding.Strict()

// maxNodeSite is the largest site number in an id: 56 bits.
const maxNodeSite = 1<<56 - 1

func (n *IDs) seal(kind Kind, siteID, id int64) string {
	var b [aes.BlockSize]byte
	binary.BigEndian.PutUint64(b[:], uint64(kind)<<56|uint64(siteID)&maxNodeSite)
	binary.BigEndian.PutUint64(b[8:], uint64(id))
	n.block.Encrypt(b[:], b[:])
	return nodePrefixes[kind] + nodeText.EncodeToString(b[:])
}

// open decodes an id of any kind. The kind is 0 if ok is false.
func (n *IDs) open(s string) (kind Kind, siteID, id int64, ok bool) {
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
	kind = Kind(b[0])
	if prefix, known := nodePrefixes[kind]; !known || prefix != s[:at] {
		return 0, 0, 0, false
	}

	first := binary.BigEndian.Uint64(b)
	return kind, int64(first & maxNodeSite), int64(binary.BigEndian.Uint64(b[8:])), true
}
