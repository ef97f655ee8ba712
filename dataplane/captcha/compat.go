package captcha

import (
	"bytes"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/tallygate/tallygate/dataplane/jsonbody"
	"github.com/tallygate/tallygate/web"
)

// The error codes of /siteverify (captcha contract, section 7). Client libraries know
// internal-error as the temporary one.
const (
	codeMissingSecret   = "missing-input-secret"
	codeInvalidSecret   = "invalid-input-secret"
	codeMissingResponse = "missing-input-response"
	codeInvalidResponse = "invalid-input-response"
	codeConsumed        = "timeout-or-duplicate"
	codeBadRequest      = "bad-request"
	codeQuotaExceeded   = "quota-exceeded"
	codeInternal        = "internal-error"
)

// compatSuccess and compatFailure are the answers of /siteverify. They have no optional fields in
// common: client libraries treat an empty list of errors as an error, and fail on an empty
// timestamp.
type compatSuccess struct {
	Success     bool   `json:"success"`
	ChallengeTS string `json:"challenge_ts"` // ISO 8601, UTC
	Hostname    string `json:"hostname"`
}

type compatFailure struct {
	Success    bool     `json:"success"`
	ErrorCodes []string `json:"error-codes"`
}

// compatCall holds the parameters of a call in the format of other captcha services. Other
// parameters are ignored.
type compatCall struct {
	secret, response, sitekey string

	// badSitekey is set for a sitekey of the wrong JSON type or form encoding. Such a call must
	// fail: without its sitekey, the check that the caller requested would be skipped.
	badSitekey bool

	deadline time.Time // of the answer
}

// field returns the field of a parameter, or nil for an ignored one.
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

// set sets a parameter that has no value yet. An empty value counts as absent. White space around
// the value is trimmed, such as the line break of a secret that was read from a file.
func (c *compatCall) set(name, value string) {
	if field := c.field(name); field != nil && *field == "" {
		*field = strings.TrimSpace(value)
	}
}

// Compat answers /siteverify (captcha contract, section 4) for any method and always with HTTP 200.
// If it returns an error, nothing is written yet: the caller logs the error and answers with
// CompatUnavailable.
func (s *Service) Compat(w http.ResponseWriter, r *http.Request) error {
	call, key, codes, err := s.openCompatCall(r)
	if err != nil {
		s.metrics.verifications.countCall("", err)
		return err
	}
	if len(codes) > 0 {
		s.metrics.verifications.count(compatRefusals[codes[0]])
		refuse(w, codes...)
		return nil
	}

	verdict, t, err := s.redeem(r.Context(), call.deadline, key, call.response)
	if err != nil {
		return err
	}

	switch verdict {
	case claimed, claimedFromReserve:
		web.WriteJSON(w, compatSuccess{Success: true, ChallengeTS: t.Issued.Format(compatTime), Hostname: t.Hostname})
	case duplicate, expired:
		refuse(w, codeConsumed)
	case overQuota, accountSuspended:
		refuse(w, codeQuotaExceeded)
	case sitekeyDeleted:
		refuse(w, codeInvalidSecret)
	default:
		refuse(w, codeInvalidResponse)
	}

	return nil
}

// openCompatCall reads the parameters of a call and finds the sitekey of its secret. It returns the
// error codes to refuse the call with, if there are any.
func (s *Service) openCompatCall(r *http.Request) (*compatCall, *sitekey, []string, error) {
	call, ok := readCompat(r)
	if !ok {
		return nil, nil, []string{codeBadRequest}, nil
	}
	if codes := call.missing(); len(codes) > 0 {
		return nil, nil, codes, nil
	}

	call.deadline = s.deadline()
	key, err := s.sitekeyOfSecret(call.deadline, call.secret)
	switch {
	case err != nil:
		return nil, nil, nil, err
	case key == nil:
		return nil, nil, []string{codeInvalidSecret}, nil
	case call.sitekey != "" && call.sitekey != key.text:
		return nil, nil, []string{codeInvalidResponse}, nil
	}

	return call, key, nil, nil
}

// compatTime is RFC 3339 in UTC with milliseconds, which every client library reads.
const compatTime = "2006-01-02T15:04:05.000Z"

func refuse(w http.ResponseWriter, codes ...string) {
	web.WriteJSON(w, compatFailure{ErrorCodes: codes})
}

// CompatUnavailable answers /siteverify after an internal error. It is never a success.
func CompatUnavailable(w http.ResponseWriter) { refuse(w, codeInternal) }

// missing returns the error codes for required parameters that are absent.
func (c *compatCall) missing() (codes []string) {
	if c.secret == "" {
		codes = append(codes, codeMissingSecret)
	}
	if c.response == "" {
		codes = append(codes, codeMissingResponse)
	}
	return codes
}

// readCompat reads the parameters from the body, and those that are absent there from the query. It
// reports false for a body that is too large or does not match its content type, for an unreadable
// sitekey, and for methods other than GET and POST.
func readCompat(r *http.Request) (*compatCall, bool) {
	if r.Method != http.MethodPost && r.Method != http.MethodGet {
		return nil, false
	}

	var call, query compatCall
	b, err := jsonbody.Read(r)
	if err != nil {
		return nil, false
	}
	defer jsonbody.Free(b)

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

// readBody reads a JSON object, multipart fields, or a form. A body that starts with a brace is an
// object, whatever its content type, since some libraries do not set one.
func (c *compatCall) readBody(b []byte, contentType string) bool {
	kind, parameters, _ := mime.ParseMediaType(contentType)
	switch {
	case len(bytes.TrimSpace(b)) == 0:
		return true
	case kind == "multipart/form-data":
		return c.readMultipart(multipart.NewReader(bytes.NewReader(b), parameters["boundary"]))
	case kind == "application/json", bytes.HasPrefix(bytes.TrimLeft(b, " \t\r\n"), []byte("{")):
		return c.readJSON(b)
	}

	c.readForm(string(b))
	return true
}

// readJSON reads a JSON object. A value of the wrong type counts as absent, as null does. For the
// sitekey it makes the call fail.
func (c *compatCall) readJSON(b []byte) bool {
	o := jsonbody.Open(b)
	defer o.Close()

	for o.Next() {
		if c.field(o.Key()) == nil {
			continue
		}

		kind := o.Kind()
		c.badSitekey = c.badSitekey || o.Key() == "sitekey" && kind != '"' && kind != 'n'

		var text string
		o.Exact(&text)
		c.set(o.Key(), text)
	}

	return o.Err() == nil
}

// readForm reads parameters in the form of a query. Of each parameter the first value counts that
// is not empty. A pair that cannot be decoded is skipped, since its parameter may be an ignored
// one. An undecodable sitekey makes the call fail.
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

// readMultipart reads the fields of a multipart form.
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
