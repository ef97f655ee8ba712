package model

// Products that have a monthly quota.
const (
	ProductAnalytics = "analytics"
	ProductCaptcha   = "captcha"
)

// QuotaThresholds are the percentages of a quota at which owners are notified, once a month each.
var QuotaThresholds = []int{80, 100}
