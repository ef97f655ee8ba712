package jobs

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"math/rand/v2"
	"time"

	"github.com/hibiken/asynq"

	"github.com/tallygate/tallygate/db/exports"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/outbox"
)

// timing is how long things take that tests want to be quick.
type timing struct {
	sweepEvery time.Duration // between two looks at the database for what is due
	lease      time.Duration // how long a claim keeps others away, on the database's clock

	// attempt is for claiming and calling. It runs by the clock of the machine's uptime and ends
	// well before the lease: a process that was paused meanwhile makes no call that another one has
	// begun again. The claim and the body have half of it, so that the receiver always has the
	// other half.
	attempt time.Duration
}

var usualTiming = timing{sweepEvery: 2 * time.Second, lease: 45 * time.Second, attempt: 2 * callTimeout}

const (
	recordTimeout = 20 * time.Second
	recordPause   = 500 * time.Millisecond

	laneTurn   = 30 * time.Second // after which a task gives its place to others
	sweepLanes = 500              // lanes that are looked up at once
)

// sweep looks for what is due and rings for it, or runs it in this process while there is no queue,
// again and again, until Stop. Every worker does: it is what makes an empty or absent Redis, a lost
// task or a dead worker harmless.
func (j *Jobs) sweep() {
	ticker := time.NewTicker(j.timing.sweepEvery)
	defer ticker.Stop()

	for {
		if err := j.ringDue(); err != nil && j.ctx.Err() == nil {
			j.quiet.Error("look for what is due: ", err)
		}

		select {
		case <-j.ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

func (j *Jobs) ringDue() error {
	now, err := j.dbNow(j.ctx)
	if err != nil {
		return err
	}

	for after := int64(0); ; {
		lanes, err := j.outbox.DueLanes(j.ctx, now, after, sweepLanes)
		if err != nil {
			return err
		}

		next := after

		// the last site's other lanes may be on the next page: it begins with that site again
		if len(lanes) > 0 {
			next = lanes[len(lanes)-1].SiteID - 1
		}

		// when places are few, all get some
		rand.Shuffle(len(lanes), func(a, b int) { lanes[a], lanes[b] = lanes[b], lanes[a] })

		for _, lane := range lanes {
			if err := j.ringLane(lane, now); err != nil {
				return err
			}
		}

		if len(lanes) < sweepLanes {
			return j.ringMails(now)
		}

		after = next
	}
}

// ringLane rings for as many of the lane's deliveries as this process has places for.
func (j *Jobs) ringLane(lane model.Lane, now model.Instant) error {
	free := j.lanes.free(lane)
	if free == 0 {
		return nil
	}

	due, err := j.outbox.DueDeliveries(j.ctx, lane, now, free)
	if err != nil {
		return err
	}

	for _, delivery := range due {
		queued := j.queued(func() error {
			return enqueueDelivery(j.ctx, j.client, delivery, now.Sub(delivery.NextAttemptAt))
		})
		if !queued {
			j.deliverDirectly(lane)
		}
	}

	return nil
}

// runLane handles a task: it sends what is due in the lane.
func (j *Jobs) runLane(ctx context.Context, task *asynq.Task) error {
	var lane model.Lane
	if err := json.Unmarshal(task.Payload(), &lane); err == nil && lane.SiteID != 0 {
		j.drainLane(ctx, lane)
	}
	return nil
}

// drainLane sends what is due in the lane, one after another, until nothing is, there is no place
// for it or its turn is over. A slow lane's turn is one attempt, so that slow lanes take turns.
// Errors are logged and not returned, since the sweeper asks again soon enough.
func (j *Jobs) drainLane(ctx context.Context, lane model.Lane) {
	for began := time.Now(); time.Since(began) < laneTurn && ctx.Err() == nil && j.ctx.Err() == nil; {
		more, err := j.deliver(ctx, lane)
		if err != nil {
			j.log.ErrorContext(ctx, "delivery", "site", lane.SiteID, "kind", lane.Kind, "error", err)
		}
		if !more || err != nil || j.lanes.isSlow(lane) {
			return
		}
	}
}

// deliver makes one attempt of the lane's longest due delivery. It is false when nothing is due or
// there is no place. It never waits for one: it would take one of asynq's from everybody else
// meanwhile.
func (j *Jobs) deliver(ctx context.Context, lane model.Lane) (bool, error) {
	place, ok := j.lanes.enter(lane)
	if !ok {
		return false, nil
	}
	defer j.lanes.leave(place)

	var part *exportPart

	if lane.Kind == model.DeliveryDailyExport {
		if part = j.exports.begin(); part == nil {
			return false, nil
		}
		defer part.end()
	}

	// Not asynq's context: it ends when Redis is away, and a receiver would be blamed for the call
	// that broke off.
	var work, prompt context.Context
	var cancel, cancelPrompt context.CancelFunc
	var claim *outbox.Claim
	var err error
	j.lanes.claim(lane, func(except []int64) int64 {
		work, cancel = context.WithTimeout(context.WithoutCancel(ctx), j.timing.attempt)
		prompt, cancelPrompt = context.WithTimeout(work, j.timing.attempt/2)

		var now model.Instant
		if now, err = j.dbNow(prompt); err == nil {
			claim, err = j.outbox.ClaimDelivery(prompt, lane, except, now, j.timing.lease)
		}
		if claim == nil {
			return 0
		}

		return claim.ID
	})
	defer cancel()
	defer cancelPrompt()

	if err != nil || claim == nil {
		return false, err
	}

	result, err := j.attempt(work, prompt, claim, part)
	defer j.lanes.release(lane, claim.ID, result)

	if err != nil {
		j.log.ErrorContext(ctx, "make a delivery's body", "site", claim.SiteID, "delivery", claim.ID, "error", err)
	}

	j.metrics.attempt(claim.Kind, cmp.Or(result.Reason, result.Error))
	return true, j.record(ctx, claim, result)
}

// attempt makes the call, if there is somebody to call. A part of a daily export is written
// before prompt ends. An error is our own fault,
// and also in the result.
func (j *Jobs) attempt(ctx, prompt context.Context, claim *outbox.Claim, part *exportPart) (outbox.AttemptResult, error) {
	if claim.URL == "" {
		return outbox.AttemptResult{Error: model.AttemptNoWebhook}, nil
	}
	if claim.Fault != nil {
		return outbox.AttemptResult{Error: model.AttemptInternal}, claim.Fault
	}

	body := []byte(claim.Body)

	if claim.Kind == model.DeliveryDailyExport {
		var err error
		if body, err = j.dailyBody(prompt, claim); err != nil {
			return outbox.AttemptResult{Error: model.AttemptInternal}, err
		}

		part.written(len(body))
	}

	return j.send(ctx, claim, body), nil
}

// record stores how an attempt ended. It does not give up at once: what is not recorded will be
// sent again.
func (j *Jobs) record(ctx context.Context, claim *outbox.Claim, result outbox.AttemptResult) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), recordTimeout)
	defer cancel()

	for {
		now, err := j.dbNow(ctx)
		if err == nil {
			err = j.outbox.FinishAttempt(ctx, claim, result, now)
		}
		if err == nil {
			return nil
		}

		select {
		case <-ctx.Done():
			return err
		case <-time.After(recordPause):
		}
	}
}

// dailyBody writes the body of a part of a daily export from its rows.
func (j *Jobs) dailyBody(ctx context.Context, claim *outbox.Claim) ([]byte, error) {
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
	err = j.outbox.DailyPartEvents(ctx, claim.SiteID, &part, func(e *exports.Event) error {
		if rows++; rows > 1 {
			body = append(body, ',')
		}
		var err error
		body, err = exports.AppendJSON(body, e.Fields())
		return err
	})

	return append(body, "]}"...), err
}

// planDailyExports writes the deliveries of days that are over. It lets some minutes pass, for hits
// that were still in flight at midnight and for clocks that differ. A day is planned once for good,
// so the time must be certain. A site that cannot be planned does not stop the others: it is
// logged, and tried again in the next period.
func (j *Jobs) planDailyExports(ctx context.Context, now model.Instant) error {
	failures := 0
	n, err := j.outbox.PlanDailyExports(ctx, now.Add(-exportDelay).Day(), now, func(siteID int64, err error) {
		if failures++; failures <= maxPlanLines {
			j.log.ErrorContext(ctx, "plan a daily export; other sites' exports go on, this one is tried again in 5 minutes",
				"site", siteID, "error", err)
		}
	})

	if more := failures - maxPlanLines; more > 0 {
		j.log.ErrorContext(ctx, "more daily exports could not be planned", "count", more)
	}

	j.report(ctx, "parts of daily exports planned", int64(n))
	return err
}

// maxPlanLines is how many sites one run logs whose export could not be planned.
const maxPlanLines = 10

// exportDelay is how long after midnight UTC the day before is planned.
const exportDelay = 5 * time.Minute
