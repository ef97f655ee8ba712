package auth

import (
	"bytes"
	"crypto/sha256"
	_ "embed" // for page.html
	"encoding/base64"
	"net/http"
)

// The pages that mailed links lead to. The secret stands behind a #, so that no server's log has
// it.
const (
	ResetPage      = "/reset-password"
	InvitationPage = "/accept-invitation"
	SignUpPage     = "/confirm-sign-up"
)

//go:embed page.html
var page []byte

// pagePolicy lets the page's own script and style run, by their hashes, and talk to its own origin.
var pagePolicy = "default-src 'none'; script-src " + hashOf("script") + "; style-src " + hashOf("style") +
	"; img-src data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// hashOf is the source expression of the page's one element with this tag.
func hashOf(tag string) string {
	_, rest, _ := bytes.Cut(page, []byte("<"+tag+">"))
	body, _, ok := bytes.Cut(rest, []byte("</"+tag+">"))
	if !ok {
		panic("auth: page.html has no " + tag)
	}
	sum := sha256.Sum256(body)
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}

// Page serves the page on which a person with a mailed link chooses a password, or enters the one
// of a sign-up; the program mounts it at ResetPage, InvitationPage and SignUpPage. It is the same
// for everybody and cannot be framed.
func Page() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Type", "text/html; charset=utf-8")
		h.Set("Content-Security-Policy", pagePolicy)
		h.Set("X-Frame-Options", "DENY")
		h.Set("X-Content-Type-Options", "nosniff")

		// which Origin needs, or the browser would say null
		h.Set("Referrer-Policy", "same-origin")
		h.Set("Cache-Control", "no-cache")
		_, _ = w.Write(page)
	})
}
