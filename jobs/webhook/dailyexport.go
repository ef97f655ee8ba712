package webhook

import (
	"bytes"
	"context"
	"encoding/json"
	"time"

	"github.com/tallygate/tallygate/db/exports"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/outbox"
)

// exportDelay is how long after midnight UTC the day before is planned. Hits that were in flight at
// midnight are stored by then, and clocks may differ a little.
const exportDelay = 5 * time.Minute

// maxPlanErrors is how many sites whose export could not be planned are logged in one run.
const maxPlanErrors = 10

// dailyBody writes the body of a part of a daily export from the part's rows.
func (d *Deliverer) dailyBody(ctx context.Context, claim *outbox.Claim) ([]byte, error) {
	var part model.DailyPart
	if err := json.Unmarshal([]byte(claim.Body), &part); err != nil {
		return nil, err
	}

	head, err := json.Marshal(struct {
		Type    string `json:"type"`
		SiteKey string `json:"site_key"`
		Date    string `json:"date"`
		Part    int    `json:"part"`
		Parts   int    `json:"parts"`
	}{"daily_export", claim.SiteKey, part.Day.String(), part.Part, part.Parts})
	if err != nil {
		return nil, err
	}

	body := append(bytes.TrimSuffix(head, []byte("}")), `,"rows":[`...)
	rows := 0
	err = d.store.DailyPartEvents(ctx, claim.SiteID, &part, func(e *exports.Event) error {
		if rows++; rows > 1 {
			body = append(body, ',')
		}
		var err error
		body, err = exports.AppendJSON(body, e.Fields())
		return err
	})

	return append(body, "]}"...), err
}

// PlanDailyExports writes the deliveries of the days that have ended, and returns how many. A day
// is planned once and never again, so now must be certain. If a site cannot be planned, that is
// logged, and the other sites are planned all the same.
func (d *Deliverer) PlanDailyExports(ctx context.Context, now model.Instant) (int, error) {
	failures := 0
	n, err := d.store.PlanDailyExports(ctx, now.Add(-exportDelay).Day(), now, func(siteID int64, err error) {
		if failures++; failures <= maxPlanErrors {
			d.log.ErrorContext(ctx, "plan a daily export; other sites' exports continue, this one is retried in 5 minutes",
				"site", siteID, "error", err)
		}
	})

	if more := failures - maxPlanErrors; more > 0 {
		d.log.ErrorContext(ctx, "more daily exports could not be planned", "count", more)
	}

	return n, err
}
