package reports

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tallygate/tallygate/db/model"
)

// TestLiveTextsAreBounded counts the most page views that a Live reads, each with another long page
// and source. The newest pages are counted, with all of their visitors.
func TestLiveTextsAreBounded(t *testing.T) {
	now := model.At(time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC))
	c := newLiveCount(now)
	view := func(path string, visitor int) {
		c.addView(&recentRow{
			At: now.Add(-time.Duration(visitor) * time.Microsecond), Path: []byte(path), Visitor: int64(visitor),
			Attribution: []byte(model.PackAttribution("", &model.Campaign{Source: path})),
		})
	}

	view("/popular", 0)
	long := strings.Repeat("a", 2_000)
	for i := 1; i < maxLiveViews-2; i++ {
		view(fmt.Sprintf("/%d%s", i, long), i)
	}
	view("/popular", maxLiveViews-2)
	view("/popular", maxLiveViews-1)

	live := c.live(nil)
	if live.Visitors != maxLiveViews || live.Pageviews[LiveMinutes-1] != maxLiveViews || len(live.Latest) != liveLatest {
		t.Errorf("%d visitors, %d page views, %d latest", live.Visitors, live.Pageviews[LiveMinutes-1], len(live.Latest))
	}
	if len(live.Pages) != liveTop || live.Pages[0] != (LiveCount{"/popular", 3}) {
		t.Errorf("%d pages, the first is %+v", len(live.Pages), live.Pages[0])
	}

	for name, d := range map[string]*distinct{"pages": &c.pages, "sources": &c.sources} {
		bytes := 0
		for value := range d.visitors {
			bytes += len(value)
		}
		if bytes > maxLiveTexts || bytes < maxLiveTexts/2 {
			t.Errorf("%s hold %d bytes, the limit is %d", name, bytes, maxLiveTexts)
		}
	}

	if size := live.size(); size < 30*2_000 || size > 100_000 {
		t.Errorf("a Live with long texts has %d bytes", size)
	}
}
