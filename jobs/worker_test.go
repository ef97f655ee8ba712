package jobs_test

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	ossignal "os/signal"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/keys"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/outbox"
	"github.com/tallygate/tallygate/jobs"
	"github.com/tallygate/tallygate/jobs/webhook"
	"github.com/tallygate/tallygate/tools/dbtest"
	"github.com/tallygate/tallygate/tools/testkit"
)

// fateVariable is the environment variable that makes the test binary a worker process.
const fateVariable = "TALLYGATE_TEST_WORKER"

// fate configures a worker process and its end. The counts are of deliveries; 0 means never.
type fate struct {
	DatabaseURL, RedisURL string
	CA                    []byte
	Began                 time.Time // of the fast clock
	DieBefore, DieAfter   int32     // kills itself before or after the call
	StopBefore            int32     // stops itself before the call, until it gets SIGCONT
}

const (
	faultLease   = 4 * time.Second // in real time
	faultAttempt = 2 * time.Second
)

// work runs a worker process. It does not return.
func work(text string) {
	var f fate
	err := json.Unmarshal([]byte(text), &f)
	if err != nil {
		panic(err)
	}

	d, err := db.Open(f.DatabaseURL)
	if err != nil {
		panic(err)
	}
	d.UseApplicationKey([]byte(dbtest.ApplicationKey))

	block, _ := pem.Decode(f.CA)
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		panic(err)
	}

	pool := x509.NewCertPool()
	pool.AddCert(cert)
	clock := &fastClock{start: noon, began: f.Began, factor: speed}
	dbtest.SetClock(d, clock.Now)

	faults := &faultyStore{}
	var before, after atomic.Int32
	signal := func(s syscall.Signal) { _ = syscall.Kill(os.Getpid(), s) }
	faults.leased = func() {
		switch before.Add(1) {
		case f.DieBefore:
			signal(syscall.SIGKILL)
		case f.StopBefore:
			// The signal stops the process some time after the system call: later steps wait until
			// it continues.
			resumed := make(chan os.Signal, 1)
			ossignal.Notify(resumed, syscall.SIGCONT)

			if err := dbtest.Quiet(d, func() { signal(syscall.SIGSTOP); <-resumed }); err != nil {
				panic(err)
			}
		}
	}

	faults.sent = func() {
		if after.Add(1) == f.DieAfter {
			signal(syscall.SIGKILL)
		}
	}

	j, err := jobs.NewWith(jobs.Options{
		DB: d, RedisURL: f.RedisURL, Now: clock.Now, Log: slog.New(slog.DiscardHandler), WebhookNets: loopback, WebhookAuthorities: pool,
	}, jobs.Quick(100*time.Millisecond, speed*faultLease), jobs.AttemptTimeout(faultAttempt),
		jobs.DeliverFrom(func(s webhook.Store) webhook.Store { faults.Store = s; return faults }))
	if err != nil {
		panic(err)
	}
	if err := j.Start(); err != nil {
		panic(err)
	}

	fmt.Println("started")

	// It runs until it is killed.
	select {}
}

// faultyStore calls a function after each lease, and another function before the outcome of its
// attempt is recorded.
type faultyStore struct {
	webhook.Store
	leased, sent func()
}

// LeaseDelivery implements webhook.Store.
func (s *faultyStore) LeaseDelivery(
	ctx context.Context, lane model.Lane, except []int64, now model.Instant, lease time.Duration,
) (*outbox.Leased, error) {
	leased, err := s.Store.LeaseDelivery(ctx, lane, except, now, lease)
	if leased != nil {
		s.leased()
	}
	return leased, err
}

// FinishAttempt implements webhook.Store.
func (s *faultyStore) FinishAttempt(
	ctx context.Context, leased *outbox.Leased, result outbox.AttemptResult, now model.Instant,
) error {
	s.sent()
	return s.Store.FinishAttempt(ctx, leased, result, now)
}

// process is a worker process.
type process struct {
	*exec.Cmd
	ended chan struct{}
}

// workerFolder holds the program of workerProgram once a test has needed it.
var workerFolder string

// workerProgram returns the program that runs workers: this test binary, or one without the race
// detector if this one has it. The detector multiplies the processor time of the hundreds of
// processes, and the workers of other tests run under it.
var workerProgram = sync.OnceValues(func() (string, error) {
	info, _ := debug.ReadBuildInfo()
	if info == nil || !slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"}) {
		return os.Executable()
	}

	var err error
	if workerFolder, err = os.MkdirTemp("", "tallygate-worker-"); err != nil {
		return "", err
	}

	file := filepath.Join(workerFolder, "worker")
	cmd := exec.Command("go", "test", "-c", "-vet=off", "-ldflags=-s -w", "-o", file, ".")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0") // so that all tests share the compiled packages
	out, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("build the worker: %w\n%s", err, out)
	}

	return file, nil
})

// startProcess starts a worker process, and kills it when the test ends.
func startProcess(t *testing.T, f fate) *process {
	t.Helper()

	text, err := json.Marshal(f)
	testkit.NoError(t, err)

	program, err := workerProgram()
	testkit.NoError(t, err)

	p := &process{Cmd: exec.Command(program), ended: make(chan struct{})}
	p.Env = append(os.Environ(), fateVariable+"="+string(text))
	p.Stderr = os.Stderr
	p.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := p.StdoutPipe()
	testkit.NoError(t, err)
	testkit.NoError(t, dbtest.StartBound(p.Cmd))
	if _, err := fmt.Fscanln(out, new(string)); err != nil {
		t.Fatalf("the worker process did not start: %v", err)
	}

	go func() {
		defer close(p.ended)
		_ = p.Wait()
	}()

	t.Cleanup(p.kill)
	return p
}

// isStopped reports whether a signal has stopped the process.
func (p *process) isStopped() bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.Process.Pid))

	// The state follows the name of the program, which is in parentheses.
	_, state, found := strings.Cut(string(stat), ") ")
	return err == nil && found && strings.HasPrefix(state, "T")
}

func (p *process) kill() {
	_ = p.Process.Kill()
	<-p.ended
}

func pemOf(a *authority) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.cert.Raw})
}

func describe(attempts []*model.DeliveryAttempt) string {
	text := ""
	for _, a := range attempts {
		text += fmt.Sprintf("\n%d: at %v for %d ms: %d %q", a.N, a.At.Time(), a.DurationMS, a.Status, a.Error)
	}
	return text
}

// checkOutcome checks what holds at the end of every fault test. Each delivery was made, or failed
// after exactly five attempts. No receiver got it twice, unless a worker died before it recorded
// the first call, or that call timed out. It returns how many deliveries there are and how many
// arrived twice.
func checkOutcome(
	t *testing.T, d *db.DB, sites []*model.Site, r *receiver, succeeded func(received) bool,
) (all, twice int) {
	t.Helper()

	calls, successes := map[string]int{}, map[string]int{}
	for _, call := range r.all() {
		calls[call.id()]++
		if succeeded(call) {
			successes[call.id()]++
		}
	}

	ids, err := keys.New(d).NodeIDs(t.Context())
	testkit.NoError(t, err)

	for _, site := range sites {
		logs, err := dbtest.Deliveries(d, site.ID, 0, 100_000)
		testkit.NoError(t, err)

		for _, log := range logs {
			all++
			unknown := 0
			for _, attempt := range log.Attempts {
				// The receiver may have accepted a call that timed out.
				if attempt.Error == model.AttemptUnfinished || attempt.Error == model.AttemptTimeout {
					unknown++
				}
			}

			id, tries := ids.OfDelivery(log.SiteID, log.ID), len(log.Attempts)
			switch {
			case log.State == model.DeliveryDelivered && successes[id] == 0:
				t.Errorf("%s is recorded as delivered, and the receiver never accepted it", id)
			case log.State == model.DeliveryFailed && (log.Delivery.ScheduledAttempts != model.MaxAttempts || successes[id] > unknown):
				t.Errorf(
					"%s failed after %d attempts, %d of unknown outcome, and %d successes", id, log.Delivery.ScheduledAttempts, unknown,
					successes[id],
				)
			case log.State == model.DeliveryPending:
				t.Errorf("%s is still pending: %+v", id, log.Delivery)
			}

			if int(log.Delivery.ScheduledAttempts) != tries || int(log.Delivery.Attempts) != tries || tries > model.MaxAttempts || calls[id] > tries {
				t.Errorf("%s: %d attempts recorded, %d counted, %d calls", id, tries, log.Delivery.ScheduledAttempts, calls[id])
			}

			if more := successes[id] - 1; more > 0 {
				twice += more

				if more > unknown {
					t.Errorf(
						"%s arrived %d times, and the outcome of %d attempts is unknown: %s", id, successes[id], unknown,
						describe(log.Attempts),
					)
				}
			}
		}
	}

	return all, twice
}
