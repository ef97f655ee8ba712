package resolver

import (
	"context"
	"fmt"
	"strings"
	"sync"

	"github.com/99designs/gqlgen/graphql"
	"github.com/vektah/gqlparser/v2/ast"

	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/nodeid"
	"github.com/tallygate/tallygate/graph/auth"
	"github.com/tallygate/tallygate/graph/generated"
	"github.com/tallygate/tallygate/graph/limits"
)

// Who may call a field. The directives @needs and @open of the schema state it, and Access checks
// it.

// permissions are the permissions that the schema names.
var permissions = map[generated.Permission]model.Permission{
	generated.PermissionRead:      model.MayRead,
	generated.PermissionConfigure: model.MayConfigure,
	generated.PermissionSendOut:   model.MaySendOut,
	generated.PermissionErase:     model.MayErase,
	generated.PermissionManage:    model.MayManage,
	generated.PermissionPersonal:  model.MayPersonal,
	generated.PermissionSecure:    model.MaySecure,
	generated.PermissionOperate:   model.MayOperate,
}

// targets are the kinds of the objects in whose account a permission is needed, and the names of
// their ids.
var targets = map[generated.PermissionTarget]struct {
	kind nodeid.Kind
	id   string
}{
	generated.PermissionTargetCaller:       {},
	generated.PermissionTargetAnyAccount:   {},
	generated.PermissionTargetAccount:      {nodeid.Account, "accountId"},
	generated.PermissionTargetDomain:       {nodeid.Account, "accountId"},
	generated.PermissionTargetSite:         {nodeid.Site, "siteId"},
	generated.PermissionTargetSitekey:      {nodeid.Sitekey, "sitekeyId"},
	generated.PermissionTargetDelivery:     {nodeid.Delivery, "deliveryId"},
	generated.PermissionTargetAnnotation:   {nodeid.Annotation, "annotationId"},
	generated.PermissionTargetSegment:      {nodeid.Segment, "segmentId"},
	generated.PermissionTargetFunnel:       {nodeid.Funnel, "funnelId"},
	generated.PermissionTargetSharedLink:   {nodeid.SharedLink, "sharedLinkId"},
	generated.PermissionTargetImport:       {nodeid.Import, "importId"},
	generated.PermissionTargetImportJob:    {nodeid.ImportJob, "importJobId"},
	generated.PermissionTargetAlertChannel: {nodeid.AlertChannel, "alertChannelId"},
	generated.PermissionTargetAlertMessage: {nodeid.AlertMessage, "alertMessageId"},
	generated.PermissionTargetInvitation:   {nodeid.Invitation, "invitationId"},
	generated.PermissionTargetPasskey:      {nodeid.Passkey, "passkeyId"},
	generated.PermissionTargetAPIToken:     {nodeid.APIToken, "apiTokenId"},
}

// rule is what a field requires of its caller.
type rule struct {
	permission model.Permission
	of         generated.PermissionTarget
	kind       nodeid.Kind // of the object; 0: the caller
	id         string      // the argument, or field of the input, with the object's id
	closed     bool        // instead: the field of an account needs the second factor that the account requires
	members    bool        // and a member of the whole account
}

// inAccount reports whether the permission is needed in the account of the object, and not in the
// default account.
func (r rule) inAccount() bool {
	return r.permission != model.MayOperate && r.kind != nodeid.Passkey && r.kind != nodeid.APIToken
}

// Access is the extension that checks the permission of each field before its resolver runs, and
// charges the request. The resolver gets the caller and the object from granted.
type Access struct {
	resolver *Resolver
	rules    map[*ast.FieldDefinition]rule
}

var _ graphql.FieldInterceptor = (*Access)(nil)

// Access returns the extension for the resolvers.
func (r *Resolver) Access() *Access {
	describeOnce()
	return &Access{resolver: r}
}

// ExtensionName implements graphql.HandlerExtension.
func (*Access) ExtensionName() string { return "Access" }

// Validate reads the rules from the schema.
func (a *Access) Validate(executable graphql.ExecutableSchema) error {
	schema := executable.Schema()
	a.rules = make(map[*ast.FieldDefinition]rule)
	for _, def := range schema.Types {
		for _, field := range def.Fields {
			needs, open := field.Directives.ForName("needs"), field.Directives.ForName("open")
			switch {
			case needs != nil:
				rule, err := ruleOf(schema, field, needs)
				if err != nil {
					return fmt.Errorf("%s.%s: %w", def.Name, field.Name, err)
				}
				a.rules[field] = rule

			case isRoot(schema, def) && open == nil && !strings.HasPrefix(field.Name, "__"):
				return fmt.Errorf("%s.%s has neither @needs nor @open", def.Name, field.Name)
			case def.Name == "Account" && open == nil:
				a.rules[field] = rule{closed: true, members: field.Directives.ForName("members") != nil}
			}
		}
	}

	return nil
}

// isRoot reports whether a type has the root fields.
func isRoot(schema *ast.Schema, def *ast.Definition) bool {
	return def == schema.Query || def == schema.Mutation
}

// ruleOf reads the directive @needs of a field.
func ruleOf(schema *ast.Schema, field *ast.FieldDefinition, directive *ast.Directive) (rule, error) {
	args := directive.ArgumentMap(nil)
	name, _ := args["permission"].(string)
	of, _ := args["of"].(string)
	permission, known := permissions[generated.Permission(name)]
	target, knownTarget := targets[generated.PermissionTarget(of)]
	if !known || !knownTarget {
		return rule{}, fmt.Errorf("@needs has the permission %q of %q, which does not exist", name, of)
	}

	r := rule{permission: permission, of: generated.PermissionTarget(of), kind: target.kind, id: target.id}
	if id, ok := args["id"].(string); ok {
		r.id = id
	}
	if r.id != "" && !takes(schema, field, r.id) {
		return rule{}, fmt.Errorf("@needs names the id %q, which the field does not take", r.id)
	}

	return r, nil
}

// takes reports whether a field has an argument, or a field of its input, with a name.
func takes(schema *ast.Schema, field *ast.FieldDefinition, name string) bool {
	if input := field.Arguments.ForName("input"); input != nil {
		return schema.Types[input.Type.Name()].Fields.ForName(name) != nil
	}
	return field.Arguments.ForName(name) != nil
}

// describeOnce describes the schema, which all servers of a process share.
var describeOnce = sync.OnceFunc(func() {
	describe(generated.NewExecutableSchema(generated.Config{}).Schema())
})

// Schema returns the schema with complete descriptions, as introspection shows it.
func Schema() *ast.Schema {
	describeOnce()
	return generated.NewExecutableSchema(generated.Config{}).Schema()
}

// describe adds to the description of each field what it requires of its caller: introspection does
// not show directives.
func describe(schema *ast.Schema) {
	for _, def := range schema.Types {
		for _, field := range def.Fields {
			if directive := field.Directives.ForName("needs"); directive != nil {
				name := directive.Arguments.ForName("permission").Value.Raw
				field.Description += " " + schema.Types["Permission"].EnumValues.ForName(name).Description
			} else if isRoot(schema, def) && field.Directives.ForName("open") != nil {
				field.Description += " Needs no session."
			} else if field.Directives.ForName("members") != nil {
				field.Description += " Fails with `FORBIDDEN` for guests."
			}
		}
	}
}

// grant is what the check of a permission found.
type grant struct {
	member *model.User // the caller, as a member of the object's account
	id     int64       // of the object; of a delivery, its site's
}

// grantKey is the context key of a grant.
type grantKey struct{}

// granted returns the caller as a member of the account in which the field needs a permission, and
// the number of the object. It panics in the resolver of a field without @needs.
func granted[ID ~int64](ctx context.Context) (member *model.User, id ID) {
	g := ctx.Value(grantKey{}).(grant)
	return g.member, ID(g.id)
}

// memberOf is granted for a field that needs no number.
func memberOf(ctx context.Context) *model.User { return ctx.Value(grantKey{}).(grant).member }

// InterceptField checks the rule of a field. An error is charged as charge describes.
func (a *Access) InterceptField(ctx context.Context, next graphql.Resolver) (any, error) {
	field := graphql.GetFieldContext(ctx)
	rule, ok := a.rules[field.Field.Definition]
	switch {
	case !ok:
		return next(ctx)
	case rule.closed:
		if err := checkSecondFactor(ctx, accountOf(field)); err != nil {
			return nil, err
		}
		if rule.members {
			if err := refuseGuest(ctx, accountOf(field)); err != nil {
				return nil, err
			}
		}
		return next(ctx)
	}

	args := field.Field.ArgumentMap(graphql.GetOperationContext(ctx).Variables)
	g, err := a.resolver.check(ctx, rule, args)
	if err := charge(ctx, err); err != nil {
		if field.Object == "Query" && model.KindOf(err) == model.NotFound {
			return nil, nil
		}
		return nil, orNotFound(rule.id, err)
	}

	result, err := next(context.WithValue(ctx, grantKey{}, g))
	return result, orNotFound(rule.id, err)
}

// check returns the caller as a member of the account of the object in the arguments, if the caller
// has the permission there. It admits the request, and does not charge it.
func (r *Resolver) check(ctx context.Context, rule rule, args map[string]any) (grant, error) {
	caller, err := admit(ctx)
	if err != nil {
		return grant{}, err
	}
	if caller.User == nil {
		return grant{}, caller.Check(rule.permission)
	}

	g := grant{member: caller.User}
	id, given := idIn(args, rule.id)
	isAny := rule.of == generated.PermissionTargetAnyAccount ||
		rule.of == generated.PermissionTargetDomain && args["domain"] == nil

	// A caller who has the permission in none of the accounts gets forbidden, so that the answer to
	// an unknown id does not depend on why it is unknown.
	if isAny || given && rule.inAccount() {
		if err := caller.User.CheckInAny(rule.permission, caller.Token); err != nil || isAny {
			return g, err
		}
		if g, err = r.find(ctx, caller.User, rule.kind, id); err != nil {
			return grant{}, err
		}
	}

	if err := rule.allows(g.member, caller.Token); err != nil {
		return grant{}, err
	}

	if given && !rule.inAccount() {
		if g.id, given = r.ids.Parse(rule.kind, id); !given {
			return grant{}, model.ErrNotFound
		}
	}

	return g, nil
}

// allows returns an error if a member of the account, signed in or through an API token, lacks the
// permission there.
func (r rule) allows(member *model.User, token *model.APIToken) error {
	if err := member.Check(r.permission, token); err != nil {
		return err
	}
	if err := member.Account.CheckSuspended(r.permission); err != nil {
		return err
	}

	// A guest, and a token that is restricted to sites, change nothing else of the account. Guests
	// leave it, and create API tokens, which tokens have no permission for; and an operator can be
	// a guest.
	switch r.permission {
	case model.MayRead, model.MayPersonal, model.MaySecure, model.MayOperate:
		return nil
	}
	if r.kind == nodeid.Account && member.IsRestricted() {
		return model.ErrForbidden
	}

	return nil
}

// idIn returns the id with a name among the arguments, or in the input.
func idIn(args map[string]any, name string) (id string, given bool) {
	if input, ok := args["input"].(map[string]any); ok {
		args = input
	}
	if name == "" || args[name] == nil {
		return "", false
	}

	// gqlgen has rejected values that are not IDs.
	id, _ = graphql.UnmarshalID(args[name])
	return id, true
}

// find returns the user as a member of the account of an object, and the object's number. It
// returns model.ErrNotFound for an object that the user does not reach.
func (r *Resolver) find(ctx context.Context, user *model.User, kind nodeid.Kind, nodeID string) (grant, error) {
	if kind == nodeid.Account {
		if member := r.in(user, nodeID); member != nil {
			return grant{member, int64(member.AccountID)}, nil
		}
		return grant{}, model.ErrNotFound
	}

	id, ok := r.ids.Parse(kind, nodeID)
	if kind == nodeid.Delivery {
		var siteID model.SiteID
		siteID, _, ok = r.ids.ParseDelivery(nodeID)
		kind, id = nodeid.Site, int64(siteID)
	}
	if !ok {
		return grant{}, model.ErrNotFound
	}

	member, err := r.accounts.MemberFor(ctx, user, kind, id)
	return grant{member, id}, err
}

// in returns a user as a member of the account with this global id, or nil.
func (r *Resolver) in(user *model.User, accountID string) *model.User {
	number, ok := nodeid.Parse[model.AccountID](r.ids, accountID)
	if !ok {
		return nil
	}
	return user.In(number)
}

// require checks a permission in the default account, and charges the request, for a field that not
// every caller needs the permission for.
func (r *Resolver) require(ctx context.Context, p model.Permission) (*model.User, error) {
	g, err := r.check(ctx, rule{permission: p, of: generated.PermissionTargetCaller}, nil)
	return g.member, charge(ctx, err)
}

// admit returns the caller, and admits the request of a user. The request must be charged before it
// does any work.
func admit(ctx context.Context) (auth.Caller, error) {
	caller, err := auth.CallerOf(ctx)
	if err != nil || caller.User == nil {
		return caller, err
	}
	return caller, limits.Of(ctx).Admit(ctx, caller)
}

// charge charges an admitted request in full, unless err means that the caller lacks the
// permission: such a request costs one point, so that refused mutations do not use up the account's
// minute. It returns err, or rate_limited.
func charge(ctx context.Context, err error) error {
	if model.KindOf(err) == model.Forbidden {
		return err
	}

	caller, failed := auth.CallerOf(ctx)
	if failed != nil || caller.User == nil {
		return err
	}
	if refused := limits.Of(ctx).Charge(ctx, caller); refused != nil {
		return refused
	}

	return err
}

// checkSecondFactor fails with SECOND_FACTOR_REQUIRED for a caller who lacks the second factor that
// an account requires. Such a user reaches the account through the own user.
func checkSecondFactor(ctx context.Context, account *model.Account) error {
	caller, err := auth.CallerOf(ctx)
	if err == nil && caller.User != nil && account.Bars(caller.User) {
		err = model.ErrSecondFactorRequired
	}
	return err
}

// refuseGuest fails with FORBIDDEN for a guest of an account, unless the guest operates the
// installation.
func refuseGuest(ctx context.Context, account *model.Account) error {
	caller, err := auth.CallerOf(ctx)
	if err != nil || caller.User == nil || account == nil {
		return err
	}
	if member := caller.User.In(account.ID); member != nil && member.IsGuest() && !member.May(model.MayOperate, caller.Token) {
		return model.ErrForbidden
	}
	return nil
}

// accountOf returns the account with the field that is resolved.
func accountOf(field *graphql.FieldContext) *model.Account {
	if field.Parent == nil {
		return nil
	}

	switch account := field.Parent.Result.(type) {
	case *model.Account:
		return account
	case **model.Account:
		return *account
	}

	return nil
}
