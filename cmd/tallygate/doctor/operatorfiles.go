package doctor

import (
	"context"
	"log/slog"
	"time"

	"github.com/tallygate/tallygate/cmd/tallygate/config"
	"github.com/tallygate/tallygate/dataplane/operatorfile"
)

// The ages from which the data of a file is reported as old. Networks move between countries every
// week, and providers publish a new database each month.
const (
	oldCountries = 60 * 24 * time.Hour
	oldList      = 180 * 24 * time.Hour
)

// checkFiles reads the operator's files as a data node does, and checks their age.
func (e *examination) checkFiles(context.Context) bool {
	if !e.c.Has(config.RoleData) {
		return false
	}

	isConfigured := false
	for _, f := range []struct {
		check, setting, path, update string
		open                         func(operatorfile.Source) (operatorfile.State, error)
		old                          time.Duration
	}{
		{"geo-file", "TALLYGATE_GEO_FILE", e.c.GeoFile, "Download the newest country database and rename it into place.",
			stateOf(operatorfile.OpenCountries), oldCountries},
		{"referrer-spam-file", "TALLYGATE_REFERRER_SPAM_FILE", e.c.ReferrerSpamFile, "Get the newest list and rename it into place.",
			stateOf(operatorfile.OpenDomains), oldList},
		{"data-centre-file", "TALLYGATE_DATA_CENTRE_FILE", e.c.DataCentreFile, "Get the newest list and rename it into place.",
			stateOf(operatorfile.OpenNetworks), oldList},
	} {
		if f.path == "" {
			continue
		}
		isConfigured = true

		source := operatorfile.Source{Setting: f.setting, Path: f.path, Now: e.Now, Log: slog.New(slog.DiscardHandler)}
		state, err := f.open(source)
		if err != nil {
			e.fault(f.check, "Correct the file or the setting "+f.setting+"; a data node does not start with it.",
				"the file of %s cannot be used: %v", f.setting, err)
			continue
		}

		if age := state.Age(e.Now()); age > f.old {
			e.warn(f.check+"-old", f.update+" See docs/operator/operations.md, Countries and lists.",
				"the data of %s is of %s, %d days old", f.setting, state.Built.UTC().Format(time.DateOnly), age/(24*time.Hour))
		}
	}
	return isConfigured
}

// stateOf returns a function that opens a file and returns its state.
func stateOf[T any](open func(operatorfile.Source) (*operatorfile.File[T], error)) func(operatorfile.Source) (operatorfile.State, error) {
	return func(s operatorfile.Source) (operatorfile.State, error) {
		file, err := open(s)
		if err != nil {
			return operatorfile.State{}, err
		}
		return file.State(), nil
	}
}
