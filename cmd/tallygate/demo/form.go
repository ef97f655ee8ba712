package demo

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"
)

// contactForm is the demo shop's protected form with its back end. The back end verifies each
// message's token with the secret (captcha contract, section 4).
type contactForm struct {
	Captcha string // {captcha_url}, for browsers
	Sitekey string

	api    string // origin of the captcha's server, for the back end
	secret string
	client http.Client
}

func newContactForm(captchaURL, api, sitekey, secret string) *contactForm {
	return &contactForm{Captcha: captchaURL, Sitekey: sitekey, api: api, secret: secret,
		client: http.Client{Timeout: 10 * time.Second}}
}

// contactResult is the outcome of a message, as the page shows it.
type contactResult struct {
	Accepted bool
	Reason   string // why the message was refused
	Answer   string // the response of siteverify, verbatim
}

// receive verifies a message's token. The message itself is discarded.
func (f *contactForm) receive(ctx context.Context, message url.Values) contactResult {
	token := message.Get("service-captcha-response")
	if token == "" {
		return contactResult{Reason: "the form came without a token"}
	}

	answer, err := f.siteverify(ctx, token)
	if err != nil {
		return contactResult{Reason: "the token cannot be checked now: " + err.Error()}
	}

	var verdict struct{ Valid bool }
	if err := json.Unmarshal(answer, &verdict); err != nil {
		return contactResult{Reason: "the answer cannot be read", Answer: string(answer)}
	}
	if !verdict.Valid {
		return contactResult{Reason: "the token was used before, has expired or is none", Answer: string(answer)}
	}

	return contactResult{Accepted: true, Answer: string(answer)}
}

func (f *contactForm) siteverify(ctx context.Context, token string) ([]byte, error) {
	body, err := json.Marshal(map[string]string{"sitekey": f.Sitekey, "secret": f.secret, "token": token})
	if err != nil {
		return nil, err
	}

	request, err := http.NewRequestWithContext(ctx, http.MethodPost, f.api+"/api/v1/pow/siteverify",
		bytes.NewReader(body))
	if err != nil {
		return nil, err
	}

	request.Header.Set("Content-Type", "application/json")
	response, err := f.client.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()

	answer, err := io.ReadAll(io.LimitReader(response.Body, 4096))
	if err != nil {
		return nil, err
	}
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("siteverify responded %s", response.Status)
	}

	return bytes.TrimSpace(answer), nil
}

// policy returns the shop's Content-Security-Policy: what the two contracts require (section 5 of
// each), and WebAssembly, which speeds up the captcha.
func policy(scripts, captcha string) string {
	return fmt.Sprintf(
		"default-src 'self'; script-src 'self' %[1]s %[2]s 'wasm-unsafe-eval'; connect-src 'self' %[1]s %[2]s; "+
			"worker-src blob:; style-src 'self' %[2]s",
		scripts, captcha,
	)
}
