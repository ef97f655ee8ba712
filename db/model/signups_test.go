package model_test

import (
	"testing"

	"github.com/tallygate/tallygate/db/model"
)

func TestSignupPolicyNames(t *testing.T) {
	for _, name := range []string{"open", "closed", "first-only"} {
		var p model.SignupPolicy
		if err := p.UnmarshalText([]byte(name)); err != nil || p.String() != name {
			t.Errorf("%s is read as %s, error %v", name, p, err)
		}
		if text, err := p.MarshalText(); err != nil || string(text) != name {
			t.Errorf("%s is written as %s, error %v", name, text, err)
		}
	}

	p := model.SignupsOpen
	if err := p.UnmarshalText([]byte("Open")); err == nil || p != model.SignupsOpen {
		t.Errorf("a wrong name: %s, error %v", p, err)
	}

	var zero model.SignupPolicy
	if zero != model.SignupsClosed {
		t.Errorf("the zero policy is %s", zero)
	}
}
