package model

// Products that have a monthly quota.
const (
	ProductAnalytics = "analytics"
	ProductCaptcha   = "captcha"
)

// QuotaThresholds are the parts of a quota, in percent, at which owners are told, once a month
// each.
var QuotaThresholds = []int{80, 100}
