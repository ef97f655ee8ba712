package main

import (
	"bytes"
	"encoding/pem"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"golang.org/x/crypto/x509roots/fallback/bundle"
)

const imageUser = 65532

// imageConfig is what deploy/Dockerfile states; a test compares them.
var imageConfig = v1.Config{
	User:       "65532:65532",
	WorkingDir: "/data",
	Env: []string{
		"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "TALLYGATE_DATA_DIR=/data",
		"TALLYGATE_CONTROL_ADDR=:8080", "TALLYGATE_DATA_ADDR=:8081", "TALLYGATE_LOG_FORMAT=json",
	},
	ExposedPorts: map[string]struct{}{"8080/tcp": {}, "8081/tcp": {}},
	Volumes:      map[string]struct{}{"/data": {}},
	StopSignal:   "SIGTERM",
	Healthcheck: &v1.HealthConfig{
		Test:     []string{"CMD", "/usr/local/bin/tallygate", "health"},
		Interval: 10 * time.Second, Timeout: 5 * time.Second, StartPeriod: time.Minute, Retries: 3,
	},
	Entrypoint: []string{"/usr/local/bin/tallygate"},
	Cmd:        []string{"serve"},
}

// image writes one file with the images for Linux, in the OCI layout. The program contains the time
// zones. The certificates of authorities come from Mozilla; the Go project publishes them in a
// module.
func (r *release) image(work string) error {
	var certificates bytes.Buffer
	for root := range bundle.Roots() {
		// A file cannot express such a limit, for example on the date of issue.
		if root.Constraint == nil {
			if err := pem.Encode(&certificates, &pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}); err != nil {
				return err
			}
		}
	}

	common := []entry{
		{name: "data/", mode: 0o700, owner: imageUser},
		{name: "etc/", mode: 0o755}, {name: "etc/ssl/", mode: 0o755}, {name: "etc/ssl/certs/", mode: 0o755},
		{name: "etc/ssl/certs/ca-certificates.crt", mode: 0o644, data: certificates.Bytes()},
		{name: "usr/", mode: 0o755}, {name: "usr/share/", mode: 0o755}, {name: "usr/share/doc/", mode: 0o755},
		{name: "usr/share/doc/tallygate/", mode: 0o755},
	}
	for _, file := range r.files {
		common = append(common, entry{name: "usr/share/doc/tallygate/" + file.name, mode: file.mode, data: file.data})
	}

	labels := map[string]string{
		"org.opencontainers.image.title": "Tallygate", "org.opencontainers.image.version": r.version,
		"org.opencontainers.image.revision": r.commit, "org.opencontainers.image.created": r.time.Format(time.RFC3339),
	}

	var index v1.ImageIndex = mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, t := range targets {
		if t.os != "linux" {
			continue
		}
		program, err := os.ReadFile(r.programs[t])
		if err != nil {
			return err
		}
		image, err := r.imageFor(t, labels, common, []entry{
			{name: "usr/", mode: 0o755}, {name: "usr/local/", mode: 0o755}, {name: "usr/local/bin/", mode: 0o755},
			{name: "usr/local/bin/tallygate", mode: 0o755, data: program},
		})
		if err != nil {
			return err
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{
			Add: image, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: t.os, Architecture: t.arch}},
		})
	}
	index = mutate.Annotations(index, labels).(v1.ImageIndex)

	path, err := layout.Write(filepath.Join(work, "oci"), empty.Index)
	if err != nil {
		return err
	}
	name := map[string]string{"org.opencontainers.image.ref.name": r.number()}
	if err := path.AppendIndex(index, layout.WithAnnotations(name)); err != nil {
		return err
	}

	return r.writeLayout(string(path))
}

// imageFor returns the image of one platform, with a layer for each list of files.
func (r *release) imageFor(t target, labels map[string]string, layers ...[]entry) (v1.Image, error) {
	config := imageConfig
	config.Labels = labels
	image, err := mutate.ConfigFile(mutate.MediaType(mutate.ConfigMediaType(empty.Image, types.OCIConfigJSON), types.OCIManifestSchema1),
		&v1.ConfigFile{OS: t.os, Architecture: t.arch, Created: v1.Time{Time: r.time}, Config: config})
	if err != nil {
		return nil, err
	}

	for _, entries := range layers {
		var b bytes.Buffer
		if err := r.writeTar(&b, entries); err != nil {
			return nil, err
		}
		layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(b.Bytes())), nil },
			tarball.WithMediaType(types.OCILayer), tarball.WithCompressedCaching)
		if err != nil {
			return nil, err
		}
		image, err = mutate.Append(image, mutate.Addendum{
			Layer: layer, History: v1.History{Created: v1.Time{Time: r.time}, CreatedBy: "make release"},
		})
		if err != nil {
			return nil, err
		}
	}

	return image, nil
}

// writeLayout writes the folder of an OCI layout as an archive.
func (r *release) writeLayout(folder string) error {
	var entries []entry
	err := filepath.WalkDir(folder, func(path string, file fs.DirEntry, err error) error {
		if err != nil || path == folder {
			return err
		}
		name, err := filepath.Rel(folder, path)
		if err != nil {
			return err
		}
		if file.IsDir() {
			entries = append(entries, entry{name: name + "/", mode: 0o755})
			return nil
		}
		data, err := os.ReadFile(path)
		entries = append(entries, entry{name: name, mode: 0o644, data: data})
		return err
	})
	if err != nil {
		return err
	}

	var b bytes.Buffer
	if err := r.writeTar(&b, entries); err != nil {
		return err
	}
	return r.write("tallygate_"+r.number()+"_oci.tar", b.Bytes())
}
