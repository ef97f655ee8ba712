package serve

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tallygate/tallygate/cmd/tallygate/config"
	"github.com/tallygate/tallygate/dataplane/operatorfile"
)

// OperatorFiles are the files of the operator that the data role reads. A file that is not
// configured is nil.
type OperatorFiles struct {
	countries *operatorfile.File[*operatorfile.Countries]
	spam      *operatorfile.File[*operatorfile.Domains]
	networks  *operatorfile.File[*operatorfile.Networks]
	all       []operatorFile // the configured ones
}

// operatorFile is a file, whatever its value.
type operatorFile interface {
	Check()
	State() operatorfile.State
}

// OpenOperatorFiles reads the files of a process with the data role, before a start writes
// anything. Without the role it opens none.
func OpenOperatorFiles(c *config.Config, log *slog.Logger) (files OperatorFiles, err error) {
	if !c.Has(config.RoleData) {
		return files, nil
	}

	if files.countries, err = openFile(&files, operatorfile.OpenCountries, geoFile, c.GeoFile, log); err != nil {
		return files, err
	}
	if files.spam, err = openFile(&files, operatorfile.OpenDomains, referrerSpamFile, c.ReferrerSpamFile, log); err != nil {
		return files, err
	}
	if files.networks, err = openFile(&files, operatorfile.OpenNetworks, dataCentreFile, c.DataCentreFile, log); err != nil {
		return files, err
	}
	return files, nil
}

// fileSetting names a setting as a flag and as a variable.
type fileSetting struct{ flag, variable string }

var (
	geoFile          = fileSetting{"--geo-file", "TALLYGATE_GEO_FILE"}
	referrerSpamFile = fileSetting{"--referrer-spam-file", "TALLYGATE_REFERRER_SPAM_FILE"}
	dataCentreFile   = fileSetting{"--data-centre-file", "TALLYGATE_DATA_CENTRE_FILE"}
)

// openFile opens the file of a setting and adds it to files. Without a path it returns nil. Its
// error begins with the flag, as errors of other settings do.
func openFile[T any](files *OperatorFiles, open func(operatorfile.Source) (*operatorfile.File[T], error), setting fileSetting,
	path string, log *slog.Logger) (*operatorfile.File[T], error) {
	if path == "" {
		return nil, nil
	}

	file, err := open(operatorfile.Source{Setting: setting.variable, Path: path, Now: time.Now, Log: log})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", setting.flag, err)
	}

	files.all = append(files.all, file)
	return file, nil
}

// watch reads changed files again until ctx ends. Hits that are served meanwhile use the values
// before.
func (f *OperatorFiles) watch(ctx context.Context) {
	if len(f.all) == 0 {
		return
	}

	ticker := time.NewTicker(operatorfile.CheckEvery)
	defer ticker.Stop()

	watched := make([]operatorfile.Watched, len(f.all))
	for i, file := range f.all {
		watched[i] = file
	}
	operatorfile.Watch(ctx, ticker.C, watched...)
}

// country returns analytics.Options.Country; nil without the file.
func (f *OperatorFiles) country() func(netip.Addr) string {
	if f.countries == nil {
		return nil
	}
	return func(addr netip.Addr) string { return f.countries.Value().Country(addr) }
}

// isSpam returns analytics.Options.IsSpam; nil without the file.
func (f *OperatorFiles) isSpam() func(string) bool {
	if f.spam == nil {
		return nil
	}
	return func(host string) bool { return f.spam.Value().Contains(host) }
}

// isDataCentre returns analytics.Options.IsDataCentre; nil without the file.
func (f *OperatorFiles) isDataCentre() func(netip.Addr) bool {
	if f.networks == nil {
		return nil
	}
	return func(addr netip.Addr) bool { return f.networks.Value().Contains(addr) }
}

// states returns the states of the configured files.
func (f *OperatorFiles) states() []operatorfile.State {
	states := make([]operatorfile.State, len(f.all))
	for i, file := range f.all {
		states[i] = file.State()
	}
	return states
}

// reloadWarning returns the warning of /readyz about a file; "" if the newest file is in use.
// /readyz may be public, so the reason and the path are in the log only.
func reloadWarning(s operatorfile.State) string {
	if s.Err == nil {
		return ""
	}
	return fmt.Sprintf("the changed file of %s is not valid, and the data of %s stays in use; the log has the reason", s.Setting,
		s.Built.UTC().Format(time.DateOnly))
}

var (
	fileAgeDesc = prometheus.NewDesc("tallygate_operator_file_age_seconds",
		"Age of the data of a file of the operator that is in use, by the file's setting: since a database of countries was built, "+
			"or a list was modified.", []string{"setting"}, nil)
	fileFailedDesc = prometheus.NewDesc("tallygate_operator_file_reload_failed",
		"1 while the newest file of the setting is not valid, so that older data is in use; else 0.", []string{"setting"}, nil)
)

// fileCollector describes the operator's files when it is scraped.
type fileCollector struct{ files *OperatorFiles }

// Describe implements prometheus.Collector.
func (fileCollector) Describe(out chan<- *prometheus.Desc) { out <- fileAgeDesc; out <- fileFailedDesc }

// Collect implements prometheus.Collector.
func (c fileCollector) Collect(out chan<- prometheus.Metric) {
	for _, s := range c.files.states() {
		failed := 0.0
		if s.Err != nil {
			failed = 1
		}
		out <- prometheus.MustNewConstMetric(fileAgeDesc, prometheus.GaugeValue, s.Age(time.Now()).Seconds(), s.Setting)
		out <- prometheus.MustNewConstMetric(fileFailedDesc, prometheus.GaugeValue, failed, s.Setting)
	}
}
