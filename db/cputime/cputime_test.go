package cputime

import (
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// spin works until the thread has used so much processor time.
func spin(d time.Duration) {
	for began := ofThread(); ofThread()-began < d; {
	}
}

// TestMeter checks that work counts and waiting does not, while more goroutines work than there are
// processors, and that work which is left out does not count.
func TestMeter(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("threads have no clock here")
	}

	// Others keep the processors busy, so that elapsed time is at least twice the processor time.
	var stop atomic.Bool
	var others sync.WaitGroup
	for range 2 * runtime.GOMAXPROCS(0) {
		others.Go(func() {
			for !stop.Load() {
			}
		})
	}
	defer others.Wait()
	defer stop.Store(true)

	const work, slack = 20 * time.Millisecond, 10 * time.Millisecond
	for _, test := range []struct {
		name string
		run  func(m *Meter)
		want time.Duration
	}{
		{"work", func(*Meter) { spin(work) }, work},
		{"a wait", func(*Meter) {
			ready := make(chan struct{})
			time.AfterFunc(5*work, func() { close(ready) })
			<-ready
		}, 0},
		{"work that is left out", func(m *Meter) {
			spin(work)
			leave := m.Leave()
			spin(3 * work)
			leave.End()
		}, work},
		{"a goroutine of its own", func(m *Meter) {
			var parts sync.WaitGroup
			parts.Go(func() {
				defer m.Begin().End()
				spin(work)
			})
			spin(work)
			parts.Wait()
		}, 2 * work},
		{"a goroutine that is not measured", func(*Meter) {
			var parts sync.WaitGroup
			parts.Go(func() {
				runtime.LockOSThread()
				defer runtime.UnlockOSThread()
				spin(work)
			})
			parts.Wait()
		}, 0},
	} {
		var m Meter
		span := m.Begin()
		test.run(&m)
		span.End()
		if got := m.Spent(); got < test.want || got > test.want+slack {
			t.Errorf("%s: %v, want %v", test.name, got, test.want)
		}
	}
}

// TestNilMeter checks that a Meter can be left out.
func TestNilMeter(t *testing.T) {
	var m *Meter
	span, leave := m.Begin(), m.Leave()
	leave.End()
	span.End()
}

// TestMeterAfterPanic checks that work counts which ends by a panic.
func TestMeterAfterPanic(t *testing.T) {
	var m Meter
	func() {
		defer func() { _ = recover() }()
		defer m.Begin().End()
		spin(time.Millisecond)
		panic("end")
	}()
	if got := m.Spent(); got < time.Millisecond {
		t.Errorf("%v, want at least 1ms", got)
	}
}

// BenchmarkSpan measures the price of a measurement, and of one that waits for another goroutine.
func BenchmarkSpan(b *testing.B) {
	b.Run("work", func(b *testing.B) {
		var m Meter
		for b.Loop() {
			m.Begin().End()
		}
	})

	b.Run("wait", func(b *testing.B) {
		var m Meter
		ask, answer := make(chan struct{}), make(chan struct{})
		go func() {
			for range ask {
				answer <- struct{}{}
			}
		}()
		for b.Loop() {
			span := m.Begin()
			ask <- struct{}{}
			<-answer
			span.End()
		}
		close(ask)
	})
}
