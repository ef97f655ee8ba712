// Release builds everything that a release consists of, from the commit that is checked out and
// without a network service: programs, archives, packages, images, lists of parts, release notes
// and checksums. Two runs on one commit with one version of Go write equal bytes. It is a module of
// its own, because these libraries are no part of the program or its tests.
package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"
)

func main() {
	var o options
	flag.StringVar(&o.version, "version", "", "the version, such as v1.2.3")
	flag.StringVar(&o.out, "out", "", "the folder to write, relative to the repository; it is replaced")
	flag.StringVar(&o.maintainer, "maintainer", "Tallygate <maintainer@example.com>", "the maintainer that packages name")
	flag.StringVar(&o.licence, "licence", "NOASSERTION", "the SPDX identifier of the licence that packages name")
	flag.Parse()

	o.root = "../.."
	if err := run(o); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

type options struct {
	root, out           string
	version             string
	maintainer, licence string
}

// target is a platform that a program is built for.
type target struct{ os, arch string }

var targets = []target{{"linux", "amd64"}, {"linux", "arm64"}, {"darwin", "arm64"}, {"windows", "amd64"}}

// release is a release in progress.
type release struct {
	options
	commit   string
	time     time.Time         // the commit's: the time of every file
	programs map[target]string // paths
	files    []entry           // documents and licences, which every archive and package contains
}

// entry is a file of an archive; a folder if its name ends with a slash.
type entry struct {
	name  string
	mode  int64
	owner int
	data  []byte
}

// run writes the whole release.
func run(o options) error {
	work, err := os.MkdirTemp("", "tallygate-release-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)

	r, err := open(o)
	if err != nil {
		return err
	}
	if err := r.build(work, targets...); err != nil {
		return err
	}
	for _, step := range []func() error{r.archives, r.packages, func() error { return r.image(work) }, r.parts, r.notes} {
		if err := step(); err != nil {
			return err
		}
	}

	return r.sums()
}

var versionPattern = regexp.MustCompile(`^v\d+\.\d+\.\d+(-[0-9A-Za-z.]+)?$`)

// open reads the commit, and empties the output folder.
func open(o options) (*release, error) {
	if !versionPattern.MatchString(o.version) {
		return nil, fmt.Errorf("-version %q: want a version such as v1.2.3 or v1.2.3-rc.1", o.version)
	}

	r := &release{options: o, programs: map[target]string{}}
	root, err := filepath.Abs(o.root)
	if err != nil {
		return nil, err
	}
	r.root = root
	if !filepath.IsAbs(o.out) {
		r.out = filepath.Join(root, o.out)
	}

	// The stamped commit must contain what is built.
	changed, err := r.output("git", "status", "--porcelain")
	if err != nil {
		return nil, err
	}
	if changed != "" {
		return nil, fmt.Errorf("a release is built from a commit; commit or remove these files first:\n%s", changed)
	}

	if r.commit, err = r.output("git", "rev-parse", "HEAD"); err != nil {
		return nil, err
	}
	epoch, err := r.output("git", "log", "-1", "--format=%ct")
	if err != nil {
		return nil, err
	}
	if fixed := os.Getenv("SOURCE_DATE_EPOCH"); fixed != "" {
		epoch = fixed
	}
	seconds, err := strconv.ParseInt(epoch, 10, 64)
	if err != nil {
		return nil, fmt.Errorf("SOURCE_DATE_EPOCH: %w", err)
	}
	r.time = time.Unix(seconds, 0).UTC()

	return r, errors.Join(os.RemoveAll(r.out), os.MkdirAll(r.out, 0o755))
}

// number is the version as packages and file names have it.
func (r *release) number() string { return strings.TrimPrefix(r.version, "v") }

// output returns what a command prints, run at the repository's root.
func (r *release) output(name string, args ...string) (string, error) {
	cmd := exec.Command(name, args...)
	cmd.Dir = r.root
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		err = fmt.Errorf("%s %s: %w", name, strings.Join(args, " "), err)
	}
	return strings.TrimSpace(string(out)), err
}

// build compiles the programs into a folder, then collects the documents and licences.
func (r *release) build(folder string, targets ...target) error {
	const stamp = "github.com/tallygate/tallygate/cmd/tallygate/version"
	for _, t := range targets {
		program := filepath.Join(folder, t.os+"_"+t.arch, "tallygate")
		if t.os == "windows" {
			program += ".exe"
		}

		cmd := exec.Command("go", "build", "-buildvcs=false", "-trimpath", "-o", program,
			"-ldflags", fmt.Sprintf("-s -w -X %s.release=%s -X %s.commit=%s", stamp, r.version, stamp, r.commit), "./cmd/tallygate")
		cmd.Dir = r.root
		// Settings of this machine must not change the program.
		cmd.Env = append(os.Environ(), "GOOS="+t.os, "GOARCH="+t.arch, "CGO_ENABLED=0", "GOFLAGS=", "GOEXPERIMENT=", "GOWORK=off",
			"GOAMD64=v1", "GOARM64=v8.0")
		if text, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("build for %s/%s: %w\n%s", t.os, t.arch, err, text)
		}
		r.programs[t] = program
	}

	return r.readDocuments()
}

// readDocuments reads the documents of the repository's root and the licences of all parts.
func (r *release) readDocuments() error {
	r.files = nil
	for _, pattern := range []string{"LICEN[CS]E*", "NOTICE*", "README.md", "CHANGELOG.md", "SECURITY.md", "THIRD_PARTY.md"} {
		names, err := filepath.Glob(filepath.Join(r.root, pattern))
		if err != nil {
			return err
		}
		for _, name := range names {
			data, err := os.ReadFile(name)
			if err != nil {
				return err
			}
			r.files = append(r.files, entry{name: filepath.Base(name), mode: 0o644, data: data})
		}
	}

	texts, err := r.licences()
	r.files = append(r.files, entry{name: "THIRD_PARTY_LICENCES.txt", mode: 0o644, data: texts})
	return err
}

// archives writes an archive of each program with the documents and, for Linux, the systemd unit.
func (r *release) archives() error {
	for t, program := range r.programs {
		data, err := os.ReadFile(program)
		if err != nil {
			return err
		}

		name := fmt.Sprintf("tallygate_%s_%s_%s", r.number(), t.os, t.arch)
		entries := []entry{{name: name + "/", mode: 0o755}, {name: name + "/" + filepath.Base(program), mode: 0o755, data: data}}
		for _, file := range r.files {
			entries = append(entries, entry{name: name + "/" + file.name, mode: file.mode, data: file.data})
		}
		if t.os == "linux" {
			entries = append(entries, entry{name: name + "/systemd/", mode: 0o755})
			for _, unit := range append([]string{"tallygate.env"}, units...) {
				data, err := os.ReadFile(filepath.Join(r.root, "deploy/systemd", unit))
				if err != nil {
					return err
				}
				entries = append(entries, entry{name: name + "/systemd/" + unit, mode: 0o644, data: data})
			}
		}

		write, ending := r.writeTarGz, ".tar.gz"
		if t.os == "windows" {
			write, ending = r.writeZip, ".zip"
		}
		var b bytes.Buffer
		if err := write(&b, entries); err != nil {
			return err
		}
		if err := r.write(name+ending, b.Bytes()); err != nil {
			return err
		}
	}
	return nil
}

func (r *release) write(name string, data []byte) error {
	return os.WriteFile(filepath.Join(r.out, name), data, 0o644)
}

func (r *release) writeTarGz(w io.Writer, entries []entry) error {
	z, err := gzip.NewWriterLevel(w, gzip.BestCompression)
	if err != nil {
		return err
	}
	return errors.Join(r.writeTar(z, entries), z.Close())
}

func (r *release) writeTar(w io.Writer, entries []entry) error {
	t := tar.NewWriter(w)
	for _, e := range entries {
		header := &tar.Header{
			Typeflag: tar.TypeReg, Name: e.name, Mode: e.mode, Uid: e.owner, Gid: e.owner, Size: int64(len(e.data)), ModTime: r.time,
		}
		if strings.HasSuffix(e.name, "/") {
			header.Typeflag = tar.TypeDir
		}
		if err := t.WriteHeader(header); err != nil {
			return err
		}
		if _, err := t.Write(e.data); err != nil {
			return err
		}
	}
	return t.Close()
}

func (r *release) writeZip(w io.Writer, entries []entry) error {
	z := zip.NewWriter(w)
	for _, e := range entries {
		header := &zip.FileHeader{Name: e.name, Method: zip.Deflate, Modified: r.time}
		header.SetMode(os.FileMode(e.mode))
		file, err := z.CreateHeader(header)
		if err != nil {
			return err
		}
		if _, err := file.Write(e.data); err != nil {
			return err
		}
	}
	return z.Close()
}

// notes writes the version's section of the changelog, or else the section Unreleased.
func (r *release) notes() error {
	changelog, err := os.ReadFile(filepath.Join(r.root, "CHANGELOG.md"))
	if err != nil {
		return err
	}
	body, err := section(string(changelog), r.number())
	if err != nil {
		return err
	}
	return r.write("release-notes.md", []byte("# Tallygate "+r.version+"\n\n"+body+"\n"))
}

// section returns the text below a heading such as "## v1.2.3" or "## 1.2.3, 24 November 2026".
func section(changelog, number string) (string, error) {
	for _, title := range []string{`v?` + regexp.QuoteMeta(number), "Unreleased"} {
		heading := regexp.MustCompile(`(?m)^## ` + title + `(?:[ ,].*)?\n`).FindStringIndex(changelog)
		if heading == nil {
			continue
		}
		body := changelog[heading[1]:]
		if next := strings.Index(body, "\n## "); next >= 0 {
			body = body[:next]
		}
		return strings.TrimSpace(body), nil
	}
	return "", fmt.Errorf("CHANGELOG.md has neither a section %s nor Unreleased", number)
}

// sums writes the checksums of all files, and prints their sizes.
func (r *release) sums() error {
	found, err := os.ReadDir(r.out)
	if err != nil {
		return err
	}

	var sums strings.Builder
	for _, file := range found {
		data, err := os.ReadFile(filepath.Join(r.out, file.Name()))
		if err != nil {
			return err
		}
		fmt.Fprintf(&sums, "%x  %s\n", sha256.Sum256(data), file.Name())
		fmt.Printf("%6.1f MB  %s\n", float64(len(data))/1e6, file.Name())
	}

	return r.write("SHA256SUMS", []byte(sums.String()))
}
