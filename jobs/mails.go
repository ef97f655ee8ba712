package jobs

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/hibiken/asynq"

	"github.com/tallygate/tallygate/db/model"
)

const (
	mailsAtOnce  = 20               // mails that a sweep rings for
	mailTimeout  = 30 * time.Second // for one attempt
	mailLease    = 2 * time.Minute  // how long a claim keeps others away
	mailFailures = "mail not sent"
)

// ringMails rings for mails that are due.
func (j *Jobs) ringMails(now model.Instant) error {
	due, err := j.outbox.DueMails(j.ctx, now, mailsAtOnce)
	if err != nil {
		return err
	}

	for _, mail := range due {
		payload, err := json.Marshal(mail.ID)
		if err != nil {
			return err
		}

		id := fmt.Sprintf("mail:%d:%d", mail.ID, mail.Attempts+1)
		queued := j.queued(func() error {
			return enqueue(j.ctx, j.client, asynq.NewTask(mailTask, payload), defaultQueue, id, now.Sub(mail.NextAttemptAt))
		})
		if !queued {
			j.mailDirectly(mail.ID)
		}
	}

	return nil
}

// runMail handles a task: it sends one mail.
func (j *Jobs) runMail(ctx context.Context, task *asynq.Task) error {
	var id int64
	if err := json.Unmarshal(task.Payload(), &id); err == nil {
		j.deliverMail(ctx, id)
	}
	return nil
}

// deliverMail claims a mail and sends it. Errors are logged and not returned, since the sweeper
// asks again.
func (j *Jobs) deliverMail(ctx context.Context, id int64) {
	work, cancel := context.WithTimeout(ctx, mailTimeout)
	defer cancel()

	now, err := j.dbNow(work)
	var mail *model.Mail

	if err == nil {
		mail, err = j.outbox.ClaimMail(work, id, now, mailLease)
	}
	if err != nil {
		j.log.ErrorContext(ctx, mailFailures, "mail", id, "error", err)
	}
	if mail == nil {
		return
	}

	j.sendMail(work, mail)
	record, cancel := context.WithTimeout(context.WithoutCancel(ctx), recordTimeout)
	defer cancel()

	if err := j.outbox.FinishMail(record, mail); err != nil {
		j.log.ErrorContext(ctx, mailFailures, "mail", id, "error", err)
	}
}

// sendMail makes one attempt and sets what becomes of the mail. What the mail says and to whom
// stays out of the log: it may hold a link that opens an account.
func (j *Jobs) sendMail(ctx context.Context, mail *model.Mail) {
	log := j.log.With("mail", mail.ID, "kind", mail.Kind, "account", mail.AccountID)

	if j.mail == nil {
		mail.State = model.MailSkipped
		log.WarnContext(ctx, "mail not sent: no mail server is configured (TALLYGATE_SMTP_URL)")
		j.metrics.mail("skipped")

		return
	}

	err := j.mail.send(ctx, mail, j.baseURL)
	if err == nil {
		mail.State = model.MailSent
		j.metrics.mail("sent")
		return
	}

	j.metrics.mail("error")
	next := model.At(j.dbTime()).Add(model.MailRetryDelay(mail.Attempts))
	if mail.Attempts >= model.MaxMailAttempts || isRefused(err) || mail.IsVoid(next) {
		mail.State = model.MailFailed
		log.ErrorContext(ctx, "mail given up", "attempts", mail.Attempts, "error", mailFault(err))
		return
	}

	mail.NextAttemptAt = next
	log.WarnContext(ctx, mailFailures+" yet", "attempts", mail.Attempts, "error", mailFault(err))
}

// noteQuotas writes the notices of sites and captcha accounts whose quota is used to 80 % or 100 %,
// and the mails of all notices, also those that the data plane noted. Use of the last hour of a
// month is still looked at in the next one.
func (j *Jobs) noteQuotas(ctx context.Context) error {
	now, err := j.dbNow(ctx)
	if err != nil {
		return err
	}

	months := []model.Month{now.Add(-time.Hour).Month(), now.Month()}
	if months[0] == months[1] {
		months = months[:1]
	}

	for _, month := range months {
		if _, err := j.outbox.NoteSiteQuotas(ctx, month, now); err != nil {
			return err
		}
		if _, err := j.outbox.NoteCaptchaQuotas(ctx, month, now); err != nil {
			return err
		}
	}

	n, err := j.outbox.MailQuotaNotices(ctx, now)
	j.report(ctx, "quota notices mailed", int64(n))
	return err
}
