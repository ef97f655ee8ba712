package report

import "testing"

func TestCSV(t *testing.T) {
	text := "23 November, 2 cores.\n\n| database | goal | met |\n|---|---|---|\n| sqlite | p50, \"fast\" | **no** |\n| postgres | – | yes |\n\n0 lost.\n"
	want := "# 23 November, 2 cores.\ndatabase,goal,met\nsqlite,\"p50, \"\"fast\"\"\",no\npostgres,–,yes\n# 0 lost.\n"
	if got, err := CSV(text); err != nil || got != want {
		t.Errorf("%v, %s", err, got)
	}
}
