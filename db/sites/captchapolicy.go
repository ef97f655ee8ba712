package sites

import (
	"context"
	"net/netip"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/outbox"
)

// PolicyUpdate holds what to change of a sitekey's policy. A nil field is left unchanged; 0 is the
// installation's setting.
type PolicyUpdate struct {
	BaseMS, MaxMS *int // on a mid-range phone
	Free          *int
	Automation    *model.CaptchaAutomation
	Strict        *bool
	AttackMode    *model.CaptchaAttackMode
	Exempt        *[]netip.Prefix // the whole list; an invalid network is reported
}

// Apply returns the changed policy, unchecked.
func (u *PolicyUpdate) Apply(policy model.CaptchaPolicy) model.CaptchaPolicy {
	set(&policy.BaseMS, u.BaseMS)
	set(&policy.MaxMS, u.MaxMS)
	set(&policy.Free, u.Free)
	set(&policy.Automation, u.Automation)
	set(&policy.Strict, u.Strict)
	set(&policy.AttackMode, u.AttackMode)
	set(&policy.Exempt, u.Exempt)
	return policy
}

// set sets a value that is given.
func set[T any](to *T, value *T) {
	if value != nil {
		*to = *value
	}
}

// UpdatePolicy changes all that u holds or, when some of it is refused, nothing. It reports every
// wrong field, as joined errors, and returns the changed sitekey.
func (s *Sitekeys) UpdatePolicy(ctx context.Context, accountID model.AccountID, id model.SitekeyID, u PolicyUpdate) (*model.Sitekey, error) {
	return s.changeSitekey(ctx, accountID, id, func(tx *db.Tx, key *model.Sitekey) error {
		before := sitekeyValues(key)
		key.Policy = u.Apply(key.Policy)
		if err := key.Policy.Check(); err != nil {
			return err
		}

		if _, err := tx.NewUpdate().Model(key).WherePK().Column("policy").Exec(ctx); err != nil {
			return err
		}
		return auditSitekey(ctx, tx, key, before, sitekeyValues(key))
	})
}

// SawAttack stores an attack that a process sees on a sitekey, so that every process asks for the
// same work. When one begins, the users of the account get a mail.
func (s *Sitekeys) SawAttack(ctx context.Context, accountID model.AccountID, id model.SitekeyID, seen model.CaptchaAttack) error {
	_, err := s.changeSitekey(ctx, accountID, id, func(tx *db.Tx, key *model.Sitekey) error {
		began := key.Attack.Merge(seen)
		if _, err := tx.NewUpdate().Model(key).WherePK().Column("attack").Exec(ctx); err != nil || !began {
			return err
		}

		return outbox.MailNotice(ctx, tx, accountID, model.MailCaptchaAttack, outbox.CaptchaAttackMail{
			Sitekey: key.Name, At: seen.Seen, Networks: seen.Networks, Challenges: seen.Challenges,
			Refused: seen.Refused, Usual: seen.Usual, Factor: 1 << seen.Level, IsOff: key.Policy.AttackModeOrDefault() == model.AttackOff,
		}, seen.Seen)
	})
	return err
}
