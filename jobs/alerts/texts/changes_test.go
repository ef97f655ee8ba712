package texts

import (
	"testing"

	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/tools/testkit"
)

// TestLineOfChange checks the line of a change in both languages.
func TestLineOfChange(t *testing.T) {
	cause := func(difference int64, names ...model.ChangeName) model.ChangeCause {
		return model.ChangeCause{Names: names, Difference: difference}
	}
	search := model.ChangeName{By: model.DimensionChannel, Value: "paid search"}
	campaign := model.ChangeName{By: model.DimensionUTMCampaign, Value: "spring\n sale"}

	for _, test := range []struct {
		name            string
		change          *model.Change
		english, german string
	}{
		{name: "not known"},
		{name: "of another version", change: &model.Change{Metric: "SCROLLS", Before: 1, After: 2}},
		{
			name: "causes and a gap",
			change: &model.Change{
				Metric: "VISITS", Before: 6_000, After: 4_900, Causes: []model.ChangeCause{cause(-1_200, search), cause(-97, campaign)},
				Gap: &model.ChangeGap{From: "2026-11-18 02:00", To: "2026-11-18 05:00"},
			},
			english: "Visits −18%: paid search −1,200, including “spring sale” −97; no hits on 18 November from 02:00 to 05:00",
			german:  "Besuche −18\u00a0%: bezahlte Suche −1.200, davon „spring sale“ −97; keine Aufrufe am 18. November von 02:00 bis 05:00 Uhr",
		},
		{
			name: "several names, from nothing",
			change: &model.Change{Metric: "PAGEVIEWS", After: 60, Causes: []model.ChangeCause{cause(60,
				model.ChangeName{By: model.DimensionSourceName}, model.ChangeName{By: model.DimensionCountry, Value: "DE"},
				model.ChangeName{By: model.DimensionPage, Value: "/"}, campaign)}},
			english: "Page views +60: no source / country Germany / / +60",
			german:  "Seitenaufrufe +60: ohne Quelle / Land Deutschland / / +60",
		},
		{
			name: "codes with a name and without",
			change: &model.Change{Metric: "VISITS", Before: 10, After: 5, Causes: []model.ChangeCause{
				cause(-5, model.ChangeName{By: model.DimensionLanguage, Value: "pt"}, model.ChangeName{By: model.DimensionLanguage, Value: "qq"}),
				cause(-3, model.ChangeName{By: model.DimensionCountry, Value: "CH"}, model.ChangeName{By: model.DimensionCountry, Value: "0"}),
			}},
			english: "Visits −50%: language Portuguese / language qq −5, including country Switzerland / country 0 −3",
			german:  "Besuche −50\u00a0%: Sprache Portugiesisch / Sprache qq −5, davon Land Schweiz / Land 0 −3",
		},
		{
			name: "a gap until midnight, less than a percent",
			change: &model.Change{
				Metric: "VISITS", Before: 10_000, After: 9_950, Gap: &model.ChangeGap{From: "2026-11-18 22:00", To: "2026-11-19 00:00"},
			},
			english: "Visits −50: no hits on 18 November from 22:00 to 24:00",
			german:  "Besuche −50: keine Aufrufe am 18. November von 22:00 bis 24:00 Uhr",
		},
		{
			name: "a gap of two days",
			change: &model.Change{
				Metric: "VISITS", Before: 100, After: 50, Gap: &model.ChangeGap{From: "2026-11-18 22:00", To: "2026-11-19 05:00"},
			},
			english: "Visits −50%: no hits from 18 November, 22:00, to 19 November, 05:00",
			german:  "Besuche −50\u00a0%: keine Aufrufe vom 18. November, 22:00 Uhr, bis 19. November, 05:00 Uhr",
		},
	} {
		data := &model.AlertData{Figures: model.AlertFigures{Change: test.change}}
		for language, want := range map[model.Language]string{model.English: test.english, model.German: test.german} {
			testkit.Equal(t, Of(language, model.MessageWeekly, model.AlertOnce, data, "").Change, want, "%s in %s", test.name, language)
		}
	}
}
