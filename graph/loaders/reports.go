package loaders

import (
	"context"
	"slices"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/alerts"
	"github.com/tallygate/tallygate/db/imports"
	"github.com/tallygate/tallygate/db/ingest"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/outbox"
	"github.com/tallygate/tallygate/db/sites"
)

// reports are the loaders of what is stored for the reports of sites, of usage, and of sitekeys.
type reports struct {
	Segments        *BySite[[]*model.Segment]
	Funnels         *BySite[[]*model.Funnel]
	SharedLinks     *BySite[[]*model.SharedLink]
	SiteChannels    *BySite[[]*model.AlertChannel]
	AccountChannels *Loader[model.AccountID, []*model.AlertChannel]
	AlertAttempts   *Loader[int64, []*model.DeliveryAttempt]
	Imports         *BySite[[]*model.ReportImport]
	ImportJobs      *BySite[[]*model.ImportJob]
	Annotated       *BySite[int]                             // number of annotations
	LinkSegments    *Loader[model.SegmentID, *model.Segment] // of shared links, by the segment's number

	db          *db.DB
	linked      []model.SegmentID // segments of shared links
	sitekeys    []model.SitekeyID
	channels    []int64 // alert channels
	messages    []int64 // messages of alert channels
	byChannel   map[db.Page]*Loader[int64, []*model.AlertMessage]
	annotations map[sites.AnnotationPage]*BySite[[]*model.Annotation]
	history     map[model.Month]*BySite[map[model.Month]int64]
	byDay       map[model.Day]*BySite[map[model.Day]int64]
	unknown     map[model.Day]*BySite[[]ingest.UnknownEvent]
	own         map[model.UserID]*BySite[*model.AlertChannel]  // by user
	views       map[model.UserID]*BySite[*model.ReportView]    // by user
	hidden      map[model.UserID]*BySite[*model.HiddenNotices] // by user
	verified    map[model.Month]*Loader[model.SitekeyID, map[model.Month]int64]
	activity    map[model.Day]*Loader[model.SitekeyID, []*model.CaptchaActivity]
}

func newReports(l *Set, d *db.DB) reports {
	store := sites.New(d)
	r := reports{
		db:        d,
		Segments:  newLoader(l, store.Objects.SegmentsOfSites),
		Funnels:   newLoader(l, store.Objects.FunnelsOfSites),
		Annotated: newLoader(l, store.Objects.AnnotationCounts),
	}

	// A store of imports is made when a request asks for them.
	r.SiteChannels = newLoader(l, func(ctx context.Context, ids []model.SiteID) (map[model.SiteID][]*model.AlertChannel, error) {
		bySite, err := alerts.NewChannels(d).OfSites(ctx, ids)
		expectChannels(l, bySite)
		return bySite, err
	})
	r.AccountChannels = &Loader[model.AccountID, []*model.AlertChannel]{
		load: func(ctx context.Context, ids []model.AccountID) (map[model.AccountID][]*model.AlertChannel, error) {
			byAccount, err := alerts.NewChannels(d).OfAccounts(ctx, ids)
			expectChannels(l, byAccount)
			return byAccount, err
		},
		expected: func() []model.AccountID { return nil }, found: make(map[model.AccountID][]*model.AlertChannel),
	}
	r.AlertAttempts = &Loader[int64, []*model.DeliveryAttempt]{
		load: func(ctx context.Context, ids []int64) (map[int64][]*model.DeliveryAttempt, error) {
			return outbox.New(d).MessageAttempts(ctx, ids)
		},
		expected: func() []int64 { return l.channelIDs(&l.reports.messages) }, found: make(map[int64][]*model.DeliveryAttempt),
	}
	r.Imports = newLoader(l, func(ctx context.Context, ids []model.SiteID) (map[model.SiteID][]*model.ReportImport, error) {
		return imports.New(d).ImportsOfSites(ctx, ids)
	})
	r.ImportJobs = newLoader(l, func(ctx context.Context, ids []model.SiteID) (map[model.SiteID][]*model.ImportJob, error) {
		return imports.New(d).JobsOfSites(ctx, ids)
	})

	// Links announce their segments, which are then read at once.
	r.SharedLinks = newLoader(l, func(ctx context.Context, ids []model.SiteID) (map[model.SiteID][]*model.SharedLink, error) {
		bySite, err := store.Objects.SharedLinksOfSites(ctx, ids)
		for _, links := range bySite {
			l.expectSegments(links)
		}
		return bySite, err
	})
	r.LinkSegments = &Loader[model.SegmentID, *model.Segment]{
		load: store.Objects.SegmentsByID, expected: l.segmentIDs, found: make(map[model.SegmentID]*model.Segment),
	}
	return r
}

// expectChannels announces the alert channels of lists.
func expectChannels[OwnerID ~int64](l *Set, lists map[OwnerID][]*model.AlertChannel) {
	for _, channels := range lists {
		for _, channel := range channels {
			l.expectChannel(channel)
		}
	}
}

func (l *Set) expectChannel(channel *model.AlertChannel) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.reports.channels = append(l.reports.channels, channel.ID)
}

// channelIDs returns a copy of the announced channels or messages.
func (l *Set) channelIDs(ids *[]int64) []int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(*ids)
}

// AlertMessages returns the loader of a page of the messages of alert channels.
func (l *Set) AlertMessages(page db.Page) *Loader[int64, []*model.AlertMessage] {
	l.mu.Lock()
	defer l.mu.Unlock()

	if l.reports.byChannel[page] == nil {
		if l.reports.byChannel == nil {
			l.reports.byChannel = make(map[db.Page]*Loader[int64, []*model.AlertMessage])
		}
		l.reports.byChannel[page] = &Loader[int64, []*model.AlertMessage]{
			load: func(ctx context.Context, ids []int64) (map[int64][]*model.AlertMessage, error) {
				return l.loadMessages(ctx, ids, page)
			},
			expected: func() []int64 { return l.channelIDs(&l.reports.channels) },
			found:    make(map[int64][]*model.AlertMessage),
		}
	}
	return l.reports.byChannel[page]
}

// loadMessages reads messages of channels, and announces them for the loader of their attempts.
func (l *Set) loadMessages(ctx context.Context, ids []int64, page db.Page) (map[int64][]*model.AlertMessage, error) {
	byChannel, err := alerts.NewChannels(l.reports.db).Messages(ctx, ids, page)

	l.mu.Lock()
	defer l.mu.Unlock()
	for _, messages := range byChannel {
		for _, message := range messages {
			l.reports.messages = append(l.reports.messages, message.ID)
		}
	}
	return byChannel, err
}

// ExpectSitekeys announces the sitekeys of a list.
func (l *Set) ExpectSitekeys(keys []*model.Sitekey) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, key := range keys {
		l.reports.sitekeys = append(l.reports.sitekeys, key.ID)
	}
}

func (l *Set) sitekeyIDs() []model.SitekeyID {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.reports.sitekeys)
}

// expectSegments announces the segments of shared links.
func (l *Set) expectSegments(links []*model.SharedLink) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, link := range links {
		if link.SegmentID != 0 {
			l.reports.linked = append(l.reports.linked, link.SegmentID)
		}
	}
}

func (l *Set) segmentIDs() []model.SegmentID {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.reports.linked)
}

// Annotations returns the loader of a page of annotations.
func (l *Set) Annotations(page sites.AnnotationPage) *BySite[[]*model.Annotation] {
	return made(l, &l.reports.annotations, page, l.siteIDs,
		func(ctx context.Context, ids []model.SiteID) (map[model.SiteID][]*model.Annotation, error) {
			return sites.New(l.db).Objects.AnnotationsOfSites(ctx, ids, page)
		})
}

// UsageHistory returns the loader of the usage of sites by month, since from.
func (l *Set) UsageHistory(from model.Month) *BySite[map[model.Month]int64] {
	return made(l, &l.reports.history, from, l.siteIDs,
		func(ctx context.Context, ids []model.SiteID) (map[model.SiteID]map[model.Month]int64, error) {
			return sites.New(l.db).Usage.UsageHistory(ctx, ids, from)
		})
}

// UsageByDay returns the loader of the usage of sites by day, since from.
func (l *Set) UsageByDay(from model.Day) *BySite[map[model.Day]int64] {
	return made(l, &l.reports.byDay, from, l.siteIDs,
		func(ctx context.Context, ids []model.SiteID) (map[model.SiteID]map[model.Day]int64, error) {
			return sites.New(l.db).Usage.UsageByDay(ctx, ids, from)
		})
}

// UnknownEvents returns the loader of the unknown events of sites, since from.
func (l *Set) UnknownEvents(from model.Day) *BySite[[]ingest.UnknownEvent] {
	return made(l, &l.reports.unknown, from, l.siteIDs,
		func(ctx context.Context, ids []model.SiteID) (map[model.SiteID][]ingest.UnknownEvent, error) {
			return ingest.New(l.db).UnknownEventsOfSites(ctx, ids, from)
		})
}

// OwnChannels returns the loader of a user's own alert channels of sites.
func (l *Set) OwnChannels(user *model.User) *BySite[*model.AlertChannel] {
	return made(l, &l.reports.own, user.ID, l.siteIDs,
		func(ctx context.Context, ids []model.SiteID) (map[model.SiteID]*model.AlertChannel, error) {
			bySite, err := alerts.NewChannels(l.db).OwnOfSites(ctx, user, ids)
			for _, channel := range bySite {
				l.expectChannel(channel)
			}
			return bySite, err
		})
}

// ReportViews returns the loader of what a user has chosen for the reports of sites.
func (l *Set) ReportViews(userID model.UserID) *BySite[*model.ReportView] {
	return made(l, &l.reports.views, userID, l.siteIDs,
		func(ctx context.Context, ids []model.SiteID) (map[model.SiteID]*model.ReportView, error) {
			return sites.New(l.db).Sites.ReportViewsOfSites(ctx, userID, ids)
		})
}

// HiddenNotices returns the loader of the notices of sites' pages that a user has hidden.
func (l *Set) HiddenNotices(userID model.UserID) *BySite[*model.HiddenNotices] {
	return made(l, &l.reports.hidden, userID, l.siteIDs,
		func(ctx context.Context, ids []model.SiteID) (map[model.SiteID]*model.HiddenNotices, error) {
			return sites.New(l.db).Sites.HiddenNoticesOfSites(ctx, userID, ids)
		})
}

// Verifications returns the loader of the verifications of sitekeys by month, since from.
func (l *Set) Verifications(from model.Month) *Loader[model.SitekeyID, map[model.Month]int64] {
	return made(l, &l.reports.verified, from, l.sitekeyIDs,
		func(ctx context.Context, ids []model.SitekeyID) (map[model.SitekeyID]map[model.Month]int64, error) {
			return ingest.New(l.db).CaptchaVerifications(ctx, ids, from)
		})
}

// Activity returns the loader of what happened with sitekeys, since from.
func (l *Set) Activity(from model.Day) *Loader[model.SitekeyID, []*model.CaptchaActivity] {
	return made(l, &l.reports.activity, from, l.sitekeyIDs,
		func(ctx context.Context, ids []model.SitekeyID) (map[model.SitekeyID][]*model.CaptchaActivity, error) {
			return ingest.New(l.db).CaptchaActivity(ctx, ids, from)
		})
}

// made returns the loader for an argument of a field, which it makes once.
func made[Arg comparable, ID ~int64, V any](
	l *Set, byArg *map[Arg]*Loader[ID, V], arg Arg, expected func() []ID,
	load func(context.Context, []ID) (map[ID]V, error),
) *Loader[ID, V] {
	l.mu.Lock()
	defer l.mu.Unlock()

	if (*byArg)[arg] == nil {
		if *byArg == nil {
			*byArg = make(map[Arg]*Loader[ID, V])
		}
		(*byArg)[arg] = &Loader[ID, V]{load: load, expected: expected, found: make(map[ID]V)}
	}

	return (*byArg)[arg]
}
