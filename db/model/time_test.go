package model_test

import (
	"testing"
	"time"

	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/tools/testkit"
)

func TestDayAndMonth(t *testing.T) {
	for _, test := range []struct {
		at         time.Time
		day, month string
	}{
		{time.Date(2026, 11, 30, 23, 59, 59, 999_999_999, time.UTC), "2026-11-30", "2026-11"},
		{time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC), "2026-12-01", "2026-12"},
		{time.Date(2028, 2, 29, 12, 0, 0, 0, time.UTC), "2028-02-29", "2028-02"},
		{time.Date(2027, 1, 1, 0, 30, 0, 0, time.FixedZone("", 3600)), "2026-12-31", "2026-12"}, // UTC decides
		{time.Date(1969, 12, 31, 23, 59, 59, 0, time.UTC), "1969-12-31", "1969-12"},
	} {
		at := model.At(test.at)
		if at.Day().String() != test.day || at.Month().String() != test.month {
			t.Errorf("%v: day %v, month %v; want %s, %s", test.at, at.Day(), at.Month(), test.day, test.month)
		}
		if d, err := model.ParseDay(test.day); err != nil || d != at.Day() {
			t.Errorf("ParseDay(%s) = %v, %v", test.day, d, err)
		}
		if start := at.Day().Start(); start > at || at.Sub(start) >= 24*time.Hour {
			t.Errorf("%v does not lie in its day, which starts %v", test.at, start.Time())
		}
	}

	testkit.Equal(t, model.Month(202612).Next(), 202701, "the month after 202612")
}

func TestTimeIDGrowsWithTime(t *testing.T) {
	at := model.At(time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC))
	for i := range 1_000 {
		if a, b := model.NewTimeID(at.Add(time.Duration(i)*time.Microsecond)), model.NewTimeID(at.Add(time.Duration(i+
			1)*time.Microsecond)); a >= b || a < 0 {
			t.Fatalf("id %d at one time, %d a microsecond later", a, b)
		}
	}

	if id := model.NewTimeID(model.At(time.Date(2090, 12, 31, 0, 0, 0, 0, time.UTC))); id < 0 {
		t.Errorf("id %d in 2090", id)
	}
}

func TestClean(t *testing.T) {
	for _, test := range []struct {
		in    string
		limit int
		want  string
	}{
		{"plain", 10, "plain"},
		{"tab\tnul\x00del\x7f", 20, "tabnuldel"},
		{"bad\xffbyte", 20, "bad\ufffdbyte"},
		{"äöü", 2, "äö"},
		{"äöü", 3, "äöü"},
		{"😀😀", 1, "😀"},
		{"", 0, ""},
	} {
		testkit.Equal(t, model.Clean(test.in, test.limit), test.want, "Clean(%q, %d)", test.in, test.limit)
	}
}
