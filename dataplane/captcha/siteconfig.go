package captcha

import (
	"errors"
	"net/http"

	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/web"
)

// siteconfigAnswer reports whether a sitekey works, in the form of hCaptcha.
type siteconfigAnswer struct {
	Pass     bool      `json:"pass"`
	Features *struct{} `json:"features,omitempty"`
	Error    string    `json:"error,omitempty"`
}

// Siteconfig answers POST /checksiteconfig?sitekey=…, by which hCaptcha's plug-ins check their
// settings. It reads the sitekey only, and stores nothing. An unknown sitekey is an answer, not an
// error.
func (s *Service) Siteconfig(w http.ResponseWriter, r *http.Request) error {
	if r.Method == http.MethodOptions {
		return preflight(w, r)
	}

	web.AllowOrigin(w, r, "Retry-After")
	if r.Method != http.MethodPost {
		return errMethod
	}

	key, err := s.sitekeyOf(s.deadline(), r.URL.Query().Get("sitekey"))
	if err == nil && key.suspended {
		err = errSuspended
	}
	if refusal, ok := errors.AsType[*model.Error](err); ok && refusal.Kind == model.NotFound {
		web.WriteJSON(w, siteconfigAnswer{Error: refusal.Message})
		return nil
	}
	if err != nil {
		return err
	}

	web.WriteJSON(w, siteconfigAnswer{Pass: true, Features: &struct{}{}})
	return nil
}
