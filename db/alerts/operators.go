package alerts

import (
	"context"
	"fmt"
	"slices"

	"github.com/tallygate/tallygate/db/model"
)

// OperatorsState counts the channels that operators have added for alerts of the installation.
type OperatorsState struct {
	Channels int // with a confirmed address
	Stopped  int
	Failing  int // not stopped, and the newest message that does not wait has failed
}

// OperatorsState returns the state of operators' channels. There are few of them.
func (s *Channels) OperatorsState(ctx context.Context) (OperatorsState, error) {
	var rows []struct {
		Events    []model.AlertEvent
		StoppedAt model.Instant
		State     string // of the newest message that does not wait
	}
	err := s.db.Read.NewRaw(`
SELECT c.events, c.stopped_at, coalesce((
  SELECT state FROM (SELECT `+withMail+` FROM alert_messages m LEFT JOIN mails ON mails.id = m.mail_id
    WHERE m.channel_id = c.id ORDER BY m.id DESC LIMIT 100) AS newest
  WHERE state <> 'pending' ORDER BY id DESC LIMIT 1), '') AS state
FROM alert_channels c
WHERE c.operator_id IN (SELECT id FROM users WHERE operator) AND c.site_id IS NULL AND c.confirmed_at > 0`).Scan(ctx, &rows)
	if err != nil {
		return OperatorsState{}, fmt.Errorf("read the state of operators' channels: %w", err)
	}

	var state OperatorsState
	for _, row := range rows {
		channel := model.AlertChannel{Events: row.Events}
		if !slices.ContainsFunc(model.AlertEvents, func(e model.AlertEvent) bool { return e.OfInstallation() && channel.Wants(e) }) {
			continue
		}

		state.Channels++
		switch {
		case row.StoppedAt != 0:
			state.Stopped++
		case row.State == model.DeliveryFailed:
			state.Failing++
		}
	}
	return state, nil
}
