package keys

import (
	"context"
	"encoding/binary"
	"fmt"

	"github.com/tallygate/tallygate/db"
)

// ChannelUse is which value of an alert channel is encrypted. The values of one channel cannot be
// exchanged.
type ChannelUse string

// The encrypted values of a channel.
const (
	ChannelAddress ChannelUse = "channel address"
	ChannelSecret  ChannelUse = "channel secret"
)

// OpenChannel decrypts a value of an alert channel with any of the held keys. It returns "" for no
// value.
func (s *Store) OpenChannel(use ChannelUse, channelID int64, sealed []byte) (string, error) {
	if sealed == nil {
		return "", nil
	}

	ring, err := s.keyRing()
	if err != nil {
		return "", err
	}
	for _, k := range ring {
		if value, err := open(k.secrets, sealed, channelBytes(use, channelID)); err == nil {
			return string(value), nil
		}
	}
	return "", fmt.Errorf("the %s of channel %d was not stored with this application key", use, channelID)
}

// SealChannel encrypts a value, bound to its channel, with the key that the database uses. It
// returns nil for an empty value.
func (s *Store) SealChannel(ctx context.Context, tx *db.Tx, use ChannelUse, channelID int64, value string) ([]byte, error) {
	if value == "" {
		return nil, nil
	}

	k, err := s.sealingKey(ctx, tx)
	if err != nil {
		return nil, err
	}
	return seal(k.secrets, []byte(value), channelBytes(use, channelID)), nil
}

// channelBytes is the context that a value is bound to.
func channelBytes(use ChannelUse, channelID int64) []byte {
	return binary.BigEndian.AppendUint64([]byte(use), uint64(channelID))
}

// resealChannels encrypts the addresses and secrets of alert channels with the new key, in the
// order of their ids. A value that neither key decrypts stays: messages to the channel fail until
// it gets another.
func (r keyRing) resealChannels(ctx context.Context, tx *db.Tx) error {
	type sealedChannel struct {
		ID      int64
		Address []byte
		Secret  []byte
	}

	for after, last := int64(0), false; !last; {
		var rows []sealedChannel
		err := tx.NewSelect().Table("alert_channels").Column("id", "address", "secret").Where("id > ?", after).
			Order("id").Limit(resealPage).Scan(ctx, &rows)
		if err != nil {
			return err
		}

		for _, row := range rows {
			after = row.ID
			if err := r.resealChannel(ctx, tx, ChannelAddress, "address", row.ID, row.Address); err != nil {
				return err
			}
			if err := r.resealChannel(ctx, tx, ChannelSecret, "secret", row.ID, row.Secret); err != nil {
				return err
			}
		}

		last = len(rows) < resealPage
	}
	return nil
}

// resealChannel encrypts one value with the new key, unless it already is.
func (r keyRing) resealChannel(
	ctx context.Context, tx *db.Tx, use ChannelUse, column string, id int64, sealed []byte,
) error {
	if sealed == nil {
		return nil
	}
	resealed, err := r.reseal(sealed, channelBytes(use, id))
	if err != nil || resealed == nil {
		return nil
	}

	// The condition skips a value that was changed since it was read.
	_, err = tx.ExecContext(ctx, "UPDATE alert_channels SET "+column+" = ? WHERE id = ? AND "+column+" = ?",
		resealed, id, sealed)
	return err
}
