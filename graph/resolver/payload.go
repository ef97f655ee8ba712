package resolver

import (
	"fmt"
	"reflect"
	"strings"

	"github.com/99designs/gqlgen/graphql"

	"github.com/tallygate/tallygate/graph/generated"
)

// payloads has an empty value of each type that mutations return.
//
// It is a list because reading the types from the methods of generated.MutationResolver would make
// the linker keep the exported methods of every type in the program.
var payloads = []any{
	generated.AccountProviderPayload{}, generated.DeleteAccountProviderPayload{},
	generated.FinishProviderSignInPayload{}, generated.StartProviderSignInPayload{},
	generated.AlertChannelPayload{}, generated.AlertMessagePayload{}, generated.ConfirmAlertChannelPayload{},
	generated.AcceptInvitationPayload{}, generated.AnnotationPayload{}, generated.ChangePasswordPayload{},
	generated.ConfirmEmailChangePayload{}, generated.ConfirmSignUpPayload{},
	generated.ConfirmTotpPayload{}, generated.CreateAPITokenPayload{}, generated.CreateAccountPayload{},
	generated.CreateSharedLinkPayload{}, generated.CreateSitePayload{}, generated.DeleteAccountPayload{},
	generated.DeletePasskeyPayload{}, generated.DeleteUserDataPayload{}, generated.DeliveryPayload{},
	generated.DisableTotpPayload{}, generated.FinishPasskeyRegistrationPayload{},
	generated.FunnelPayload{}, generated.HideSiteNoticesPayload{}, generated.ImportJobPayload{}, generated.InviteMemberPayload{}, generated.LeaveAccountPayload{},
	generated.OpenSharedLinkPayload{}, generated.RedeliverFailedPayload{}, generated.RemoveMemberPayload{},
	generated.RenamePasskeyPayload{}, generated.RenewRecoveryCodesPayload{},
	generated.RequestEmailChangePayload{}, generated.RequestPasswordResetPayload{},
	generated.ResendDailyExportPayload{}, generated.ResetPasswordPayload{},
	generated.RevokeAPITokenPayload{}, generated.RevokeInvitationPayload{},
	generated.RevokeSessionPayload{}, generated.RotateServerSecretPayload{}, generated.SegmentPayload{},
	generated.SetAccountSecurityPayload{}, generated.SetCaptchaPlanPayload{},
	generated.SetMemberRolePayload{}, generated.SetOwnAlertChannelPayload{}, generated.SetReportViewPayload{},
	generated.SetSitePlanPayload{},
	generated.SharedLinkPayload{}, generated.SignInPayload{}, generated.SignInWithPasskeyPayload{},
	generated.SignOutPayload{}, generated.SignUpPayload{}, generated.SitePayload{},
	generated.SitekeyPayload{}, generated.SitekeySecretPayload{},
	generated.StartPasskeyRegistrationPayload{}, generated.StartTotpPayload{},
	generated.StopAlertMailsPayload{}, generated.SuspensionPayload{}, generated.UndoImportPayload{}, generated.UpdateAccountPayload{},
	generated.UpdateUserPayload{},
}

// payloadTypes are the types of payloads, by name in lower case: Go spells abbreviations
// differently than the schema.
var payloadTypes = func() map[string]reflect.Type {
	types := make(map[string]reflect.Type)
	for _, payload := range payloads {
		t := reflect.TypeOf(payload)
		types[strings.ToLower(t.Name())] = t
	}
	return types
}()

// payloadType returns the Go type of the payload with a name in the schema.
func payloadType(name string) (reflect.Type, bool) {
	t, ok := payloadTypes[strings.ToLower(name)]
	return t, ok
}

// Validate implements graphql.HandlerExtension. It fails if a mutation's payload is missing in
// payloads, so that a server with such a schema does not start.
func (Mutations) Validate(schema graphql.ExecutableSchema) error {
	for _, field := range schema.Schema().Mutation.Fields {
		name := field.Type.Name()
		if _, ok := payloadType(name); !ok && !strings.HasPrefix(field.Name, "__") {
			return fmt.Errorf("payloads lacks %s, the type of the mutation %s", name, field.Name)
		}
	}
	return nil
}

// failedPayload turns an error that the schema reports in userErrors into a payload with nothing
// else in it. It returns other errors as they are.
func failedPayload(name string, err error) (any, error) {
	mistakes, err := userErrors(err)
	if err != nil {
		return nil, err
	}

	t, _ := payloadType(name)
	failed := reflect.New(t)
	failed.Elem().FieldByName("UserErrors").Set(reflect.ValueOf(mistakes))
	return failed.Interface(), nil
}
