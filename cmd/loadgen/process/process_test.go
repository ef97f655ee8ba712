package process

import (
	"context"
	"os"
	"testing"
	"time"
)

// TestCostOfTheEnd checks that CPU time used just before the end of a measurement counts.
func TestCostOfTheEnd(t *testing.T) {
	if _, ok := Read(os.Getpid()); !ok {
		t.Fatal("there is no /proc")
	}

	ctx, end := context.WithCancel(t.Context())
	begun, measured := make(chan bool, 1), make(chan Cost)
	go func() { measured <- Watch(signallingContext{ctx, begun}, os.Getpid(), nil) }()
	<-begun
	begin, _ := Read(os.Getpid())
	now := begin
	for now.cpu-begin.cpu < 50*time.Millisecond {
		now, _ = Read(os.Getpid())
	}

	end()

	if c := <-measured; c.CPU < now.cpu-begin.cpu {
		t.Errorf("%v of %v are counted", c.CPU, now.cpu-begin.cpu)
	}
}

// signallingContext sends to begun when its end is first waited for.
type signallingContext struct {
	context.Context
	begun chan<- bool
}

func (c signallingContext) Done() <-chan struct{} {
	select {
	case c.begun <- true:
	default:
	}
	return c.Context.Done()
}
