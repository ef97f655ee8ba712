package analytics

import (
	"io"
	"net/http"
	"time"

	"github.com/tallygate/tallygate/dataplane/analytics/foreign"
	"github.com/tallygate/tallygate/dataplane/analytics/payload"
	"github.com/tallygate/tallygate/dataplane/jsonbody"
	"github.com/tallygate/tallygate/web"
)

// umamiHeader is a header of Umami's code, which makes its browsers send a preflight.
const umamiHeader = "X-Umami-Cache"

// result is the result of one message: it is stored, or ignored for a reason, or refused.
type result struct {
	ignored string
	err     error
}

// Plausible answers POST /api/event: messages of Plausible's own code, and of collect.
func (s *Service) Plausible(w http.ResponseWriter, r *http.Request) error {
	return s.foreign(w, r, foreign.Plausible, func([]result) {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		w.WriteHeader(http.StatusAccepted)
		_, _ = io.WriteString(w, "ok")
	})
}

// Umami answers POST /api/send: messages of Umami's own code, and of collect.
func (s *Service) Umami(w http.ResponseWriter, r *http.Request) error {
	return s.foreign(w, r, foreign.Umami, func(results []result) {
		answer := map[string]string{}
		if results[0].ignored != "" {
			answer["beep"] = "boop"
		}
		web.WriteJSON(w, answer)
	})
}

// batchAnswer is Umami's answer to a batch.
type batchAnswer struct {
	Size      int           `json:"size"`
	Processed int           `json:"processed"` // stored or ignored
	Errors    int           `json:"errors"`
	Details   []batchDetail `json:"details"`
}

// batchDetail is a refused message of a batch.
type batchDetail struct {
	Index    int               `json:"index"`
	Response map[string]string `json:"response"`
}

// UmamiBatch answers POST /api/batch: lists of messages of Umami's own code, and messages of
// collect. Messages are stored in their order, each in its own transaction. A refused message does
// not refuse the others.
func (s *Service) UmamiBatch(w http.ResponseWriter, r *http.Request) error {
	return s.foreign(w, r, foreign.UmamiBatch, func(results []result) {
		answer := batchAnswer{Size: len(results), Details: []batchDetail{}}
		for i, result := range results {
			if result.err != nil {
				answer.Details = append(answer.Details, batchDetail{i, map[string]string{"error": codeOf(result.err)}})
			}
		}

		answer.Errors = len(answer.Details)
		answer.Processed = answer.Size - answer.Errors
		web.WriteJSON(w, answer)
	})
}

// foreign answers a call of another product's collection path. A message of collect has the answers
// of Collect. Another body is translated by decode; accepted is then called unless all of its
// messages are refused, which is answered with the first one's error.
func (s *Service) foreign(
	w http.ResponseWriter, r *http.Request, decode foreign.Decoder, accepted func([]result),
) error {
	if r.Method == http.MethodOptions {
		return preflight(w, r, umamiHeader)
	}

	web.AllowOrigin(w, r)
	if r.Method != http.MethodPost {
		s.metrics.collect.count("", errMethod)
		return errMethod
	}

	items, size, isOwn := readForeign(r, decode)
	results := make([]result, len(items))
	isAccepted := false

	// One deadline bounds the messages of a batch together.
	deadline := time.Now().Add(s.timeout)
	for i, item := range items {
		ignored, err := s.receive(r, item.Payload, size, item.Err, deadline)
		s.metrics.collect.count(ignored, err)
		results[i] = result{ignored, err}
		isAccepted = isAccepted || err == nil
	}

	switch {
	case !isAccepted:
		return results[0].err
	case isOwn:
		w.WriteHeader(http.StatusNoContent)
	default:
		accepted(results)
	}
	return nil
}

// readForeign reads the body of a call, and returns its messages and its size in bytes. It reports
// whether the body is a message of collect: whether it has a t.
func readForeign(r *http.Request, decode foreign.Decoder) (items []foreign.Item, size int, isOwn bool) {
	b, tooLarge := jsonbody.ReadStart(r)
	defer jsonbody.Free(b)

	p, err := payload.Parse(b.Bytes())
	isOwn = p.Kind != ""
	if isOwn {
		items = []foreign.Item{{Payload: p, Err: err}}
	} else {
		items = decode(b.Bytes())
	}

	// The first message still names the site, for its counters.
	if tooLarge != nil || b.Len() == 0 {
		items = items[:1]
		items[0].Err = errBadBody
	}
	return items, b.Len(), isOwn
}
