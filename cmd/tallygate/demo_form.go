package main

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

// contactForm is the demo shop's protected form with the back end that every owner writes: it asks
// the captcha's server, with the secret, what the token of a message is worth (captcha contract,
// section 4).
type contactForm struct {
	Captcha string // {captcha_url}, for browsers
	Sitekey string

	api    string // where the captcha's server listens, for the back end
	secret string
	client http.Client
}

func newContactForm(captchaURL, api, sitekey, secret string) *contactForm {
	return &contactForm{Captcha: captchaURL, Sitekey: sitekey, api: api, secret: secret, client: http.Client{Timeout: 10 * time.Second}}
}

// contactResult is what the page tells about a message that was sent.
type contactResult struct {
	Accepted bool
	Reason   string // why not
	Answer   string // what siteverify said, word for word
}

// receive checks a message. The message itself goes nowhere.
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

	request, err := http.NewRequestWithContext(ctx, http.MethodPost, f.api+"/api/v1/pow/siteverify", bytes.NewReader(body))
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
		return nil, fmt.Errorf("siteverify answered %s", response.Status)
	}

	return bytes.TrimSpace(answer), nil
}

// policy is the shop's Content-Security-Policy: what the two contracts ask of sites (section 5 of
// each), and WebAssembly, which makes the captcha's work shorter.
func policy(scripts, captcha string) string {
	return fmt.Sprintf("default-src 'self'; script-src 'self' %[1]s %[2]s 'wasm-unsafe-eval'; connect-src 'self' %[1]s %[2]s; "+
		"worker-src blob:; style-src 'self' %[2]s", scripts, captcha)
}
