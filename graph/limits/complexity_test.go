package limits

import (
	"context"
	"testing"

	"github.com/99designs/gqlgen/graphql"

	"github.com/tallygate/tallygate/db/ingest"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/reports/period"
	"github.com/tallygate/tallygate/db/reports/scan"
	"github.com/tallygate/tallygate/graph/generated"
	"github.com/tallygate/tallygate/tools/testkit"
)

// pricedSchema returns the schema with its costs.
func pricedSchema(t *testing.T) graphql.ExecutableSchema {
	t.Helper()
	schema, err := WithCosts(generated.NewExecutableSchema(generated.Config{}))
	testkit.NoError(t, err)
	return schema
}

// TestCostsFollowTheBounds: the content of a list counts as often as the list has items at most.
func TestCostsFollowTheBounds(t *testing.T) {
	const child = 10
	tens := func(n int) int { return (n + 9) / 10 }
	const journeyNodes = scan.MaxJourneyPages + 2 // END and OTHER
	schema := pricedSchema(t)
	for field, most := range map[fieldName]int{
		{"User", "accounts"}: model.MaxMemberships, {"Account", "members"}: model.MaxMembers,
		{"Account", "invitations"}: model.MaxMembers, {"Account", "deletedSites"}: MaxPage,
		{"Query", "apiTokens"}: model.MaxAPITokens, {"ChangePasswordPayload", "apiTokens"}: model.MaxAPITokens,
		{"ResetPasswordPayload", "apiTokens"}: model.MaxAPITokens, {"Query", "sessions"}: model.MaxSessions,
		{"SecondFactors", "passkeys"}: model.MaxPasskeys, {"Site", "segments"}: model.MaxSegments,
		{"Site", "funnels"}: model.MaxFunnels, {"Site", "sharedLinks"}: model.MaxSharedLinks,
		{"Segment", "filters"}: model.MaxReportFilters, {"Funnel", "steps"}: model.MaxFunnelSteps,
		{"FunnelReport", "steps"}: model.MaxFunnelSteps, {"Delivery", "attempts"}: model.ShownAttempts,
		{"Account", "alertChannels"}: model.MaxAlertChannels, {"Site", "alertChannels"}: model.MaxSiteAlertChannels,
		{"AlertMessage", "attempts"}: model.ShownAttempts,
		{"Site", "unknownEvents"}:    ingest.ShownUnknownEvents,

		// Ten rows, or a hundred points, of a report cost as much as one item of another list: the
		// work has a price of its own.
		{"Report", "series"}: period.MaxPoints / 100, {"Report", "propertyNames"}: MaxProperties / 10,
		{"Report", "breakdown"}: MaxReportRows / 10, {"Journey", "next"}: tens(journeyNodes), {"JourneyNode", "next"}: tens(journeyNodes),
		{"ReportNumbers", "series"}: period.MaxPoints / 100, {"ReportNumbers", "breakdown"}: MaxReportRows / 10,
		{"Report", "changes"}: MaxPage / 10, {"ReportChanges", "dimensions"}: 10, {"ReportChanges", "chain"}: 2, {"ReportChanges", "circumstances"}: 8,
		{"CohortReport", "weeks"}: tens(scan.MaxCohorts), {"Cohort", "returned"}: tens(scan.MaxCohortWeeks),

		{"Query", "sites"}: MaxPage, {"Account", "sites"}: MaxPage, {"Query", "sitekeys"}: MaxPage,
		{"Query", "accounts"}: MaxPage, {"AccountOverview", "sites"}: MaxPage, {"Account", "auditLog"}: MaxPage,
		{"Site", "deliveries"}: MaxPage, {"Site", "annotations"}: tens(MaxPage),
		{"Site", "rejections"}: MaxDays, {"Site", "usageByDay"}: MaxDays, {"Sitekey", "activity"}: MaxDays,
		{"Site", "usageHistory"}: MaxMonths, {"Account", "captchaUsageHistory"}: MaxMonths,
		{"Sitekey", "usageHistory"}: MaxSitekeyMonths,
	} {
		args := map[string]any{"first": int64(1 << 40), "days": int64(1 << 40), "months": int64(1 << 40)}
		cost, ok := schema.Complexity(context.Background(), field.typeName, field.field, child, args)
		if rest := cost - 1 - child*most; !ok || rest < 0 || rest >= child {
			t.Errorf("%s.%s costs %d, want 1 and %d times %d", field.typeName, field.field, cost, most, child)
		}
	}
}

// TestCostsOfFields: pages, searches, mutations and other fields.
func TestCostsOfFields(t *testing.T) {
	schema := pricedSchema(t)
	for _, test := range []struct {
		typeName, field string
		args            map[string]any
		want            int
	}{
		{"Site", "name", nil, 0},
		{"Query", "sites", nil, 1 + 20*7},
		{"Query", "sites", map[string]any{"first": int64(3)}, 1 + 3*7},
		{"Query", "sites", map[string]any{"last": int64(-1)}, 1 + 7},
		{"Query", "sites", map[string]any{"search": "a"}, 1 + 20*7},
		{"Query", "accounts", map[string]any{"search": "a"}, 1_001 + 20*7},
		{"Query", "accounts", map[string]any{"search": nil}, 1 + 20*7},
		{"Delivery", "body", nil, 10 + 7},
		{"Mutation", "signIn", map[string]any{"input": map[string]any{"list": []any{1, 2}}}, 3_000 + 7},
		{"Mutation", "updateSite", map[string]any{"input": map[string]any{"list": []any{1, 2}}}, 102 + 7},
		{"Mutation", "__typename", nil, 0},
	} {
		cost, ok := schema.Complexity(context.Background(), test.typeName, test.field, 7, test.args)
		if cost != test.want || ok != (test.want > 0) {
			t.Errorf("%s.%s(%v) costs %d, %v; want %d", test.typeName, test.field, test.args, cost, ok, test.want)
		}
	}
}

// TestItemsOfInputs: the items of all lists count, at any depth.
func TestItemsOfInputs(t *testing.T) {
	for _, test := range []struct {
		input any
		want  int
	}{
		{nil, 0}, {"text", 0}, {map[string]any{"a": []any{1, 2}, "b": map[string]any{"c": []any{[]any{1}}}}, 4},
	} {
		if got := items(test.input); got != test.want {
			t.Errorf("%v has %d items, want %d", test.input, got, test.want)
		}
	}
}
