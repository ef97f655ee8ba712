package resolver

import (
	"context"
	"errors"

	"github.com/99designs/gqlgen/graphql"

	"github.com/tallygate/tallygate/db/accounts"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/sites"
	"github.com/tallygate/tallygate/graph/generated"
)

// The mails about a site that the caller gets.

func (r *siteResolver) ReportMails(ctx context.Context, obj *model.Site) (*generated.ReportMails, error) {
	viewer, _ := granted(ctx)
	mails, err := requestOf(ctx).loaders().ReportMails(viewer.ID).Of(ctx, obj.ID)
	return reportMails(mails), err
}

func reportMails(mails model.ReportMails) *generated.ReportMails {
	shown := &generated.ReportMails{Weekly: mails.Weekly, Monthly: mails.Monthly}
	if mails.SpikeAbove != 0 {
		above := int(mails.SpikeAbove)
		shown.SpikeAbove = &above
	}
	if mails.DropBelow != 0 {
		below := int(mails.DropBelow)
		shown.DropBelow = &below
	}
	return shown
}

// SetReportMails changes the caller's own mails. All mistakes are reported.
func (r *mutationResolver) SetReportMails(
	ctx context.Context, input generated.SetReportMailsInput,
) (*generated.SetReportMailsPayload, error) {
	above, aboveErr := threshold("spikeAbove", input.SpikeAbove)
	below, belowErr := threshold("dropBelow", input.DropBelow)
	if err := errors.Join(aboveErr, belowErr); err != nil {
		return nil, err
	}

	member, siteID := granted(ctx)
	update := sites.ReportMailsUpdate{Weekly: input.Weekly, Monthly: input.Monthly, SpikeAbove: above, DropBelow: below}
	if err := r.sites.SetReportMails(ctx, member, siteID, update, requestOf(ctx).now); err != nil {
		return nil, err
	}

	mails, err := r.sites.ReportMailsOfSites(ctx, member.ID, []int64{siteID})
	return &generated.SetReportMailsPayload{ReportMails: reportMails(mails[siteID])}, err
}

// StopReportMail needs no session: the token is from the mail.
func (r *mutationResolver) StopReportMail(
	ctx context.Context, input generated.StopReportMailInput,
) (*generated.StopReportMailPayload, error) {
	if id, confirmedAt, ok := r.ids.ParseChannelStop(input.Token); ok {
		return &generated.StopReportMailPayload{}, r.channels.Stop(ctx, id, confirmedAt, requestOf(ctx).now)
	}
	mail, ok := r.ids.ParseStop(input.Token)
	if !ok {
		return nil, accounts.ErrInvalidToken
	}
	return &generated.StopReportMailPayload{}, r.sites.StopReportMail(ctx, mail)
}

// threshold returns the number of an input: nil for no change, 0 for null.
func threshold(field string, input graphql.Omittable[*int]) (*int64, error) {
	if !input.IsSet() {
		return nil, nil
	}

	var number int64
	if value := input.Value(); value != nil {
		if err := model.CheckReportThreshold(field, *value); err != nil {
			return nil, err
		}
		number = int64(*value)
	}

	return &number, nil
}
