package keys

import (
	"context"
	"slices"

	"github.com/uptrace/bun"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/model"
)

// sealedColumn is a column of encrypted secrets. K is the type of id and of owner.
type sealedColumn[K int64 | string] struct {
	table, column string
	id            string // the column that orders the rows
	owner         string // the column that secret takes
	where         string // the rows, if id is unique among these only; "": all
	secret        func(owner K) Secret
}

// The columns, in the order in which a rotation locks their rows.
var (
	sealedColumns = []sealedColumn[int64]{
		{"sites", "conversion_webhook_secret", "id", "id", "", secretOf(WebhookSecret)},
		{"sites", "old_webhook_secret", "id", "id", "", secretOf(WebhookSecret)},
		{"import_jobs", "token", "id", "site_id", "", secretOf(ImportToken)},
		{"shared_links", "sealed_token", "id", "site_id", "", secretOf(LinkToken)},
		{"alert_channels", "address", "id", "id", "", ChannelAddress},
		{"alert_channels", "secret", "id", "id", "", ChannelSecret},
		{"totp_secrets", "secret", "user_id", "user_id", "NOT confirmed", secretOf(TOTPSecret)},
		{"totp_secrets", "secret", "user_id", "user_id", "confirmed", secretOf(TOTPSecret)},
		{"account_providers", "client_secret", "account_id", "account_id", "", secretOf(ClientSecret)},
	}
	certificateFiles = sealedColumn[string]{"certificate_files", "value", "name", "name", "", CertificateFile}
)

// secretOf returns a kind of secrets by numbers without a type.
func secretOf[ID ~int64](of func(ID) Secret) func(int64) Secret {
	return func(number int64) Secret { return of(ID(number)) }
}

// resealAll encrypts all stored secrets with the new key. A secret that neither key decrypts stays:
// what needs it fails until it is set again.
func (r keyRing) resealAll(ctx context.Context, tx *db.Tx, result *Rotation) error {
	result.Unreadable, result.UnreadableUsers = nil, nil
	for i := range sealedColumns {
		column := &sealedColumns[i]
		n, unreadable, err := resealColumn(ctx, tx, r, column)
		if err != nil {
			return err
		}

		switch column.table {
		case "sites":
			result.Resealed += n
			for _, id := range unreadable {
				result.Unreadable = append(result.Unreadable, model.SiteID(id))
			}
		case "totp_secrets":
			result.ResealedTOTP += n
			for _, id := range unreadable {
				result.UnreadableUsers = append(result.UnreadableUsers, model.UserID(id))
			}
		}
	}

	// Both secrets of a site can be unreadable.
	slices.Sort(result.Unreadable)
	result.Unreadable = slices.Compact(result.Unreadable)

	_, _, err := resealColumn(ctx, tx, r, &certificateFiles)
	return err
}

// resealPage is how many rows are read at a time.
const resealPage = 500

// resealColumn encrypts with the new key the secrets of a column that it has not encrypted yet, in
// the order of ids. It returns their number, and the owners of secrets that neither key decrypts.
func resealColumn[K int64 | string](
	ctx context.Context, tx *db.Tx, r keyRing, c *sealedColumn[K],
) (resealed int, unreadable []K, err error) {
	id, column := bun.Ident(c.id), bun.Ident(c.column)
	var after K

	for last := false; !last; {
		var rows []struct {
			ID, Owner K
			Sealed    []byte
		}
		q := tx.NewSelect().Table(c.table).ColumnExpr("? AS id, ? AS owner, ? AS sealed", id, bun.Ident(c.owner), column).
			Where("? IS NOT NULL", column).Where("? > ?", id, after)
		if c.where != "" {
			q.Where(c.where)
		}
		if err := q.OrderExpr("?", id).Limit(resealPage).Scan(ctx, &rows); err != nil {
			return resealed, unreadable, err
		}

		for _, row := range rows {
			after = row.ID
			secret := c.secret(row.Owner)
			if _, err := secret.open(r[0], row.Sealed); err == nil {
				continue
			}
			plain, err := secret.open(r[1], row.Sealed)
			if err != nil {
				unreadable = append(unreadable, row.Owner)
				continue
			}

			// The condition skips a secret that was changed since it was read.
			_, err = tx.ExecContext(ctx, "UPDATE ? SET ? = ? WHERE ? = ? AND ? = ?", bun.Ident(c.table), column,
				secret.seal(r[0], plain), id, row.ID, column, row.Sealed)
			if err != nil {
				return resealed, unreadable, err
			}
			resealed++
		}

		last = len(rows) < resealPage
	}
	return resealed, unreadable, nil
}
