package serve

import "github.com/tallygate/tallygate/cmd/tallygate/config"

// warnOfWideProxies logs the networks of trusted proxies that probably contain clients.
func (a *App) warnOfWideProxies() {
	if !a.config.Has(config.RoleControl) && !a.config.Has(config.RoleData) {
		return // no client connects to a worker
	}

	for _, network := range a.config.TrustedProxies {
		if network.IsWide() {
			a.log.Warn("TALLYGATE_TRUSTED_PROXIES names a network that is wider than the proxies of one installation need: "+
				"clients in it can claim any address, and no limit by network applies to them", "network", network.String())
		}
	}
}
