// Makes vectors.json, which the tests of all implementations of the work function share:
//
//	node testdata/vectors.mjs > testdata/vectors.json
//
// It is written from the layout in pow.go's package comment, apart from the Go code, so that neither can be wrong alone.
import { createHash, createHmac, hkdfSync } from "node:crypto"

const sha256 = (...parts) => parts.reduce((h, part) => h.update(part), createHash("sha256")).digest()
const u32 = (n) => Buffer.from([n >>> 24, n >>> 16, n >>> 8, n])
const lifetime = 10 * 60_000

const keys = [
  { id: 1, secret: "30313233343536373839616263646566303132333435363738396162636465660a" },
  { id: 7, secret: "000102030405060708090a0b0c0d0e0f" },
]
const derived = (id, use) => {
  const { secret } = keys.find((key) => key.id === id) ?? { secret: "ff".repeat(32) }
  return Buffer.from(hkdfSync("sha256", Buffer.from(secret, "hex"), "", `captcha challenge ${use} ${id}`, 32))
}

const search = (difficulty, k) => Math.floor((2 * difficulty) / k)
const H = (i, n, seed) => sha256(u32(i), u32(n), seed)

// finish turns a body and its secrets into a challenge.
function finish(body, secrets, sign) {
  const salt = body.subarray(32).toString("base64url")
  const seed = sha256(body, salt)
  const unsigned = Buffer.concat([body, ...secrets.map((n, i) => H(i, n, seed).subarray(0, 6))])
  const challenge = Buffer.concat([unsigned, sign(unsigned)])
  const nonce = Number(sha256(seed, ...secrets.map(u32)).readBigUInt64BE() >> 12n)
  return { challenge: challenge.toString("base64url"), salt, difficulty: body.readUInt32BE(4), secrets, nonce }
}

function issue({ sitekey = "pk_vector", difficulty = 1024, k = 16, id = 1, flags = 0, version = 1, now = 1795651200000, name }) {
  const body = Buffer.alloc(48)
  body.set([version, id, k, flags])
  body.writeUInt32BE(difficulty, 4)
  body.writeBigUInt64BE(BigInt(now), 8)
  body.set(sha256(sitekey).subarray(0, 16), 16)
  body.set(sha256("random " + name).subarray(0, 16), 32)
  const hmac = (of) => createHmac("sha256", derived(id, "work")).update(of).digest()
  const p = Buffer.concat([hmac(body), hmac(hmac(body))])
  const R = BigInt(search(difficulty, k))
  const secrets = Array.from({ length: k }, (_, i) => Number((BigInt(p.readUInt32BE(4 * i)) * R) >> 32n))
  const sign = (unsigned) => createHmac("sha256", derived(id, "mac")).update(unsigned).digest().subarray(0, 16)
  return { name, sitekey, now, ...finish(body, secrets, sign) }
}

// What a browser has to find, and the server to accept.
const solved = [
  issue({ name: "least difficulty", difficulty: 16 }),
  issue({ name: "difficulty 1,000, not a multiple of k", difficulty: 1000 }),
  issue({ name: "difficulty 16,384", difficulty: 16384 }),
  issue({ name: "difficulty 131,072", difficulty: 131072 }),
  issue({ name: "one search", k: 1, difficulty: 3000 }),
  issue({ name: "three searches", k: 3, difficulty: 5000 }),
  issue({ name: "eight searches, other key", k: 8, id: 7 }),
  issue({ name: "sitekey with other letters", sitekey: "schl\u00fcssel \u{1f511}" }),
  issue({ name: "empty sitekey", sitekey: "" }),
]

// What a browser has to find, whoever signed it. The numbers of this one were first computed by a third program.
const foreign = Buffer.from([1, 1, 4, 0, 0, 0, 4, 0, ...Array.from({ length: 40 }, (_, i) => i + 8)])
const found = [
  { name: "frozen, four searches", ...finish(foreign, [456, 503, 177, 189], () => Buffer.alloc(16)) },
  { name: "first and last numbers", ...finish(Buffer.from(foreign).fill(8, 2, 3), [0, 255, 0, 255, 255, 0, 128, 127], () => Buffer.alloc(16)) },
  ...solved.map(({ name, challenge, salt, difficulty, secrets, nonce }) => ({ name, challenge, salt, difficulty, secrets, nonce })),
]

// What has no answer: a browser must come to an end and say so.
const base = issue({ name: "base" })
const change = (at, value, of = base) => {
  const raw = Buffer.from(of.challenge, "base64url")
  raw[at] = value ?? raw[at] ^ 1
  return raw.toString("base64url")
}
const pick = ({ challenge, salt, difficulty }) => ({ challenge, salt, difficulty })
const unsolvable = [
  { name: "salt altered", ...pick(base), salt: issue({ name: "another" }).salt },
  { name: "salt empty", ...pick(base), salt: "" },
  { name: "difficulty lowered to a quarter", ...pick(base), difficulty: base.difficulty / 4 },
  { name: "difficulty inside altered", ...pick(base), challenge: change(6) },
  { name: "last target altered", ...pick(base), challenge: change(48 + 15 * 6 + 5) },
  { name: "truncated", ...pick(base), challenge: base.challenge.slice(0, -22) },
  { name: "extended", ...pick(base), challenge: base.challenge + "AAAA" },
  { name: "k of 0", ...pick(base), challenge: change(2, 0) },
  { name: "k of 17", ...pick(base), challenge: change(2, 17) },
  { name: "unknown version", ...pick(base), challenge: change(0, 2) },
  { name: "empty", ...pick(base), challenge: "" },
  { name: "not base64url", ...pick(base), challenge: "+" + base.challenge.slice(1) },
]

// What a server has to answer; no error means accepted.
const call = (name, error, of, changes = {}) => ({ name, error, sitekey: of.sitekey, challenge: of.challenge, nonce: of.nonce, now: of.now, ...changes })
const zeros = { ...base, ...finish(Buffer.from(base.challenge, "base64url").subarray(0, 48), Array(16).fill(0), () => Buffer.alloc(16)) }
const raw = Buffer.from(base.challenge, "base64url")
const resigned = (body, id) => {
  const unsigned = Buffer.concat([body, raw.subarray(48, 144)])
  return Buffer.concat([unsigned, createHmac("sha256", derived(id, "work")).update(unsigned).digest().subarray(0, 16)]).toString("base64url")
}
const verified = [
  ...solved.map((s) => call(s.name, "", s)),
  call("in its last millisecond", "", base, { now: base.now + lifetime }),
  call("clock a minute behind", "", base, { now: base.now - 60_000 }),
  call("a millisecond too late", "expired", base, { now: base.now + lifetime + 1 }),
  call("clock more than a minute behind", "expired", base, { now: base.now - 60_001 }),
  call("expired and of another sitekey", "sitekey", base, { now: base.now + lifetime + 1, sitekey: "pk_other" }),
  call("another sitekey", "sitekey", base, { sitekey: "pk_other" }),
  call("empty sitekey", "sitekey", base, { sitekey: "" }),
  call("nonce plus one", "nonce", base, { nonce: base.nonce + 1 }),
  call("nonce 0", "nonce", base, { nonce: 0 }),
  call("highest nonce", "nonce", base, { nonce: 2 ** 52 - 1 }),
  call("nonce beyond 52 bits", "nonce", base, { nonce: base.nonce + 2 ** 52 }),
  call("nonce of another challenge", "nonce", base, { nonce: solved[2].nonce }),
  call("nonce that folds no work at all", "nonce", base, { nonce: zeros.nonce }),
  call("targets replaced by easy ones", "forged", zeros),
  call("difficulty altered", "forged", base, { challenge: change(7) }),
  call("time altered", "forged", base, { challenge: change(15) }),
  call("sitekey altered inside", "forged", base, { challenge: change(16) }),
  call("id altered", "forged", base, { challenge: change(47) }),
  call("first target altered", "forged", base, { challenge: change(48) }),
  call("MAC altered", "forged", base, { challenge: change(159) }),
  call("key id of another key", "forged", base, { challenge: change(1, 7) }),
  call("unknown key id", "forged", base, { challenge: change(1, 9) }),
  call("signed with a key that is gone", "forged", issue({ name: "gone", id: 9 })),
  call("signed with the work key", "forged", base, { challenge: resigned(raw.subarray(0, 48), 1) }),
  call("MAC of zeros", "forged", base, { challenge: Buffer.concat([raw.subarray(0, 144), Buffer.alloc(16)]).toString("base64url") }),
  call("unknown version", "malformed", issue({ name: "version", version: 2 })),
  call("flag set", "malformed", issue({ name: "flags", flags: 1 })),
  call("k of 0", "malformed", base, { challenge: change(2, 0) }),
  call("k of 15 with 16 targets", "malformed", base, { challenge: change(2, 15) }),
  call("k of 17", "malformed", base, { challenge: change(2, 17) }),
  call("k of 255", "malformed", base, { challenge: change(2, 255) }),
  call("truncated by a character", "malformed", base, { challenge: base.challenge.slice(0, -1) }),
  call("truncated by a target", "malformed", base, { challenge: base.challenge.slice(0, -8) }),
  call("body only", "malformed", base, { challenge: base.challenge.slice(0, 64) }),
  call("empty", "malformed", base, { challenge: "" }),
  call("extended by a character", "malformed", base, { challenge: base.challenge + "A" }),
  call("extended by a line break", "malformed", base, { challenge: base.challenge + "\n" }),
  call("line break inside", "malformed", base, { challenge: base.challenge.slice(0, 100) + "\n" + base.challenge.slice(101) }),
  call("padded", "malformed", base, { challenge: base.challenge + "==" }),
  call("another text of the same bytes", "malformed", base, { challenge: base.challenge.slice(0, -1) + String.fromCharCode(base.challenge.charCodeAt(213) + 1) }),
  call("standard base64", "malformed", base, { challenge: "+" + base.challenge.slice(1) }),
  call("a hash with no challenge", "malformed", base, { challenge: sha256("work").toString("base64url") }),
  call("NUL", "malformed", base, { challenge: "A".repeat(100) + "\u0000" }),
]

const lines = (list) => "[\n" + list.map((entry) => "    " + JSON.stringify(entry)).join(",\n") + "\n  ]"
process.stdout.write(`{
  "keys": ${lines(keys)},
  "solve": ${lines(found)},
  "unsolvable": ${lines(unsolvable)},
  "verify": ${lines(verified)}
}
`)
