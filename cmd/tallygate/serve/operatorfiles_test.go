package serve

import (
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/tallygate/tallygate/cmd/tallygate/config"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/tools/countrytest"
	"github.com/tallygate/tallygate/tools/testkit"
)

// TestOperatorFiles checks the functions that the data plane gets, without files and with each of
// them, and what the control plane is shown of the countries.
func TestOperatorFiles(t *testing.T) {
	built := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	write := func(name string, content []byte) string {
		path := filepath.Join(t.TempDir(), name)
		testkit.NoError(t, os.WriteFile(path, content, 0o600))
		return path
	}
	c := &config.Config{
		Roles:            []config.Role{config.RoleData},
		GeoFile:          write("country.mmdb", countrytest.Countries(t, built, map[string]string{"198.51.100.0/24": "DE"})),
		ReferrerSpamFile: write("spam.txt", []byte("spam.example\n")),
		DataCentreFile:   write("networks.txt", []byte("192.0.2.0/24\n")),
	}

	open := func(c *config.Config) *App {
		files, err := OpenOperatorFiles(c, slog.New(slog.DiscardHandler))
		testkit.NoError(t, err)
		return &App{config: c, files: files}
	}

	for name, c := range map[string]*config.Config{
		"no files":     {Roles: []config.Role{config.RoleData}},
		"no data role": {Roles: []config.Role{config.RoleControl}, GeoFile: "/nowhere.mmdb", DataCentreFile: "/nowhere.txt"},
		"three files":  c,
	} {
		a := open(c)
		has := c.ReferrerSpamFile != ""
		if (a.files.country() != nil) != has || (a.files.isSpam() != nil) != has || (a.files.isDataCentre() != nil) != has ||
			(len(a.files.states()) == 3) != has {
			t.Errorf("%s: %+v", name, a.files)
		}

		shown := a.configuration()
		if wantShields := len(model.Shields); shown.Countries != (c.GeoFile != "") || has && len(shown.Shields) != wantShields ||
			name == "no files" && len(shown.Shields) != 0 {
			t.Errorf("%s: the control plane shows countries: %v, shields: %v", name, shown.Countries, shown.Shields)
		}
	}

	files := open(c).files
	testkit.Equal(t, files.country()(netip.MustParseAddr("198.51.100.7")), "DE", "the country")
	if isSpam := files.isSpam(); !isSpam("www.spam.example") || isSpam("example.org") {
		t.Error("the list of spam is not used")
	}
	if isDataCentre := files.isDataCentre(); !isDataCentre(netip.MustParseAddr("192.0.2.1")) ||
		isDataCentre(netip.MustParseAddr("198.51.100.7")) {
		t.Error("the list of data centres is not used")
	}
}
