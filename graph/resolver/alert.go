package resolver

import (
	"context"
	"errors"

	"github.com/tallygate/tallygate/db/accounts"
	"github.com/tallygate/tallygate/db/alerts"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/nodeid"
	"github.com/tallygate/tallygate/graph/auth"
	"github.com/tallygate/tallygate/graph/generated"
)

// The alert channels of accounts and sites, and their messages.

// AlertChannels returns none to a caller who reaches only some sites of the account.
func (r *accountResolver) AlertChannels(ctx context.Context, obj *model.Account) ([]*model.AlertChannel, error) {
	if caller, err := callerIn(ctx, obj.ID); err != nil || caller == nil || caller.IsRestricted() {
		return []*model.AlertChannel{}, err
	}
	channels, err := requestOf(ctx).loaders().AccountChannels().Of(ctx, obj.ID)
	return orEmpty(channels), err
}

// AlertChannels returns none to a guest of the site: channels have addresses of staff and back
// ends.
func (r *siteResolver) AlertChannels(ctx context.Context, obj *model.Site) ([]*model.AlertChannel, error) {
	if isForGuest(ctx, obj) {
		return []*model.AlertChannel{}, nil
	}
	channels, err := requestOf(ctx).loaders().SiteChannels().Of(ctx, obj.ID)
	return orEmpty(channels), err
}

// OwnAlertChannel returns the viewer's own one, also to a guest.
func (r *siteResolver) OwnAlertChannel(ctx context.Context, obj *model.Site) (*model.AlertChannel, error) {
	viewer := memberOf(ctx)
	return requestOf(ctx).loaders().OwnChannels(viewer).Of(ctx, obj.ID)
}

func (r *alertChannelResolver) ID(_ context.Context, obj *model.AlertChannel) (string, error) {
	return r.ids.Of(nodeid.AlertChannel, obj.ID), nil
}

func (r *alertChannelResolver) Site(ctx context.Context, obj *model.AlertChannel) (*model.Site, error) {
	if obj.SiteID == 0 {
		return nil, nil
	}
	return requestOf(ctx).loaders().Sites().Of(ctx, obj.SiteID)
}

func (r *alertChannelResolver) Target(_ context.Context, obj *model.AlertChannel) (string, error) {
	if obj.Kind == model.ChannelEmail {
		return r.channels.Email(obj), nil
	}
	return obj.Hint, nil
}

func (r *alertChannelResolver) Signed(_ context.Context, obj *model.AlertChannel) (bool, error) {
	return obj.Secret != nil, nil
}

func (r *alertChannelResolver) Events(_ context.Context, obj *model.AlertChannel) ([]model.AlertEvent, error) {
	return orEmpty(obj.Events), nil
}

func (r *alertChannelResolver) QuietHours(_ context.Context, obj *model.AlertChannel) (*generated.QuietHours, error) {
	if obj.Quiet.From == obj.Quiet.To {
		return nil, nil
	}
	return &generated.QuietHours{From: obj.Quiet.From, To: obj.Quiet.To, TimeZone: obj.Quiet.Zone}, nil
}

func (r *alertChannelResolver) StopReason(_ context.Context, obj *model.AlertChannel) (*string, error) {
	return notZero(obj.StopReason), nil
}

func (r *alertChannelResolver) Messages(
	ctx context.Context, obj *model.AlertChannel, first *int, after *string, last *int, before *string,
) (*generated.AlertMessageConnection, error) {
	p, cursors := paging{first, after, last, before}, r.cursors(nodeid.AfterAlertMessage)
	page, err := cursors.page(p, true)
	if err != nil {
		return nil, err
	}

	messages, err := requestOf(ctx).loaders().AlertMessages(page).Of(ctx, obj.ID)
	if err != nil {
		return nil, err
	}
	messages, found, info := cut(p, messages, func(m *model.AlertMessage) string { return cursors.encode(m.ID) })
	edges := make([]*generated.AlertMessageEdge, len(messages))
	for i, message := range messages {
		edges[i] = &generated.AlertMessageEdge{Cursor: found[i], Node: message}
	}
	return &generated.AlertMessageConnection{Edges: edges, Nodes: orEmpty(messages), PageInfo: info}, nil
}

func (r *alertMessageResolver) ID(_ context.Context, obj *model.AlertMessage) (string, error) {
	return r.ids.Of(nodeid.AlertMessage, obj.ID), nil
}

func (r *alertMessageResolver) Phase(_ context.Context, obj *model.AlertMessage) (string, error) {
	return string(obj.Phase), nil
}

// Title returns what the message is about: its site or sitekey, and otherwise its subject.
func (r *alertMessageResolver) Title(_ context.Context, obj *model.AlertMessage) (string, error) {
	for _, name := range []string{obj.Data.Site, obj.Data.Sitekey, obj.Data.Subject} {
		if name != "" {
			return name, nil
		}
	}
	return obj.Data.Account, nil
}

func (r *alertMessageResolver) Attempts(ctx context.Context, obj *model.AlertMessage) ([]*model.DeliveryAttempt, error) {
	return requestOf(ctx).loaders().AlertAttempts().Of(ctx, obj.ID)
}

func (r *alertMessageResolver) NextAttemptAt(_ context.Context, obj *model.AlertMessage) (*model.Instant, error) {
	if obj.State != model.DeliveryPending {
		return nil, nil
	}
	return &obj.NextAttemptAt, nil
}

// newChannel is what both mutations that create a channel take.
type newChannel struct {
	kind            model.AlertChannelKind
	name, address   string
	secret          *string
	language        model.Language
	events          []model.AlertEvent
	weekly, monthly bool
	above, below    *int
	quiet           *generated.QuietHoursInput
}

func (r *mutationResolver) CreateAlertChannel(
	ctx context.Context, input generated.CreateAlertChannelInput,
) (*generated.AlertChannelPayload, error) {
	member, _, err := channelEditor[model.AccountID](ctx)
	if err != nil {
		return nil, err
	}
	return r.createChannel(ctx, member, 0, newChannel{
		kind: input.Kind, name: input.Name, address: input.Address, secret: input.Secret, language: input.Language,
		events: input.Events, quiet: input.QuietHours,
	})
}

func (r *mutationResolver) CreateSiteAlertChannel(
	ctx context.Context, input generated.CreateSiteAlertChannelInput,
) (*generated.AlertChannelPayload, error) {
	member, siteID, err := channelEditor[model.SiteID](ctx)
	if err != nil {
		return nil, err
	}
	return r.createChannel(ctx, member, siteID, newChannel{
		kind: input.Kind, name: input.Name, address: input.Address, secret: input.Secret, language: input.Language,
		events: input.Events, weekly: input.Weekly, monthly: input.Monthly, above: input.SpikeAbove,
		below: input.DropBelow, quiet: input.QuietHours,
	})
}

// channelEditor is granted for changes of channels. With an API token, an operator has no rights of
// operators.
func channelEditor[ID ~int64](ctx context.Context) (member *model.User, id ID, err error) {
	member, id = granted[ID](ctx)
	caller, err := auth.CallerOf(ctx)
	if err != nil {
		return nil, 0, err
	}

	editor := *member
	editor.Operator = member.May(model.MayOperate, caller.Token)
	return &editor, id, nil
}

// createChannel checks the input, reports every mistake, and stores the channel.
func (r *mutationResolver) createChannel(
	ctx context.Context, member *model.User, siteID model.SiteID, input newChannel,
) (*generated.AlertChannelPayload, error) {
	channel := model.AlertChannel{
		AccountID: member.AccountID, SiteID: siteID, Kind: input.kind, Language: input.language, Weekly: input.weekly,
		Monthly: input.monthly, SpikeAbove: input.above, DropBelow: input.below, CreatedBy: member.ID,
	}

	name, nameErr := model.ParseName("name", input.name)
	address, addressErr := r.channelAddress(input.kind, input.address)
	secretErr := checkChannelSecret(input.kind, input.secret)
	events, eventsErr := model.CheckAlertEvents(input.events, nil, siteID != 0, member.Operator)
	quiet, quietErr := quietHours(input.quiet)
	thresholdErr := checkThresholds(&channel)
	if err := errors.Join(nameErr, addressErr, secretErr, eventsErr, thresholdErr, quietErr); err != nil {
		return nil, err
	}
	channel.Name, channel.Events, channel.Quiet = name, events, quiet
	if err := errors.Join(channel.CheckWants(), channel.Attribute(member, true, true)); err != nil {
		return nil, err
	}

	var confirm *alerts.Confirmation
	if input.kind == model.ChannelEmail {
		token := model.NewSecret(model.AlertTokenPrefix)
		confirm = &alerts.Confirmation{Token: token, URL: r.auth.Links.Alert(token), By: member.Email}
	}

	secrets := alerts.Secrets{Address: &address, Signing: input.secret}
	created, err := r.channels.Create(ctx, channel, secrets, confirm, requestOf(ctx).now)
	return &generated.AlertChannelPayload{AlertChannel: created}, err
}

// checkThresholds checks both thresholds of a channel.
func checkThresholds(channel *model.AlertChannel) error {
	return errors.Join(model.CheckThreshold("spikeAbove", channel.SpikeAbove, channel.SiteID != 0),
		model.CheckThreshold("dropBelow", channel.DropBelow, channel.SiteID != 0))
}

// channelAddress checks the address of a channel.
func (r *Resolver) channelAddress(kind model.AlertChannelKind, address string) (string, error) {
	if kind == model.ChannelEmail {
		email, err := model.ParseEmail(address)
		if err != nil {
			err = model.InvalidField("address", "invalid_email", "Enter an e-mail address.")
		}
		return email, err
	}
	return address, model.CheckWebhookURL("address", address, r.webhookNets)
}

// checkChannelSecret checks the secret that signs the calls of a channel.
func checkChannelSecret(kind model.AlertChannelKind, secret *string) error {
	if secret != nil && *secret != "" && kind != model.ChannelWebhook {
		return model.InvalidField("secret", "invalid_secret", "Only calls of the kind WEBHOOK are signed.")
	}
	return model.CheckWebhookSecret(secret)
}

// quietHours checks quiet hours; nil is none.
func quietHours(input *generated.QuietHoursInput) (model.QuietHours, error) {
	if input == nil {
		return model.QuietHours{}, nil
	}
	quiet := model.QuietHours{From: input.From, To: input.To, Zone: input.TimeZone}
	if quiet.Zone == "" {
		return quiet, model.InvalidField("quietHours", "invalid_quiet_hours", "Use a time zone such as Europe/Berlin.")
	}
	return quiet, quiet.Check("quietHours")
}

// UpdateAlertChannel changes what the input gives. All mistakes are reported.
func (r *mutationResolver) UpdateAlertChannel(
	ctx context.Context, input generated.UpdateAlertChannelInput,
) (*generated.AlertChannelPayload, error) {
	member, id, err := channelEditor[int64](ctx)
	if err != nil {
		return nil, err
	}
	was, err := r.channels.Channel(ctx, member.AccountID, id)
	if err != nil {
		return nil, err
	}

	secrets, secretsErr := r.changedSecrets(was.Kind, input)
	changed, err := r.channels.Update(ctx, member.AccountID, id, secrets, requestOf(ctx).now,
		func(channel *model.AlertChannel) error {
			err := changeChannel(channel, member, input)
			if err == nil {
				err = channel.CheckWants()
			}
			byErr := channel.Attribute(member, input.Events != nil, input.Address != nil)
			return errors.Join(secretsErr, err, byErr)
		})
	return &generated.AlertChannelPayload{AlertChannel: changed}, err
}

// changedSecrets checks the address and the secret of an input.
func (r *Resolver) changedSecrets(
	kind model.AlertChannelKind, input generated.UpdateAlertChannelInput,
) (secrets alerts.Secrets, err error) {
	var addressErr, secretErr error
	if input.Address != nil {
		if secrets.Address = input.Address; kind == model.ChannelEmail {
			addressErr = model.InvalidField("address", "invalid_email", "Create another channel for another address.")
		} else {
			_, addressErr = r.channelAddress(kind, *input.Address)
		}
	}
	if input.Secret.IsSet() {
		blank := ""
		if secrets.Signing = input.Secret.Value(); secrets.Signing == nil {
			secrets.Signing = &blank
		}
		secretErr = checkChannelSecret(kind, secrets.Signing)
	}
	return secrets, errors.Join(addressErr, secretErr)
}

// changeChannel changes the settings of a channel that the input gives.
func changeChannel(channel *model.AlertChannel, member *model.User, input generated.UpdateAlertChannelInput) error {
	var nameErr, eventsErr, quietErr, summaryErr error
	if input.Name != nil {
		channel.Name, nameErr = model.ParseName("name", *input.Name)
	}
	if input.Language != nil {
		channel.Language = *input.Language
	}
	if input.Events != nil {
		channel.Events, eventsErr = model.CheckAlertEvents(input.Events, channel.Events, channel.SiteID != 0, member.Operator)
	}
	if input.SpikeAbove.IsSet() {
		channel.SpikeAbove = input.SpikeAbove.Value()
	}
	if input.DropBelow.IsSet() {
		channel.DropBelow = input.DropBelow.Value()
	}
	if input.QuietHours.IsSet() {
		channel.Quiet, quietErr = quietHours(input.QuietHours.Value())
	}

	for _, summary := range []struct {
		to    *bool
		value *bool
		field string
	}{{&channel.Weekly, input.Weekly, "weekly"}, {&channel.Monthly, input.Monthly, "monthly"}} {
		if summary.value == nil {
			continue
		}
		if *summary.value && channel.SiteID == 0 {
			summaryErr = errors.Join(summaryErr,
				model.InvalidField(summary.field, "invalid_alert_event", "Only the channel of a site gets summaries."))
		}
		*summary.to = *summary.value
	}
	return errors.Join(nameErr, eventsErr, quietErr, summaryErr, checkThresholds(channel))
}

// SetOwnAlertChannel changes the caller's own channel of a site. All mistakes are reported.
func (r *mutationResolver) SetOwnAlertChannel(
	ctx context.Context, input generated.SetOwnAlertChannelInput,
) (*generated.SetOwnAlertChannelPayload, error) {
	member, siteID := granted[model.SiteID](ctx)
	changes := generated.UpdateAlertChannelInput{
		Events: input.Events, Weekly: input.Weekly, Monthly: input.Monthly, SpikeAbove: input.SpikeAbove,
		DropBelow: input.DropBelow, QuietHours: input.QuietHours,
	}
	own, err := r.channels.SetOwn(ctx, member, siteID, requestOf(ctx).now, func(channel *model.AlertChannel) error {
		return changeChannel(channel, member, changes)
	})
	return &generated.SetOwnAlertChannelPayload{AlertChannel: own}, err
}

// StopAlertMails needs no session: the token is from the mail.
func (r *mutationResolver) StopAlertMails(
	ctx context.Context, input generated.StopAlertMailsInput,
) (*generated.StopAlertMailsPayload, error) {
	id, confirmedAt, ok := r.ids.ParseChannelStop(input.Token)
	if !ok {
		return nil, accounts.ErrInvalidToken
	}
	return &generated.StopAlertMailsPayload{}, r.channels.Stop(ctx, id, confirmedAt, requestOf(ctx).now)
}

func (r *mutationResolver) DeleteAlertChannel(
	ctx context.Context, _ generated.DeleteAlertChannelInput,
) (*generated.AlertChannelPayload, error) {
	member, id := granted[int64](ctx)
	channel, err := r.channels.Delete(ctx, member.AccountID, id)
	return &generated.AlertChannelPayload{AlertChannel: channel}, err
}

func (r *mutationResolver) SendTestAlert(
	ctx context.Context, _ generated.SendTestAlertInput,
) (*generated.AlertMessagePayload, error) {
	member, id := granted[int64](ctx)
	message, err := r.channels.Test(ctx, member.AccountID, id, requestOf(ctx).now)
	return &generated.AlertMessagePayload{AlertMessage: message}, err
}

func (r *mutationResolver) RedeliverAlertMessage(
	ctx context.Context, _ generated.RedeliverAlertMessageInput,
) (*generated.AlertMessagePayload, error) {
	member, id := granted[int64](ctx)
	message, err := r.channels.Message(ctx, member.AccountID, id)
	if err != nil {
		return nil, err
	}
	message, err = r.channels.Redeliver(ctx, member.AccountID, message.ChannelID, id, requestOf(ctx).now)
	return &generated.AlertMessagePayload{AlertMessage: message}, err
}

// ConfirmAlertChannel needs no session: the token is from the mail.
func (r *mutationResolver) ConfirmAlertChannel(
	ctx context.Context, input generated.ConfirmAlertChannelInput,
) (*generated.ConfirmAlertChannelPayload, error) {
	if !model.IsSecret(model.AlertTokenPrefix, input.Token) {
		return nil, accounts.ErrInvalidToken
	}
	return &generated.ConfirmAlertChannelPayload{}, r.channels.Confirm(ctx, input.Token, requestOf(ctx).now)
}

// alertChannel returns a channel of one of the viewer's accounts by its global id, or nil. Guests
// read none but their own.
func (r *Resolver) alertChannel(ctx context.Context, viewer *model.User, id string) (*model.AlertChannel, error) {
	return ownObject(ctx, r, nodeid.AlertChannel, viewer, id, r.channelFor(viewer))
}

// alertMessage returns a message of such a channel.
func (r *Resolver) alertMessage(ctx context.Context, viewer *model.User, id string) (*model.AlertMessage, error) {
	read := func(ctx context.Context, accountID model.AccountID, id int64) (*model.AlertMessage, error) {
		message, err := r.channels.Message(ctx, accountID, id)
		if err != nil {
			return nil, err
		}
		if _, err := r.channelFor(viewer)(ctx, accountID, message.ChannelID); err != nil {
			return nil, err
		}
		return message, nil
	}
	return ownObject(ctx, r, nodeid.AlertMessage, viewer, id, read)
}

// channelFor returns a function that reads a channel of an account, unless it is another user's own
// one, or the viewer is a guest of its site.
func (r *Resolver) channelFor(
	viewer *model.User,
) func(ctx context.Context, accountID model.AccountID, id int64) (*model.AlertChannel, error) {
	return func(ctx context.Context, accountID model.AccountID, id int64) (*model.AlertChannel, error) {
		channel, err := r.channels.Channel(ctx, accountID, id)
		switch {
		case err != nil:
			return nil, err
		case channel.UserID == viewer.ID:
			channel.Follow(viewer)
		case channel.UserID != 0 || viewer.IsGuestOf(channel.AccountID, channel.SiteID):
			return nil, model.ErrNotFound
		}
		return channel, nil
	}
}
