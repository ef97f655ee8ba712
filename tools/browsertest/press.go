package browsertest

import (
	"context"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// Press presses and releases keys as a keyboard does: the browser makes the event of a character
// from the press itself. With chromedp.KeyEvent it is a message of its own, and on a busy machine
// the page may move the focus before it: a link reacts to the press of Enter, and the button that
// then had the focus to the character.
func Press(keys string, options ...chromedp.KeyOption) chromedp.Action {
	return chromedp.ActionFunc(func(ctx context.Context) error {
		for _, key := range keys {
			events := kb.Encode(key)
			if len(events) == 3 {
				events[0].Text, events[0].UnmodifiedText = events[1].Text, events[1].UnmodifiedText
				events = append(events[:1], events[2])
			}

			for _, event := range events {
				for _, option := range options {
					event = option(event)
				}
				if err := event.Do(ctx); err != nil {
					return err
				}
			}
		}
		return nil
	})
}
