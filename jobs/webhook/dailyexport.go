package webhook

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/tallygate/tallygate/db/exports"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/outbox"
)

// exportDelay is how long after midnight UTC the day before is planned. Hits that were in flight at
// midnight are stored by then, and clocks may differ a little.
const exportDelay = 5 * time.Minute

// maxPlanErrors is how many sites with a failed export plan are logged in one run.
const maxPlanErrors = 10

// errLargeBody means that a body has more than ordinaryBody bytes.
var errLargeBody = errors.New("the body of a daily export is large")

// dailyBody writes the body of a part of a daily export from the part's rows. A large body is
// written in its own turn, into memory of its size.
func (d *Deliverer) dailyBody(ctx context.Context, leased *outbox.Leased, export *exportBody) ([]byte, error) {
	w := &dailyWriter{most: ordinaryBody}
	err := d.writeDaily(ctx, leased, w)
	if !errors.Is(err, errLargeBody) {
		return w.body, err
	}

	w.body = nil
	if err := export.alone(ctx); err != nil {
		return nil, err
	}

	// Measure first, so that the body is allocated once.
	size := &dailyWriter{measures: true}
	if err := d.writeDaily(ctx, leased, size); err != nil {
		return nil, err
	}
	w = &dailyWriter{body: make([]byte, 0, size.size)}
	err = d.writeDaily(ctx, leased, w)
	return w.body, err
}

// dailyWriter takes the pieces of a body.
type dailyWriter struct {
	body     []byte
	most     int  // bytes, after which errLargeBody ends the body; 0: any number
	measures bool // the body is not kept

	size int
}

// take takes the body with another piece, which was appended to it.
func (w *dailyWriter) take(body []byte) error {
	w.size += len(body) - len(w.body)
	w.body = body
	if w.measures {
		w.body = body[:0]
	}
	if w.most > 0 && w.size > w.most {
		return errLargeBody
	}
	return nil
}

// text adds a text.
func (w *dailyWriter) text(text string) error { return w.take(append(w.body, text...)) }

// writeDaily writes the pieces of a body.
func (d *Deliverer) writeDaily(ctx context.Context, leased *outbox.Leased, to *dailyWriter) error {
	var part model.DailyPart
	if err := json.Unmarshal([]byte(leased.Body), &part); err != nil {
		return err
	}

	head, err := json.Marshal(struct {
		Type    string `json:"type"`
		SiteKey string `json:"site_key"`
		Date    string `json:"date"`
		Part    int    `json:"part"`
		Parts   int    `json:"parts"`
	}{model.DeliveryDailyExport, leased.SiteKey, part.Day.String(), part.Part, part.Parts})
	if err != nil {
		return err
	}

	// Leave the object open: the rows follow one by one, without a slice of all rows.
	if err := to.text(string(bytes.TrimSuffix(head, []byte("}"))) + `,"rows":[`); err != nil {
		return err
	}

	rows := 0
	err = d.store.DailyPartEvents(ctx, leased.SiteID, &part, func(e *exports.Event) error {
		body := to.body
		if rows++; rows > 1 {
			body = append(body, ',')
		}
		body, err := exports.AppendJSON(body, e.Fields())
		if err != nil {
			return err
		}
		return to.take(body)
	})
	if err != nil {
		return err
	}
	return to.text("]}")
}

// PlanDailyExports writes the deliveries of the days that have ended, and returns how many. A day
// is planned once and never again, so now must be certain. If a site cannot be planned, that is
// logged, and the other sites are planned all the same.
func (d *Deliverer) PlanDailyExports(ctx context.Context, now model.Instant) (int, error) {
	failures := 0
	n, err := d.store.PlanDailyExports(ctx, now.Add(-exportDelay).Day(), now, func(siteID model.SiteID, err error) {
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
