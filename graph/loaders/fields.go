package loaders

import (
	"context"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/alerts"
	"github.com/tallygate/tallygate/db/imports"
	"github.com/tallygate/tallygate/db/ingest"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/outbox"
	"github.com/tallygate/tallygate/db/sites"
)

// Usage returns the loader of the usage of sites in the month of New.
func (l *Set) Usage() *BySite[int64] {
	return loader(l, field{"usage", nil}, &l.sites, func(ctx context.Context, ids []model.SiteID) (map[model.SiteID]int64, error) {
		return l.store.Usage.MonthlyUsage(ctx, l.month, ids)
	})
}

// UsageHistory returns the loader of the usage of sites by month, since from.
func (l *Set) UsageHistory(from model.Month) *BySite[map[model.Month]int64] {
	return loader(l, field{"usageHistory", from}, &l.sites,
		func(ctx context.Context, ids []model.SiteID) (map[model.SiteID]map[model.Month]int64, error) {
			return l.store.Usage.UsageHistory(ctx, ids, from)
		})
}

// UsageByDay returns the loader of the usage of sites by day, since from.
func (l *Set) UsageByDay(from model.Day) *BySite[map[model.Day]int64] {
	return loader(l, field{"usageByDay", from}, &l.sites,
		func(ctx context.Context, ids []model.SiteID) (map[model.SiteID]map[model.Day]int64, error) {
			return l.store.Usage.UsageByDay(ctx, ids, from)
		})
}

// LastHits returns the loader of the times of sites' last hits.
func (l *Set) LastHits() *BySite[model.Instant] {
	return loader(l, field{"lastHits", nil}, &l.sites, l.store.Usage.LastHits)
}

// Rules returns the loader of the rules of sites.
func (l *Set) Rules() *BySite[*model.SiteRules] {
	return loader(l, field{"rules", nil}, &l.sites, l.store.Sites.SiteRules)
}

// Sites returns the loader of the sites of deliveries.
func (l *Set) Sites() *BySite[*model.Site] {
	return loader(l, field{"sites", nil}, &l.sites, l.store.Sites.SitesByID)
}

// Rejections returns the loader of the rejected calls since a day.
func (l *Set) Rejections(from model.Day) *BySite[[]ingest.Rejection] {
	return loader(l, field{"rejections", from}, &l.sites,
		func(ctx context.Context, ids []model.SiteID) (map[model.SiteID][]ingest.Rejection, error) {
			return ingest.New(l.db).RejectionsOfSites(ctx, ids, from)
		})
}

// UnknownEvents returns the loader of the unknown events of sites, since from.
func (l *Set) UnknownEvents(from model.Day) *BySite[[]ingest.UnknownEvent] {
	return loader(l, field{"unknownEvents", from}, &l.sites,
		func(ctx context.Context, ids []model.SiteID) (map[model.SiteID][]ingest.UnknownEvent, error) {
			return ingest.New(l.db).UnknownEventsOfSites(ctx, ids, from)
		})
}

// Deliveries returns the loader of a page of deliveries.
func (l *Set) Deliveries(page outbox.DeliveryPage) *BySite[[]*model.Delivery] {
	return loader(l, field{"deliveries", page}, &l.sites,
		func(ctx context.Context, ids []model.SiteID) (map[model.SiteID][]*model.Delivery, error) {
			bySite, err := l.outbox.DeliveriesOfSites(ctx, ids, page)
			for _, deliveries := range bySite {
				for _, delivery := range deliveries {
					l.deliveries.add(outbox.DeliveryKey{SiteID: delivery.SiteID, ID: delivery.ID})
				}
			}
			return bySite, err
		})
}

// DeliveryCounts returns the loader of the number of deliveries that a filter selects.
func (l *Set) DeliveryCounts(filter outbox.DeliveryFilter) *BySite[int] {
	return loader(l, field{"deliveryCounts", filter}, &l.sites,
		func(ctx context.Context, ids []model.SiteID) (map[model.SiteID]int, error) {
			return l.outbox.DeliveryCounts(ctx, ids, filter)
		})
}

// Attempts returns the loader of the last attempts of deliveries.
func (l *Set) Attempts() *Loader[outbox.DeliveryKey, []*model.DeliveryAttempt] {
	return loader(l, field{"attempts", nil}, &l.deliveries, l.outbox.LastAttempts)
}

// Bodies returns the loader of the bodies of deliveries, as stored.
func (l *Set) Bodies() *Loader[outbox.DeliveryKey, string] {
	return loader(l, field{"bodies", nil}, &l.deliveries, l.outbox.DeliveryBodies)
}

// SiteChannels returns the loader of the alert channels of sites.
func (l *Set) SiteChannels() *BySite[[]*model.AlertChannel] {
	return loader(l, field{"siteChannels", nil}, &l.sites,
		func(ctx context.Context, ids []model.SiteID) (map[model.SiteID][]*model.AlertChannel, error) {
			bySite, err := alerts.NewChannels(l.db).OfSites(ctx, ids)
			expectChannels(l, bySite)
			return bySite, err
		})
}

// AccountChannels returns the loader of the alert channels of accounts.
func (l *Set) AccountChannels() *Loader[model.AccountID, []*model.AlertChannel] {
	return loader(l, field{"accountChannels", nil}, &l.accounts,
		func(ctx context.Context, ids []model.AccountID) (map[model.AccountID][]*model.AlertChannel, error) {
			byAccount, err := alerts.NewChannels(l.db).OfAccounts(ctx, ids)
			expectChannels(l, byAccount)
			return byAccount, err
		})
}

// expectChannels announces the alert channels of lists.
func expectChannels[OwnerID ~int64](l *Set, lists map[OwnerID][]*model.AlertChannel) {
	for _, channels := range lists {
		for _, channel := range channels {
			l.channels.add(channel.ID)
		}
	}
}

// OwnChannels returns the loader of a user's own alert channels of sites.
func (l *Set) OwnChannels(user *model.User) *BySite[*model.AlertChannel] {
	return loader(l, field{"ownChannels", user.ID}, &l.sites,
		func(ctx context.Context, ids []model.SiteID) (map[model.SiteID]*model.AlertChannel, error) {
			bySite, err := alerts.NewChannels(l.db).OwnOfSites(ctx, user, ids)
			for _, channel := range bySite {
				l.channels.add(channel.ID)
			}
			return bySite, err
		})
}

// AlertMessages returns the loader of a page of the messages of alert channels.
func (l *Set) AlertMessages(page db.Page) *Loader[int64, []*model.AlertMessage] {
	return loader(l, field{"alertMessages", page}, &l.channels,
		func(ctx context.Context, ids []int64) (map[int64][]*model.AlertMessage, error) {
			byChannel, err := alerts.NewChannels(l.db).Messages(ctx, ids, page)
			for _, messages := range byChannel {
				for _, message := range messages {
					l.messages.add(message.ID)
				}
			}
			return byChannel, err
		})
}

// AlertAttempts returns the loader of the attempts of messages.
func (l *Set) AlertAttempts() *Loader[int64, []*model.DeliveryAttempt] {
	return loader(l, field{"alertAttempts", nil}, &l.messages, l.outbox.MessageAttempts)
}

// Segments returns the loader of the segments of sites.
func (l *Set) Segments() *BySite[[]*model.Segment] {
	return loader(l, field{"segments", nil}, &l.sites, l.store.Objects.SegmentsOfSites)
}

// Funnels returns the loader of the funnels of sites.
func (l *Set) Funnels() *BySite[[]*model.Funnel] {
	return loader(l, field{"funnels", nil}, &l.sites, l.store.Objects.FunnelsOfSites)
}

// SharedLinks returns the loader of the shared links of sites. Links announce their segments, which
// are then read at once.
func (l *Set) SharedLinks() *BySite[[]*model.SharedLink] {
	return loader(l, field{"sharedLinks", nil}, &l.sites,
		func(ctx context.Context, ids []model.SiteID) (map[model.SiteID][]*model.SharedLink, error) {
			bySite, err := l.store.Objects.SharedLinksOfSites(ctx, ids)
			for _, links := range bySite {
				for _, link := range links {
					if link.SegmentID != 0 {
						l.segments.add(link.SegmentID)
					}
				}
			}
			return bySite, err
		})
}

// LinkSegments returns the loader of the segments of shared links, by the segment's number.
func (l *Set) LinkSegments() *Loader[model.SegmentID, *model.Segment] {
	return loader(l, field{"linkSegments", nil}, &l.segments, l.store.Objects.SegmentsByID)
}

// Annotations returns the loader of a page of annotations.
func (l *Set) Annotations(page sites.AnnotationPage) *BySite[[]*model.Annotation] {
	return loader(l, field{"annotations", page}, &l.sites,
		func(ctx context.Context, ids []model.SiteID) (map[model.SiteID][]*model.Annotation, error) {
			return l.store.Objects.AnnotationsOfSites(ctx, ids, page)
		})
}

// AnnotationCounts returns the loader of the number of annotations of sites.
func (l *Set) AnnotationCounts() *BySite[int] {
	return loader(l, field{"annotationCounts", nil}, &l.sites, l.store.Objects.AnnotationCounts)
}

// Imports returns the loader of the imports of sites.
func (l *Set) Imports() *BySite[[]*model.ReportImport] {
	return loader(l, field{"imports", nil}, &l.sites,
		func(ctx context.Context, ids []model.SiteID) (map[model.SiteID][]*model.ReportImport, error) {
			return imports.New(l.db).ImportsOfSites(ctx, ids)
		})
}

// ImportJobs returns the loader of the import jobs of sites.
func (l *Set) ImportJobs() *BySite[[]*model.ImportJob] {
	return loader(l, field{"importJobs", nil}, &l.sites,
		func(ctx context.Context, ids []model.SiteID) (map[model.SiteID][]*model.ImportJob, error) {
			return imports.New(l.db).JobsOfSites(ctx, ids)
		})
}

// ReportViews returns the loader of what a user has chosen for the reports of sites.
func (l *Set) ReportViews(userID model.UserID) *BySite[*model.ReportView] {
	return loader(l, field{"reportViews", userID}, &l.sites,
		func(ctx context.Context, ids []model.SiteID) (map[model.SiteID]*model.ReportView, error) {
			return l.store.Sites.ReportViewsOfSites(ctx, userID, ids)
		})
}

// HiddenNotices returns the loader of the notices of sites' pages that a user has hidden.
func (l *Set) HiddenNotices(userID model.UserID) *BySite[*model.HiddenNotices] {
	return loader(l, field{"hiddenNotices", userID}, &l.sites,
		func(ctx context.Context, ids []model.SiteID) (map[model.SiteID]*model.HiddenNotices, error) {
			return l.store.Sites.HiddenNoticesOfSites(ctx, userID, ids)
		})
}

// Verifications returns the loader of the verifications of sitekeys by month, since from.
func (l *Set) Verifications(from model.Month) *Loader[model.SitekeyID, map[model.Month]int64] {
	return loader(l, field{"verifications", from}, &l.sitekeys,
		func(ctx context.Context, ids []model.SitekeyID) (map[model.SitekeyID]map[model.Month]int64, error) {
			return ingest.New(l.db).CaptchaVerifications(ctx, ids, from)
		})
}

// Activity returns the loader of what happened with sitekeys, since from.
func (l *Set) Activity(from model.Day) *Loader[model.SitekeyID, []*model.CaptchaActivity] {
	return loader(l, field{"activity", from}, &l.sitekeys,
		func(ctx context.Context, ids []model.SitekeyID) (map[model.SitekeyID][]*model.CaptchaActivity, error) {
			return ingest.New(l.db).CaptchaActivity(ctx, ids, from)
		})
}
