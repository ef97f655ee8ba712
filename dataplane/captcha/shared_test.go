package captcha_test

import (
	"encoding/json"
	"net/http"
	"testing"
	"time"

	"github.com/tallygate/tallygate/dataplane/captcha"
	"github.com/tallygate/tallygate/dataplane/captcha/pow"
	"github.com/tallygate/tallygate/db/dbtest"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/web"
)

// TestNoPressureBehindAnUnknownProxy: challenges for an address that many clients share are neither
// refused nor harder, however many there are.
func TestNoPressureBehindAnUnknownProxy(t *testing.T) {
	d := dbtest.Open(t, dbtest.SQLiteURL(t))
	p := newPlaneWith(t, d, &clock{now: noon}, captcha.StoreTimeout, func(o *captcha.Options) {
		clients := web.NewClients(nil, o.Log, time.Now)
		o.ClientAddr, o.IsShared = clients.Addr, clients.Shared
	})
	for i := range 400 {
		response, body := p.send(call{path: configPath, body: m{"sitekey": model.TestSitekey}, origin: siteOrigin})
		var c pow.Challenge
		if err := json.Unmarshal([]byte(body), &c); err != nil || response.StatusCode != http.StatusOK || c.Difficulty != difficulty {
			t.Fatalf("challenge %d: %d %s, want one of difficulty %d", i+1, response.StatusCode, body, difficulty)
		}
	}
}
