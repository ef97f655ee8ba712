package limits

import (
	"context"

	"github.com/99designs/gqlgen/graphql"

	"github.com/tallygate/tallygate/db/ingest"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/reports/period"
	"github.com/tallygate/tallygate/graph/generated"
)

// Bounds of arguments that multiply a field's cost.
const (
	MaxPage     = 100 // items on a page of a connection
	DefaultPage = 20  // items on a page whose size is not given
	MaxDays     = 90  // days of rejections, usage and activity

	MaxMonths        = 25 // of the usage of sites and accounts
	MaxSitekeyMonths = 13 // of the usage of sitekeys

	MaxReportRows = 1_000 // rows of Report.breakdown
	MaxProperties = 100   // of Report.propertyNames
	rowsPerItem   = 10    // rows and points of reports that cost as much as an item of another list

	maxRefusals = 20 // reasons for which calls of a sitekey are refused on a day, rounded up
)

// The cost of fields, beyond the 1 of each. ErrorCode.TOO_COMPLEX in errors.graphqls documents the
// same numbers.
const (
	maxComplexity      = 5_000
	mutationComplexity = 100   // of each mutation, in addition to the fields selected in its payload
	passwordComplexity = 3_000 // allows one password check or mail in a request
	erasureComplexity  = 1_000 // for reading all visits of a site
	searchComplexity   = 1_000 // of a search among all accounts
	bodyCost           = 10    // of the body of a delivery
	countCost          = 5     // of the number of a site's deliveries, for each row of the page
	introspectionCost  = 1_000 // of a request that reads the schema, in addition to its complexity
)

// Complexity returns the cost of the fields that cost more than 1: a connection costs its content
// for each possible edge, and a password check so much that one request holds only one.
func Complexity() generated.ComplexityRoot {
	page := func(child int, first, last *int) int {
		n := DefaultPage
		for _, size := range []*int{first, last} {
			if size != nil {
				n = min(max(*size, 1), MaxPage)
			}
		}
		return 1 + child*n
	}
	list := func(most int) func(int) int { return func(child int) int { return 1 + child*most } }

	days := func(child, days int) int { return 1 + child*min(max(days, 1), MaxDays) }
	months := func(most int) func(int, int) int {
		return func(child, months int) int { return 1 + child*min(max(months, 1), most) }
	}

	var c generated.ComplexityRoot
	c.Query.Sites = func(
		child int, _ *string, first *int, _ *string, last *int, _ *string, _ generated.SiteOrder, _ *string,
	) int {
		return page(child, first, last)
	}
	c.Account.Sites = func(
		child int, first *int, _ *string, last *int, _ *string, _ generated.SiteOrder, _ *string,
	) int {
		return page(child, first, last)
	}
	c.Query.Sitekeys = func(
		child int, _ *string, first *int, _ *string, last *int, _ *string, _ generated.SitekeyOrder, _ *string,
	) int {
		return page(child, first, last)
	}
	c.Site.Deliveries = func(
		child int, first *int, _ *string, last *int, _ *string, _ generated.DeliveryOrder, _ *generated.DeliveryFilter,
	) int {
		return page(child, first, last)
	}
	c.Site.Annotations = func(
		child int, first *int, _ *string, last *int, _ *string, _ generated.AnnotationOrder,
	) int {
		return page(child, first, last)
	}

	// Bodies have kilobytes, and a count reads up to 10,000 rows of an index.
	c.Delivery.Body = func(child int) int { return bodyCost + child }
	c.Delivery.Part, c.Delivery.Parts = c.Delivery.Body, c.Delivery.Body
	c.DeliveryConnection.TotalCount = func(child int) int { return countCost + child }

	c.Query.Accounts = func(child int, first *int, _ *string, last *int, _ *string, _ generated.AccountOrder, search *string) int {
		cost := page(child, first, last)
		if search != nil {
			cost += searchComplexity
		}
		return cost
	}
	c.AccountOverview.Sites = func(child, first int) int { return page(child, &first, nil) }

	c.User.Accounts = list(model.MaxMemberships)
	c.Account.AuditLog = func(child, first int, _ *string, _ *generated.AuditFilter) int { return page(child, &first, nil) }

	c.Account.Members = list(model.MaxMembers)
	c.Account.Invitations = list(model.MaxMembers)
	c.Account.DeletedSites = list(MaxPage)
	c.Query.APITokens = list(model.MaxAPITokens)
	c.Account.APITokens = list(model.MaxMembers)
	c.ChangePasswordPayload.APITokens = list(model.MaxAPITokens)
	c.ResetPasswordPayload.APITokens = list(model.MaxAPITokens)
	c.Query.Sessions = list(model.MaxSessions)
	c.SecondFactors.Passkeys = list(model.MaxPasskeys)
	c.Site.Segments = list(model.MaxSegments)
	c.Site.Funnels = list(model.MaxFunnels)
	c.Site.SharedLinks = list(model.MaxSharedLinks)
	c.Segment.Filters = list(model.MaxReportFilters)
	c.Funnel.Steps = list(model.MaxFunnelSteps)
	c.Delivery.Attempts = list(model.ShownAttempts)
	c.Site.Rejections = days

	c.Site.UnknownEvents = list(ingest.ShownUnknownEvents)
	c.Site.UsageByDay = days
	c.Sitekey.Activity = days
	c.SitekeyActivity.Refusals = list(maxRefusals)
	c.Site.UsageHistory = months(MaxMonths)
	c.Account.CaptchaUsageHistory = months(MaxMonths)
	c.Sitekey.UsageHistory = months(MaxSitekeyMonths)

	c.Report.Series = func(child int, _ *period.Interval) int { return 1 + child*period.MaxPoints/rowsPerItem }
	c.Report.Breakdown = func(
		child int, _ model.ReportDimension, _, _ *string, _ generated.ReportOrder, _ *string, first int, _ *string,
	) int {
		return 1 + child*(min(max(first, 1), MaxReportRows)+rowsPerItem-1)/rowsPerItem
	}
	c.Report.PropertyNames = func(child int, _ *string) int { return 1 + child*MaxProperties/rowsPerItem }
	c.FunnelReport.Steps = list(model.MaxFunnelSteps)

	c.Mutation.SignUp = costly[generated.SignUpInput]
	c.Mutation.ConfirmSignUp = costly[generated.ConfirmSignUpInput]
	c.Mutation.SignIn = costly[generated.SignInInput]
	c.Mutation.ChangePassword = costly[generated.ChangePasswordInput]
	c.Mutation.RequestPasswordReset = costly[generated.RequestPasswordResetInput]
	c.Mutation.ResetPassword = costly[generated.ResetPasswordInput]
	c.Mutation.RequestEmailChange = costly[generated.RequestEmailChangeInput]
	c.Mutation.ConfirmEmailChange = costly[generated.ConfirmEmailChangeInput]
	c.Mutation.InviteMember = costly[generated.InviteMemberInput]
	c.Mutation.AcceptInvitation = costly[generated.AcceptInvitationInput]
	c.Mutation.DeleteAccount = costly[generated.DeleteAccountInput]
	c.Mutation.CreateSharedLink = costly[generated.CreateSharedLinkInput]
	c.Mutation.StartTotp = costly[generated.StartTotpInput]
	c.Mutation.DisableTotp = costly[generated.DisableTotpInput]
	c.Mutation.RenewRecoveryCodes = costly[generated.RenewRecoveryCodesInput]
	c.Mutation.StartPasskeyRegistration = costly[generated.StartPasskeyRegistrationInput]
	c.Mutation.DeletePasskey = costly[generated.DeletePasskeyInput]
	c.Mutation.SetAccountSecurity = costly[generated.SetAccountSecurityInput]
	c.Mutation.OpenSharedLink = costly[generated.OpenSharedLinkInput]
	c.Mutation.DeleteUserData = func(child int, _ generated.DeleteUserDataInput) int { return erasureComplexity + child }

	return c
}

func costly[Input any](child int, _ Input) int { return passwordComplexity + child }

// WithMutationCost adds the default cost of mutations to a schema: mutationComplexity, and 1 for
// each item of the lists in the input, which are rows to be written. Mutations listed in Complexity
// keep their own cost.
func WithMutationCost(schema graphql.ExecutableSchema) graphql.ExecutableSchema {
	return costed{schema}
}

type costed struct{ graphql.ExecutableSchema }

// Complexity implements graphql.ExecutableSchema.
func (c costed) Complexity(ctx context.Context, typeName, field string, child int, args map[string]any) (int, bool) {
	cost, ok := c.ExecutableSchema.Complexity(ctx, typeName, field, child, args)
	if ok || typeName != "Mutation" || field == "__typename" {
		return cost, ok
	}
	return saturate(mutationComplexity + child + items(args)), true
}

// items counts the items of all lists in a value, at any depth.
func items(value any) (n int) {
	switch value := value.(type) {
	case map[string]any:
		for _, member := range value {
			n += items(member)
		}
	case []any:
		n = len(value)
		for _, item := range value {
			n += items(item)
		}
	}

	return n
}

// saturate prevents sums of nested fragments from overflowing.
func saturate(n int) int { return min(n, 1<<30) }
