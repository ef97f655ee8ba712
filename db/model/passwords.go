package model

import (
	_ "embed"
	"strings"
	"sync"
)

// MinPassword and MaxPassword bound the length of a password in bytes. The upper bound limits the
// cost of hashing.
const (
	MinPassword = 10
	MaxPassword = 1024
)

// minStoredPassword is the length of the shortest password that was ever accepted. Passwords that
// were chosen under the earlier rule still sign in.
const minStoredPassword = 8

//go:embed passwords.txt
var commonPasswordList string

// commonPasswords are the most common passwords of at least MinPassword bytes, in lower case.
var commonPasswords = sync.OnceValue(func() map[string]bool {
	common := make(map[string]bool)
	for line := range strings.Lines(commonPasswordList) {
		if word := strings.TrimSpace(line); len(word) >= MinPassword && !strings.HasPrefix(word, "# ") {
			common[word] = true
		}
	}
	return common
})

// IsPassword reports whether a user can have this password. It bounds the cost of a check; a new
// password must pass CheckPassword.
func IsPassword(s string) bool { return len(s) >= minStoredPassword && len(s) <= MaxPassword }

// CheckPassword returns an error for a new password that is too short, too long or very common.
func CheckPassword(s string) error {
	if len(s) < MinPassword || len(s) > MaxPassword {
		return InvalidField("password", "invalid_password", "Use a password of 10 to 1024 bytes.")
	}
	if commonPasswords()[strings.ToLower(s)] {
		return InvalidField("password", "common_password", "This is one of the most common passwords. Choose another one.")
	}
	return nil
}

// CheckLinkPassword returns an error for the password of a shared link that is too short or too
// long. It protects one report and is passed on to readers, so fewer rules apply.
func CheckLinkPassword(s string) error {
	if !IsPassword(s) {
		return InvalidField("password", "invalid_password", "Use a password of 8 to 1024 bytes.")
	}
	return nil
}
