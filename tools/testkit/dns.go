package testkit

import (
	"context"
	"net"
	"strings"
	"sync"
	"testing"

	"golang.org/x/net/dns/dnsmessage"
)

// DNS is a server that answers TXT queries over UDP. It is safe for concurrent use.
type DNS struct {
	conn net.PacketConn

	mu      sync.Mutex
	records map[string][]string
	fails   bool
	asked   map[string]int
}

// NewDNS returns a server without records. It runs until the test ends.
func NewDNS(t testing.TB) *DNS {
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	NoError(t, err)

	s := &DNS{conn: conn, records: map[string][]string{}, asked: map[string]int{}}
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.serve()
	}()
	t.Cleanup(func() { conn.Close(); <-done })
	return s
}

func (s *DNS) serve() {
	buffer := make([]byte, 512)
	for {
		n, from, err := s.conn.ReadFrom(buffer)
		if err != nil {
			return
		}
		var m dnsmessage.Message
		if m.Unpack(buffer[:n]) != nil || len(m.Questions) == 0 {
			continue
		}
		answer := s.answer(m)
		if packed, err := answer.Pack(); err == nil {
			_, _ = s.conn.WriteTo(packed, from)
		}
	}
}

func (s *DNS) answer(m dnsmessage.Message) dnsmessage.Message {
	s.mu.Lock()
	defer s.mu.Unlock()

	question := m.Questions[0]
	name := strings.TrimSuffix(strings.ToLower(question.Name.String()), ".")
	s.asked[name]++

	answer := dnsmessage.Message{Header: dnsmessage.Header{ID: m.ID, Response: true}, Questions: m.Questions[:1]}
	texts := s.records[name]
	switch {
	case s.fails:
		answer.RCode = dnsmessage.RCodeServerFailure
	case question.Type != dnsmessage.TypeTXT || len(texts) == 0:
		answer.RCode = dnsmessage.RCodeNameError
	}
	if answer.RCode != dnsmessage.RCodeSuccess {
		return answer
	}

	for _, text := range texts {
		answer.Answers = append(answer.Answers, dnsmessage.Resource{
			Header: dnsmessage.ResourceHeader{Name: question.Name, Type: dnsmessage.TypeTXT, Class: dnsmessage.ClassINET},
			Body:   &dnsmessage.TXTResource{TXT: []string{text}},
		})
	}
	return answer
}

// Set replaces the TXT records of a name. Without texts the name does not exist.
func (s *DNS) Set(name string, texts ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.records[name] = texts
}

// Fail makes the server answer all queries with an error, or as it should again.
func (s *DNS) Fail(fails bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fails = fails
}

// Asked returns how many queries for a name have arrived.
func (s *DNS) Asked(name string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked[name]
}

// Resolver returns a resolver that asks this server alone.
func (s *DNS) Resolver() *net.Resolver {
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "udp", s.conn.LocalAddr().String())
	}}
}
