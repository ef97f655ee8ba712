package pow

import "encoding/binary"

// Solve finds the nonce as the browser does, on one core, at about ten million hashes per second on
// a processor with SHA-256 instructions. Only tests and load programs call it. It returns
// ErrMalformed for a challenge that cannot be read, or that has no solution because it was altered.
func Solve(c Challenge) (nonce uint64, err error) {
	secrets, seed, err := find(c)
	if err != nil {
		return 0, err
	}
	return fold(&seed, secrets), nil
}

// find searches for the secrets.
func find(c Challenge) (secrets []uint32, seed [32]byte, err error) {
	var buf [maxSize]byte
	all := decode(c.Challenge, &buf)
	if all == nil {
		return nil, seed, ErrMalformed
	}

	k := int(all[atK])
	seed = seedOf(all, []byte(c.Salt))
	for i := range k {
		n, ok := findOne(i, &seed, all[bodySize+i*targetSize:], search(c.Difficulty, k))
		if !ok {
			return nil, seed, ErrMalformed
		}

		secrets = append(secrets, n)
	}

	return secrets, seed, nil
}

// findOne searches for one secret below r.
func findOne(i int, seed *[32]byte, target []byte, r uint32) (uint32, bool) {
	first, second := binary.BigEndian.Uint32(target), binary.BigEndian.Uint16(target[4:])
	hasher := newHasher(i, seed)
	for n := range r {
		h := hasher.hash(n)
		if binary.BigEndian.Uint32(h[:]) == first && binary.BigEndian.Uint16(h[4:]) == second {
			return n, true
		}
	}

	return 0, false
}
