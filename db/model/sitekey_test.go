package model_test

import (
	"strings"
	"testing"

	"github.com/tallygate/tallygate/db/model"
)

func TestSitekey(t *testing.T) {
	key := model.NewSitekey()
	if again := model.NewSitekey(); key == again {
		t.Errorf("%s twice", key)
	}

	for s, want := range map[string]bool{
		key: true, model.TestSitekey: true, "": false, key + "x": false, key[:28]: false, strings.ToUpper(key): false,
		key[:28] + "-": false, "svcs_" + key[5:]: false, strings.Repeat("x", 29): false,
	} {
		if got := model.IsSitekey(s); got != want {
			t.Errorf("IsSitekey(%q) is %v", s, got)
		}
	}

	if !model.IsSecret(model.CaptchaSecretPrefix, model.TestSitekeySecret) {
		t.Error("the test secret has not the form of a secret")
	}
	if strings.Trim(key+model.TestSitekeySecret, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-") != "" {
		t.Error("a sitekey or secret needs escaping in a form")
	}
}
