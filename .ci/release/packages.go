package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/goreleaser/nfpm/v2"
	_ "github.com/goreleaser/nfpm/v2/deb"
	"github.com/goreleaser/nfpm/v2/files"
	_ "github.com/goreleaser/nfpm/v2/rpm"
)

// packages writes the packages of Debian and RPM for each program for Linux.
func (r *release) packages() error {
	// nFPM reads files.
	work, err := os.MkdirTemp("", "tallygate-packages-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)

	for _, name := range units {
		unit, err := r.packagedUnit(name)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(work, name), []byte(unit), 0o644); err != nil {
			return err
		}
	}
	for _, file := range r.files {
		if err := os.WriteFile(filepath.Join(work, file.name), file.data, 0o644); err != nil {
			return err
		}
	}

	for _, t := range targets {
		if t.os != "linux" || r.programs[t] == "" {
			continue
		}
		for _, format := range []string{"deb", "rpm"} {
			if err := r.writePackage(format, r.packageInfo(t, work)); err != nil {
				return fmt.Errorf("%s of %s: %w", format, t.arch, err)
			}
		}
	}

	return nil
}

// units are the files of deploy/systemd that systemd reads.
var units = []string{"tallygate.service", "tallygate-backup.service", "tallygate-backup.timer"}

// packagedUnit returns deploy's unit for a program in /usr/bin and for a user that the package
// creates. With a dynamic user, only the service could reach its folder, and admin commands could
// not.
func (r *release) packagedUnit(name string) (string, error) {
	text, err := os.ReadFile(filepath.Join(r.root, "deploy/systemd", name))
	if err != nil {
		return "", err
	}

	_, unit, found := strings.Cut(string(text), "[Unit]\n")
	if strings.HasSuffix(name, ".service") {
		found = found && strings.Contains(unit, "\nDynamicUser=yes\n") && strings.Contains(unit, "ExecStart=/usr/local/bin/tallygate ")
	}
	if !found {
		return "", fmt.Errorf("deploy/systemd/%s is not as this program expects it", name)
	}

	return "# With the settings in /etc/tallygate/tallygate.env. \"tallygate-admin\" runs admin commands with the same user,\n" +
		"# settings and folder.\n\n[Unit]\n" + strings.NewReplacer(
		"/usr/local/bin/", "/usr/bin/",
		"# The user exists while the service runs; the folder stays, with mode 0700.\n", "# The package creates the user; the folder has mode 0700.\n",
		"DynamicUser=yes\n", "",
	).Replace(unit), nil
}

func (r *release) packageInfo(t target, work string) *nfpm.Info {
	file := func(source, destination string, mode os.FileMode) *files.Content {
		if !filepath.IsAbs(source) {
			source = filepath.Join(r.root, "deploy", source)
		}
		return &files.Content{
			Source: source, Destination: destination,
			FileInfo: &files.ContentFileInfo{Owner: "root", Group: "root", Mode: mode, MTime: r.time},
		}
	}
	settings := file("systemd/tallygate.env", "/etc/tallygate/tallygate.env", 0o600)
	settings.Type = files.TypeConfigNoReplace

	info := &nfpm.Info{
		Name: "tallygate", Platform: "linux", Arch: t.arch, Version: r.version, VersionSchema: "semver", Release: "1",
		Maintainer: r.maintainer, License: r.licence, Section: "web", Priority: "optional", MTime: r.time, DisableGlobbing: true,
		Description: "web analytics and captcha without cookies\n" +
			"Cookieless web analytics and an invisible proof-of-work captcha for the\nsites of one or many owners, in one program.",
	}
	info.Contents = files.Contents{
		file(r.programs[t], "/usr/bin/tallygate", 0o755),
		file("packages/tallygate-admin", "/usr/bin/tallygate-admin", 0o755),
		file("proxies/nginx.conf", "/usr/share/tallygate/nginx.conf", 0o644),
		settings,
	}
	for _, unit := range units {
		info.Contents = append(info.Contents, file(filepath.Join(work, unit), "/usr/lib/systemd/system/"+unit, 0o644))
	}
	for _, document := range r.files {
		info.Contents = append(info.Contents, file(filepath.Join(work, document.name), "/usr/share/doc/tallygate/"+document.name, 0o644))
	}

	scripts := filepath.Join(r.root, "deploy/packages")
	info.Scripts = nfpm.Scripts{
		PostInstall: filepath.Join(scripts, "postinstall"), PreRemove: filepath.Join(scripts, "preremove"),
		PostRemove: filepath.Join(scripts, "postremove"),
	}
	info.Deb.Compression = "xz"
	info.RPM.Compression = "xz"
	info.RPM.BuildHost = "localhost"
	return info
}

// writePackage writes a package under its format's own form of name.
func (r *release) writePackage(format string, info *nfpm.Info) error {
	packager, err := nfpm.Get(format)
	if err != nil {
		return err
	}

	// Distributions of RPM name packages differently, but not files.
	info.Depends = []string{"ca-certificates", "passwd"}
	if format == "rpm" {
		info.Depends = []string{"ca-certificates", "/usr/sbin/useradd", "/usr/bin/setpriv"}
	}

	info = nfpm.WithDefaults(info)
	if err := nfpm.PrepareForPackager(info, format); err != nil {
		return err
	}
	file, err := os.Create(filepath.Join(r.out, packager.ConventionalFileName(info)))
	if err != nil {
		return err
	}
	return errors.Join(packager.Package(info, file), file.Close())
}
