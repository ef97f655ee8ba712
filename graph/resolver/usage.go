package resolver

import (
	"context"
	"fmt"
	"strconv"

	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/graph/generated"
	"github.com/tallygate/tallygate/graph/limits"
)

// Usage by month and day, what happened with a sitekey, and unknown events.

func (r *siteResolver) UsageHistory(
	ctx context.Context, obj *model.Site, months int,
) ([]*generated.MonthlyUsage, error) {
	from, err := firstMonth(ctx, months, limits.MaxMonths)
	if err != nil {
		return nil, err
	}
	used, err := requestOf(ctx).loaders().UsageHistory(from).Of(ctx, obj.ID)
	return usageByMonth(ctx, from, used), err
}

func (r *accountResolver) CaptchaUsageHistory(
	ctx context.Context, obj *model.Account, months int,
) ([]*generated.MonthlyUsage, error) {
	from, err := firstMonth(ctx, months, limits.MaxMonths)
	if err != nil {
		return nil, err
	}

	key := accountRead{field: "captchaUsageHistory", accountID: obj.ID, arguments: strconv.Itoa(months)}
	used, err := shared(ctx, key, func() (map[model.Month]int64, error) {
		return r.accounts.CaptchaUsageHistory(ctx, obj.ID, from)
	})
	return usageByMonth(ctx, from, used), err
}

func (r *sitekeyResolver) UsageHistory(
	ctx context.Context, obj *model.Sitekey, months int,
) ([]*generated.MonthlyUsage, error) {
	from, err := firstMonth(ctx, months, limits.MaxSitekeyMonths)
	if err != nil {
		return nil, err
	}
	used, err := requestOf(ctx).loaders().Verifications(from).Of(ctx, obj.ID)
	return usageByMonth(ctx, from, used), err
}

// firstMonth returns the first of a number of months that end with the current one.
func firstMonth(ctx context.Context, months, most int) (model.Month, error) {
	if months < 1 || months > most {
		return 0, invalidArgument("months", fmt.Sprintf("The argument months must be from 1 to %d.", most))
	}
	return model.At(requestOf(ctx).now.Month().Start().AddDate(0, 1-months, 0)).Month(), nil
}

// usageByMonth lists all months since from, newest first.
func usageByMonth(ctx context.Context, from model.Month, used map[model.Month]int64) []*generated.MonthlyUsage {
	list := []*generated.MonthlyUsage{}
	for month := requestOf(ctx).now.Month(); month >= from; month = model.At(month.Start().AddDate(0, -1, 0)).Month() {
		list = append(list, &generated.MonthlyUsage{Period: month.String(), Used: used[month]})
	}
	return list
}

// UsageByDay returns the counted days, and the current day as the rest of the month's usage.
func (r *siteResolver) UsageByDay(ctx context.Context, obj *model.Site, days int) ([]*generated.DailyUsage, error) {
	if err := checkDays(days); err != nil {
		return nil, err
	}

	request := requestOf(ctx)
	today := request.now.Day()
	from, monthStart := today-model.Day(days)+1, model.At(request.now.Month().Start()).Day()

	// The days of the month are needed for the current one.
	used, err := request.loaders().UsageByDay(min(from, monthStart)).Of(ctx, obj.ID)
	if err != nil {
		return nil, err
	}

	counted, err := shared(ctx, "usageDayCounted", func() (model.Day, error) { return r.usage.UsageDayCounted(ctx) })
	if err != nil {
		return nil, err
	}

	list := []*generated.DailyUsage{}
	if counted == today-1 {
		rest, err := request.loaders().Usage().Of(ctx, obj.ID)
		if err != nil {
			return nil, err
		}

		for day := monthStart; day < today; day++ {
			rest -= used[day]
		}
		if rest > 0 {
			list = append(list, &generated.DailyUsage{Day: today, Used: rest})
		}
	}

	for day := today - 1; day >= from; day-- {
		if used[day] > 0 {
			list = append(list, &generated.DailyUsage{Day: day, Used: used[day]})
		}
	}

	return list, nil
}

// unknownEventDays is the number of days that UnknownEvents counts.
const unknownEventDays = 30

func (r *siteResolver) UnknownEvents(ctx context.Context, obj *model.Site) ([]*generated.UnknownEvent, error) {
	request := requestOf(ctx)
	events, err := request.loaders().UnknownEvents(request.now.Day()-unknownEventDays+1).Of(ctx, obj.ID)
	list := make([]*generated.UnknownEvent, len(events))
	for i, event := range events {
		list[i] = &generated.UnknownEvent{Name: event.Name, Count: event.Count, LastDay: event.Last}
	}
	return list, err
}

func (r *sitekeyResolver) Activity(
	ctx context.Context, obj *model.Sitekey, days int,
) ([]*generated.SitekeyActivity, error) {
	activity, err := activityOf(ctx, obj, days)
	list := make([]*generated.SitekeyActivity, len(activity))
	for i, day := range activity {
		list[i] = &generated.SitekeyActivity{
			Day: day.Day, Challenges: day.Challenges, Automated: day.Automated, Solved: day.Solved, Renewed: day.Renewed,
			Verified: day.Verified, Unredeemed: day.Unredeemed(), Refusals: refusalsOf(day),
		}
		if day.MedianWork > 0 {
			ms := day.MedianWork.Milliseconds()
			list[i].MedianWorkMs = &ms
		}
	}
	return list, err
}

// activityOf returns what happened with a sitekey on the last days, newest first.
func activityOf(ctx context.Context, key *model.Sitekey, days int) ([]*model.CaptchaActivity, error) {
	if err := checkDays(days); err != nil {
		return nil, err
	}
	request := requestOf(ctx)
	return request.loaders().Activity(request.now.Day()-model.Day(days)+1).Of(ctx, key.ID)
}

func refusalsOf(day *model.CaptchaActivity) []*generated.SitekeyRefusal {
	list := make([]*generated.SitekeyRefusal, len(day.Refusals))
	for i, refused := range day.Refusals {
		list[i] = &generated.SitekeyRefusal{
			Endpoint: refused.Endpoint, Code: refused.Code, Count: refused.Count,
			Expected: model.IsCaptchaNoise(refused.Code), Advice: model.CaptchaAdvice(refused.Code),
		}
	}
	return list
}

func (r *sitekeyResolver) Notice(ctx context.Context, obj *model.Sitekey) (*string, error) {
	activity, err := activityOf(ctx, obj, noticeDays)
	if err != nil {
		return nil, err
	}

	var refused int64
	for _, day := range activity {
		for _, calls := range day.Refusals {
			if !model.IsCaptchaNoise(calls.Code) {
				refused += calls.Count
			}
		}
	}

	if refused == 0 {
		return nil, nil
	}

	calls := "1 call was"
	if refused > 1 {
		calls = fmt.Sprintf("%d calls were", refused)
	}

	return notZero(
		fmt.Sprintf("%s refused in the last %d days. See activity for reasons and advice.", calls, noticeDays),
	), nil
}
