package acme

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"golang.org/x/crypto/acme"
)

// The kinds of challenges, in the order in which they are tried.
const (
	tlsALPN01 = "tls-alpn-01"
	http01    = "http-01"
)

// answer is what the authority must find to believe that a host is ours.
type answer struct {
	certificate *tls.Certificate // of TLS-ALPN-01

	path string // of HTTP-01
	body []byte
}

// order obtains a certificate of a host with a new key, and returns it with its text in PEM form. A
// challenge that fails spoils an order, so each kind of challenge has an order of its own.
func (m *Manager) order(ctx context.Context, h *host) (*tls.Certificate, []byte, error) {
	client, err := m.account(ctx)
	if err != nil {
		return nil, nil, err
	}

	var failed error
	for _, kind := range []string{tlsALPN01, http01} {
		order, err := client.AuthorizeOrder(ctx, acme.DomainIDs(h.name))
		if err != nil {
			return nil, nil, errors.Join(failed, err)
		}
		if err = m.authorize(ctx, client, h, order, kind); err == nil {
			return m.finish(ctx, client, h.name, order)
		}
		failed = errors.Join(failed, fmt.Errorf("%s: %w", kind, err))
	}
	return nil, nil, failed
}

// authorize answers the challenges of an order by one kind, and waits for the authority's decision.
func (m *Manager) authorize(ctx context.Context, client *acme.Client, h *host, order *acme.Order, kind string) error {
	defer h.answer.Store(nil)

	for _, address := range order.AuthzURLs {
		authorization, err := client.GetAuthorization(ctx, address)
		if err != nil {
			return err
		}
		if authorization.Status == acme.StatusValid {
			continue // by an earlier order
		}

		i := slices.IndexFunc(authorization.Challenges, func(c *acme.Challenge) bool { return c.Type == kind })
		if i < 0 {
			return errors.New("the authority does not offer this challenge")
		}
		challenge := authorization.Challenges[i]
		a, err := answerTo(client, challenge, h.name)
		if err != nil {
			return err
		}
		h.answer.Store(a)

		if _, err := client.Accept(ctx, challenge); err != nil {
			return err
		}
		// Its error has the authority's reasons.
		if _, err := client.WaitAuthorization(ctx, authorization.URI); err != nil {
			return err
		}
	}
	return nil
}

func answerTo(client *acme.Client, challenge *acme.Challenge, name string) (*answer, error) {
	if challenge.Type == http01 {
		body, err := client.HTTP01ChallengeResponse(challenge.Token)
		return &answer{path: client.HTTP01ChallengePath(challenge.Token), body: []byte(body)}, err
	}

	certificate, err := client.TLSALPN01ChallengeCert(challenge.Token, name)
	return &answer{certificate: &certificate}, err
}

// finish gets the certificate of an authorized order.
func (m *Manager) finish(ctx context.Context, client *acme.Client, name string, order *acme.Order) (*tls.Certificate, []byte, error) {
	order, err := client.WaitOrder(ctx, order.URI)
	if err != nil {
		return nil, nil, err
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	request, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{DNSNames: []string{name}}, key)
	if err != nil {
		return nil, nil, err
	}

	chain, _, err := client.CreateCertFromOrder(ctx, order, request, true)
	if err != nil {
		return nil, nil, err
	}
	text, err := pemOfKey(key)
	if err != nil {
		return nil, nil, err
	}
	for _, der := range chain {
		text = append(text, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})...)
	}
	certificate, err := parse(text, name)
	return certificate, text, err
}

// account returns the client of the account, which the first order of a directory creates.
func (m *Manager) account(ctx context.Context) (*acme.Client, error) {
	if m.client != nil {
		return m.client, nil
	}

	key, err := m.accountKey(ctx)
	if err != nil {
		return nil, err
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.TLSClientConfig = &tls.Config{RootCAs: m.Roots, MinVersion: tls.VersionTLS12}
	client := &acme.Client{
		Key: key, DirectoryURL: m.Directory, HTTPClient: &http.Client{Transport: transport}, UserAgent: "tallygate",
		RetryBackoff: retryAfter,
	}

	var contact []string
	if m.Email != "" {
		contact = []string{"mailto:" + m.Email}
	}
	// The setting TALLYGATE_TLS=auto accepts the terms.
	_, err = client.Register(ctx, &acme.Account{Contact: contact}, acme.AcceptTOS)
	if err != nil && !errors.Is(err, acme.ErrAccountAlreadyExists) {
		return nil, err
	}
	m.client = client
	return client, nil
}

// retryAfter returns the pause before the client repeats a request. What must wait for longer
// fails, with the authority's reason.
func retryAfter(n int, _ *http.Request, response *http.Response) time.Duration {
	if n > 3 || response.StatusCode == http.StatusTooManyRequests {
		return 0
	}
	return time.Duration(n) * time.Second
}

func pemOfKey(key *ecdsa.PrivateKey) ([]byte, error) {
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}), nil
}

// parse reads a certificate of a host with its key.
func parse(text []byte, name string) (*tls.Certificate, error) {
	certificate, err := tls.X509KeyPair(text, text)
	if err == nil {
		err = certificate.Leaf.VerifyHostname(name)
	}
	if err != nil {
		return nil, err
	}
	return &certificate, nil
}

// parseKey reads the key of an account.
func parseKey(text []byte) (crypto.Signer, error) {
	block, _ := pem.Decode(text)
	if block == nil {
		return nil, errors.New("the key of the account is damaged")
	}
	return x509.ParseECPrivateKey(block.Bytes)
}
