package celllist

import "slices"

// SiteTables are the tables of each cell with rows of sites, apart from their partitions.
var SiteTables = []string{
	"pageviews", "events", "engagement", "visits", "transactions", "delivery_attempts", "deliveries",
	"site_usage", "site_usage_days", "report_days", "report_segments",
}

// Tables are the tables that each cell has, apart from their partitions.
var Tables = slices.Concat(SiteTables, []string{"captcha_usage", "captcha_spent", "detached_partitions"})

// HasTable reports whether each cell has a table of the name. All other tables are common.
func HasTable(name string) bool { return slices.Contains(Tables, name) }
