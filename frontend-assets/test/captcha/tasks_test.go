package captcha_test

import (
	"context"
	"encoding/json"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/tracing"
	"github.com/chromedp/chromedp"

	"github.com/tallygate/tallygate/tools/browsertest"
)

// longTask is the time from which a task delays the visitor noticeably (W3C Long Tasks).
const longTask = 50 * time.Millisecond

// TestChromiumCaptchaHasNoLongTasks measures the tasks of the page's main thread while the widget
// works, at a sixth of the computer's speed. It compares processor time, which other programs do
// not change.
func TestChromiumCaptchaHasNoLongTasks(t *testing.T) {
	s := newCaptchaSiteOf(t, 1<<19, map[string]string{"/": captchaForm("")})
	page := s.browser.NewPage()

	for _, test := range []struct{ name, before string }{
		{"in workers", ""},
		{"in the page", "delete window.Worker"},
		{"in the page, without WebAssembly", "delete window.Worker; delete window.WebAssembly"},
	} {
		t.Run(test.name, func(t *testing.T) {
			defer page.Before(test.before + `
				window.long = []
				new PerformanceObserver((list) => long.push(...list.getEntries().map((each) => each.duration))).observe({type: 'longtask'})`)()

			// A long task of the browser itself is rare, and a long task of the widget occurs in
			// each round.
			for range 3 {
				page.Goto("http://www.shop.test/")
				s.is(page, "idle")
				page.Do(emulation.SetCPUThrottlingRate(6))

				var long []float64
				tasks := traced(page, func() {
					page.Eval(`(performance.mark('begin'), long = [], document.querySelector('[name=email]').focus())`, nil)
					s.is(page, "done")
					page.Eval(`(performance.mark('end'), long)`, &long)
				})
				page.Do(emulation.SetCPUThrottlingRate(1))

				var busy, longest time.Duration
				for _, each := range tasks {
					busy += each
					longest = max(longest, each)
				}

				t.Logf("%d tasks, %v of processor time, at most %v; long tasks by the clock, which includes other programs: %v ms",
					len(tasks), busy, longest, long)
				if len(tasks) < 10 {
					t.Fatal("the trace lacks tasks")
				}
				if longest <= longTask {
					return
				}
			}

			t.Errorf("each time a task took more than %v of processor time", longTask)
		})
	}
}

// traced runs a function and returns the processor time of each task that the page's main thread
// began between the page's marks "begin" and "end".
func traced(page *browsertest.Page, run func()) (tasks []time.Duration) {
	type event struct {
		Name     string
		Pid, Tid int
		Ts, Tdur int64 // microseconds
	}
	var mu sync.Mutex
	var events []event
	done := make(chan struct{})

	page.Do(chromedp.ActionFunc(func(ctx context.Context) error {
		chromedp.ListenTarget(ctx, func(message any) {
			switch m := message.(type) {
			case *tracing.EventDataCollected:
				mu.Lock()
				defer mu.Unlock()
				for _, raw := range m.Value {
					var e event
					if json.Unmarshal(raw, &e) == nil {
						events = append(events, e)
					}
				}
			case *tracing.EventTracingComplete:
				close(done)
			}
		})

		config := &tracing.TraceConfig{IncludedCategories: []string{"disabled-by-default-devtools.timeline", "blink.user_timing"}}
		if err := tracing.Start().WithTraceConfig(config).WithTransferMode(tracing.TransferModeReportEvents).Do(ctx); err != nil {
			return err
		}

		run()

		if err := tracing.End().Do(ctx); err != nil {
			return err
		}
		select {
		case <-done:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}))

	var begin, end event
	for _, e := range events {
		switch e.Name {
		case "begin":
			begin = e
		case "end":
			end = e
		}
	}

	for _, e := range events {
		if e.Name == "RunTask" && e.Pid == begin.Pid && e.Tid == begin.Tid && e.Ts > begin.Ts && e.Ts < end.Ts {
			tasks = append(tasks, time.Duration(e.Tdur)*time.Microsecond)
		}
	}
	return tasks
}
