package captcha

import (
	"bytes"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"net/url"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/tallygate/tallygate/dataplane/body"
	"github.com/tallygate/tallygate/web"
)

// The error codes of /siteverify (captcha contract, section 7; internal-error is the one that
// libraries know for what is temporary).
const (
	codeMissingSecret   = "missing-input-secret"
	codeInvalidSecret   = "invalid-input-secret"
	codeMissingResponse = "missing-input-response"
	codeInvalidResponse = "invalid-input-response"
	codeSpent           = "timeout-or-duplicate"
	codeBadRequest      = "bad-request"
	codeQuotaExceeded   = "quota-exceeded"
	codeInternal        = "internal-error"
)

// compatSuccess and compatFailure are the answers of /siteverify. Their fields exclude each other:
// client libraries read an empty list of errors as an error, and fail on an empty moment.
type compatSuccess struct {
	Success     bool   `json:"success"`
	ChallengeTS string `json:"challenge_ts"` // ISO 8601, UTC
	Hostname    string `json:"hostname"`
}

type compatFailure struct {
	Success    bool     `json:"success"`
	ErrorCodes []string `json:"error-codes"`
}

// compatCall holds the parameters of a call in the format of other captcha services. All others are
// ignored.
type compatCall struct {
	secret, response, sitekey string

	// badSitekey is set by a sitekey of the wrong JSON type or form encoding. Such a call must
	// fail: without its sitekey, the check that the caller asked for would be skipped.
	badSitekey bool
}

// field returns where a parameter goes, or nil for one that is ignored.
func (c *compatCall) field(name string) *string {
	switch name {
	case "secret":
		return &c.secret
	case "response":
		return &c.response
	case "sitekey":
		return &c.sitekey
	}

	return nil
}

// set sets a parameter that has no value yet, without the white space around it. An empty value
// counts as absent.
func (c *compatCall) set(name, value string) {
	if field := c.field(name); field != nil && *field == "" {
		// a line break at the end of a file, for instance
		*field = strings.TrimSpace(value)
	}
}

// Compat answers /siteverify (captcha contract, section 4), by any method, always with HTTP 200.
// The returned error is only for the log: it is what CompatUnavailable was answered for.
func (s *Service) Compat(w http.ResponseWriter, r *http.Request) error {
	call, ok := readCompat(r)
	if !ok {
		refuse(w, codeBadRequest)
		return nil
	}

	if codes := call.missing(); len(codes) > 0 {
		refuse(w, codes...)
		return nil
	}

	deadline := s.deadline()
	key, err := s.sitekeyOfSecret(deadline, call.secret)
	if err != nil {
		return err
	}

	if key == nil {
		refuse(w, codeInvalidSecret)
		return nil
	}

	if call.sitekey != "" && call.sitekey != key.text {
		refuse(w, codeInvalidResponse)
		return nil
	}

	verdict, t, err := s.redeem(r.Context(), deadline, key, call.response)
	if err != nil {
		return err
	}

	switch verdict {
	case claimed, claimedFromReserve:
		web.WriteJSON(w, compatSuccess{Success: true, ChallengeTS: t.Issued.Format(compatTime), Hostname: t.Hostname})
	case duplicate:
		refuse(w, codeSpent)
	case overQuota:
		refuse(w, codeQuotaExceeded)
	case accountGone:
		refuse(w, codeInvalidSecret)
	default:
		refuse(w, codeInvalidResponse)
	}

	return nil
}

// compatTime is RFC 3339 in UTC with milliseconds, which every client library reads.
const compatTime = "2006-01-02T15:04:05.000Z"

func refuse(w http.ResponseWriter, codes ...string) {
	web.WriteJSON(w, compatFailure{ErrorCodes: codes})
}

// CompatUnavailable answers /siteverify when nothing can be said of the token: it is ours to mend,
// and never a success.
func CompatUnavailable(w http.ResponseWriter) { refuse(w, codeInternal) }

func (c *compatCall) missing() (codes []string) {
	if c.secret == "" {
		codes = append(codes, codeMissingSecret)
	}
	if c.response == "" {
		codes = append(codes, codeMissingResponse)
	}
	return codes
}

// readCompat reads the parameters of the body, and those that the body leaves out or empty from the
// query. It is false for a body that is too large or does not have the form that it claims, for a
// sitekey that cannot be read, and for methods that carry no request.
func readCompat(r *http.Request) (*compatCall, bool) {
	if r.Method != http.MethodPost && r.Method != http.MethodGet {
		return nil, false
	}

	var call, query compatCall
	b, err := body.Read(r)
	if err != nil {
		return nil, false
	}
	defer body.Free(b)

	if !call.readBody(b.Bytes(), r.Header.Get("Content-Type")) {
		return nil, false
	}

	query.readForm(r.URL.RawQuery)

	if call.badSitekey || call.sitekey == "" && query.badSitekey {
		return nil, false
	}

	for _, name := range []string{"secret", "response", "sitekey"} {
		call.set(name, *query.field(name))
	}

	return &call, true
}

// readBody reads a JSON object, multipart fields, or a form. What begins like an object is one,
// whatever it claims: libraries forget to say so.
func (c *compatCall) readBody(b []byte, contentType string) bool {
	kind, parameters, _ := mime.ParseMediaType(contentType)
	switch {
	case len(bytes.TrimSpace(b)) == 0:
		return true
	case kind == "multipart/form-data":
		return c.readMultipart(multipart.NewReader(bytes.NewReader(b), parameters["boundary"]))
	case kind == "application/json", bytes.HasPrefix(bytes.TrimLeft(b, " \t\r\n"), []byte("{")):
		return body.Object(b, c.member) == nil
	}

	c.readForm(string(b))
	return true
}

// member reads a key of a JSON object. A value of the wrong type counts as absent, as null does,
// except that of the sitekey.
func (c *compatCall) member(d *jsontext.Decoder, key string) error {
	if c.field(key) == nil {
		return d.SkipValue()
	}

	kind := d.PeekKind()
	c.badSitekey = c.badSitekey || key == "sitekey" && kind != '"' && kind != 'n'

	var text string
	if err := body.Exact(d, &text); err != nil {
		return err
	}

	c.set(key, text)
	return nil
}

// readForm reads parameters in the form of a query. The first value of each counts that is not
// empty. What cannot be decoded is left out, since it may be a parameter that is ignored, except
// the sitekey.
func (c *compatCall) readForm(s string) {
	for pair := range strings.SplitSeq(s, "&") {
		name, value, _ := strings.Cut(pair, "=")
		name, err := url.QueryUnescape(name)
		if field := c.field(name); err != nil || field == nil || *field != "" {
			continue
		}

		text, err := url.QueryUnescape(value)
		if err != nil {
			c.badSitekey = c.badSitekey || name == "sitekey"
			continue
		}

		c.set(name, text)
	}
}

func (c *compatCall) readMultipart(reader *multipart.Reader) bool {
	for {
		part, err := reader.NextPart()
		if err == io.EOF {
			return true
		}
		if err != nil {
			return false
		}
		if c.field(part.FormName()) == nil {
			continue
		}

		text, err := io.ReadAll(part)
		if err != nil {
			return false
		}

		c.set(part.FormName(), string(text))
	}
}
