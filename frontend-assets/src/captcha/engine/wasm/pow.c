// The captcha's work function for WebAssembly, as dataplane/captcha/pow defines it. It finds n with
//
//	SHA-256(u32(index) | u32(n) | seed)[0:6] == target
//
// The input is 40 bytes, so a hash is one compression, and only the second word of the input changes
// from one n to the next. The source is compiled twice: LANES is the number of n tried at once, 4
// with SIMD instructions and 1 without.
//
// build.sh compiles it to captcha.wasm and captcha-scalar.wasm.

typedef unsigned int u32;

#if LANES > 1
typedef u32 words __attribute__((vector_size(4 * LANES)));
typedef int ints __attribute__((vector_size(4 * LANES)));
typedef signed char bytes __attribute__((vector_size(4 * LANES)));
#else
typedef u32 words;
#endif

#define EXPORT(name) __attribute__((export_name(#name))) name

static const u32 initial[8] = {
	0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19,
};

static const u32 constants[64] = {
	0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
	0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
	0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
	0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
	0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
	0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
	0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
	0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
};

static u32 the_seed[8];

// The page writes the seed's eight words here.
u32 *EXPORT(seed)(void) { return the_seed; }

static inline words right(words x, int by) { return x >> by | x << (32 - by); }
static inline words small0(words x) { return right(x, 7) ^ right(x, 18) ^ x >> 3; }
static inline words small1(words x) { return right(x, 17) ^ right(x, 19) ^ x >> 10; }
static inline words big0(words x) { return right(x, 2) ^ right(x, 13) ^ right(x, 22); }
static inline words big1(words x) { return right(x, 6) ^ right(x, 11) ^ right(x, 25); }
#if LANES > 1
// One instruction of WebAssembly, which the compiler does not select by itself.
static inline words choose(words e, words f, words g) { return (words)__builtin_wasm_bitselect((ints)f, (ints)g, (ints)e); }
#else
static inline words choose(words e, words f, words g) { return g ^ (e & (f ^ g)); }
#endif
static inline words majority(words a, words b, words c) { return (a & b) | (c & (a | b)); }

static inline words all(u32 x) {
	words w = {0};
	return w + x;
}

// One round; the caller rotates the names instead of the values.
#define ROUND(a, b, c, d, e, f, g, h, kw)                        \
	do {                                                         \
		words x = h + big1(e) + choose(e, f, g) + (kw);          \
		d += x;                                                  \
		h = x + big0(a) + majority(a, b, c);                     \
	} while (0)

#define SIXTEEN_ROUNDS(KW)                                                          \
	ROUND(a, b, c, d, e, f, g, h, KW(0));  ROUND(h, a, b, c, d, e, f, g, KW(1));  \
	ROUND(g, h, a, b, c, d, e, f, KW(2));  ROUND(f, g, h, a, b, c, d, e, KW(3));  \
	ROUND(e, f, g, h, a, b, c, d, KW(4));  ROUND(d, e, f, g, h, a, b, c, KW(5));  \
	ROUND(c, d, e, f, g, h, a, b, KW(6));  ROUND(b, c, d, e, f, g, h, a, KW(7));  \
	ROUND(a, b, c, d, e, f, g, h, KW(8));  ROUND(h, a, b, c, d, e, f, g, KW(9));  \
	ROUND(g, h, a, b, c, d, e, f, KW(10)); ROUND(f, g, h, a, b, c, d, e, KW(11)); \
	ROUND(e, f, g, h, a, b, c, d, KW(12)); ROUND(d, e, f, g, h, a, b, c, KW(13)); \
	ROUND(c, d, e, f, g, h, a, b, KW(14)); ROUND(b, c, d, e, f, g, h, a, KW(15))

// The message schedule: sixteen words become the next sixteen, in place.
#define NEXT(i) w[i] += small1(w[(i + 14) & 15]) + w[(i + 9) & 15] + small0(w[(i + 1) & 15])
#define SIXTEEN_WORDS                                                                \
	NEXT(0); NEXT(1); NEXT(2); NEXT(3); NEXT(4); NEXT(5); NEXT(6); NEXT(7);         \
	NEXT(8); NEXT(9); NEXT(10); NEXT(11); NEXT(12); NEXT(13); NEXT(14); NEXT(15)

// Tries the numbers from start up to, not including, end. Returns the one whose hash begins with the
// 32 bits of high and the 16 bits of low, or -1.
int EXPORT(search)(u32 index, u32 start, u32 end, u32 high, u32 low) {
	for (u32 n = start; n < end; n += LANES) {
		words w[16];
		w[0] = all(index);
		w[1] = all(n);
#if LANES > 1
		for (int i = 0; i < LANES; i++) w[1][i] += i;
#endif
		for (int i = 0; i < 8; i++) w[2 + i] = all(the_seed[i]);
		w[10] = all(0x80000000);
		w[11] = w[12] = w[13] = w[14] = all(0);
		w[15] = all(320);

		words a = all(initial[0]), b = all(initial[1]), c = all(initial[2]), d = all(initial[3]);
		words e = all(initial[4]), f = all(initial[5]), g = all(initial[6]), h = all(initial[7]);
#define KW(i) constants[t + i] + w[i]
#pragma clang loop unroll(disable)
		for (int t = 0;; t += 16) {
			SIXTEEN_ROUNDS(KW);
			if (t == 48) break;
			SIXTEEN_WORDS;
		}

		words first = a + initial[0], second = b + initial[1];
#if LANES > 1
		if (__builtin_wasm_any_true_v128((bytes)(first == high))) {
			for (int i = 0; i < LANES; i++) {
				if (first[i] == high && second[i] >> 16 == low && n + i < end) return n + i;
			}
		}
#else
		if (first == high && second >> 16 == low) return n;
#endif
	}
	return -1;
}
