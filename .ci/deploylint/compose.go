package main

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/compose-spec/compose-go/v2/cli"
	"github.com/compose-spec/compose-go/v2/types"
)

// compose loads each file as "docker compose config" does, and checks the addresses in its network.
func compose(deploy string) error {
	files, err := filepath.Glob(filepath.Join(deploy, "compose", "*.yaml"))
	if err != nil || len(files) == 0 {
		return fmt.Errorf("no Compose files: %w", err)
	}
	project, err := withSettings(deploy)
	if err != nil {
		return err
	}
	defer os.RemoveAll(project)

	for _, file := range files {
		options, err := cli.NewProjectOptions([]string{file}, cli.WithWorkingDirectory(project), cli.WithEnv([]string{
			"APP_HOST=app.example.com", "STATS_HOST=stats.example.com", "SECRET=s", "POSTGRES_PASSWORD=p",
		}), cli.WithProfiles([]string{"*"}))
		if err != nil {
			return err
		}
		loaded, err := options.LoadProject(context.Background())
		if err == nil && len(loaded.Services) == 0 {
			err = errors.New("no services")
		}
		if err == nil {
			err = network(loaded)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
	}

	return nil
}

// withSettings returns a folder with the example of settings, to which one is added, as .env.
func withSettings(deploy string) (folder string, err error) {
	example, err := os.ReadFile(filepath.Join(deploy, "compose", "env.example"))
	if err != nil {
		return "", err
	}
	if folder, err = os.MkdirTemp("", "deploylint-"); err != nil {
		return "", err
	}
	return folder, os.WriteFile(filepath.Join(folder, ".env"), append(example, "TALLYGATE_ACCESS_LOG=true\n"...), 0o600)
}

// network checks that the default network carries IPv4 and IPv6, so that Docker passes the
// addresses of all visitors on, and that the service trusts Caddy and the gateways alone.
func network(project *types.Project) error {
	own := project.Networks["default"]
	if own.EnableIPv6 == nil || !*own.EnableIPv6 {
		return errors.New("the default network has no enable_ipv6")
	}

	caddy, joined := project.Services["caddy"].Networks["default"]
	if !joined || caddy == nil {
		return errors.New("caddy has no address of its own in the default network")
	}

	var want []string
	for i, address := range []string{caddy.Ipv4Address, caddy.Ipv6Address} {
		if i >= len(own.Ipam.Config) {
			return fmt.Errorf("the default network has %d subnets", len(own.Ipam.Config))
		}
		pool := own.Ipam.Config[i]
		if err := reserved(pool, address, pool.Gateway); err != nil {
			return err
		}
		want = append(want, pool.Gateway, address)
	}

	for name, service := range project.Services {
		trusted := service.Environment["TALLYGATE_TRUSTED_PROXIES"]
		if service.Image == "tallygate" && (trusted == nil || *trusted != strings.Join(want, ",")) {
			return fmt.Errorf("service %s does not trust exactly %v", name, want)
		}
		if added := service.Environment["TALLYGATE_ACCESS_LOG"]; service.Image == "tallygate" && (added == nil || *added != "true") {
			return fmt.Errorf("service %s does not get the settings of .env", name)
		}
	}
	return nil
}

// reserved checks that addresses are in a subnet, and that Docker gives them to no other container.
func reserved(pool *types.IPAMPool, addresses ...string) error {
	subnet, err := netip.ParsePrefix(pool.Subnet)
	if err != nil {
		return err
	}
	dynamic, err := netip.ParsePrefix(pool.IPRange)
	if err != nil {
		return err
	}
	if subnet != subnet.Masked() || dynamic != dynamic.Masked() || !subnet.Overlaps(dynamic) || dynamic.Bits() <= subnet.Bits() {
		return fmt.Errorf("%v is no range of %v", dynamic, subnet)
	}

	var seen []netip.Addr
	for _, text := range addresses {
		address, err := netip.ParseAddr(text)
		if err != nil {
			return err
		}
		if !subnet.Contains(address) || dynamic.Contains(address) || slices.Contains(seen, address) {
			return fmt.Errorf("%v is not reserved in %v", address, subnet)
		}
		seen = append(seen, address)
	}
	return nil
}
