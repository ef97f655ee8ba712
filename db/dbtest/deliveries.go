package dbtest

import (
	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/model"
)

// DeliveryLog is a delivery with all its attempts, the first one first.
type DeliveryLog struct {
	*model.Delivery
	Attempts []*model.DeliveryAttempt
}

// Deliveries returns at most limit deliveries of a site, the newest first, beginning below the id before (0 for the newest).
func Deliveries(d *db.DB, siteID, before int64, limit int) ([]DeliveryLog, error) {
	var deliveries []*model.Delivery
	var attempts []*model.DeliveryAttempt
	err := db.SnapshotForTest(d, func(rows func(into any, query string, args ...any) error) error {
		err := rows(&deliveries, "SELECT * FROM deliveries WHERE site_id = ? AND (? = 0 OR id < ?) ORDER BY id DESC LIMIT ?", siteID, before, before, limit)
		if err != nil {
			return err
		}
		return rows(&attempts, "SELECT * FROM delivery_attempts WHERE site_id = ? ORDER BY n", siteID)
	})
	if err != nil {
		return nil, err
	}

	of := make(map[int64][]*model.DeliveryAttempt)
	for _, attempt := range attempts {
		of[attempt.DeliveryID] = append(of[attempt.DeliveryID], attempt)
	}
	logs := make([]DeliveryLog, len(deliveries))
	for i, delivery := range deliveries {
		logs[i] = DeliveryLog{delivery, of[delivery.ID]}
	}
	return logs, nil
}
