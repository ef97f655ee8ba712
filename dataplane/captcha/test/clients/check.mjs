// Checks that server libraries of other captcha services work with Tallygate, unchanged but for the address they call: a fresh
// token is a success with its host name and time, the same token again is timeout-or-duplicate, and a wrong secret is
// invalid-input-secret.
//
//   npm ci && node check.mjs http://127.0.0.1:8081          with a running tallygate, demo or serve
//   npm ci && node check.mjs --record                       prints what each library sends, for clients_test.go
//
// It uses the test sitekey, so that nothing counts.
import http from 'node:http'
import https from 'node:https'
import { createHash } from 'node:crypto'
import { createRequire } from 'node:module'

const require = createRequire(import.meta.url)
const sitekey = 'svck_TestTestTestTestTestTest'
const secret = 'svcc_TestTestTestTestTestTestTestTe0kP4So'
const origin = 'https://www.example.com'
const record = process.argv[2] === '--record'
let target = record ? await recorder() : new URL(process.argv[2] ?? 'http://127.0.0.1:8081')

// The services' own addresses are written into the libraries. Whatever they call, they reach target + /siteverify.
https.request = (options, callback) =>
  http.request({ ...options, protocol: 'http:', host: target.hostname, hostname: target.hostname, port: target.port, path: '/siteverify', agent: undefined }, callback)
const realFetch = globalThis.fetch
globalThis.fetch = (address, init) =>
  realFetch(String(address).startsWith(target.origin) ? address : new URL('/siteverify', target), init)

const { RecaptchaV2 } = require('express-recaptcha')
const hcaptcha = require('hcaptcha')
const { verifyHcaptchaToken } = require('verify-hcaptcha')
const { TurnstileVerify } = require('turnstile-verify')
const cfTurnstile = require('cf-turnstile')

// Each library, as its own documentation uses it. The result: success, or the list of error codes; and what else it passes on.
const libraries = {
  'express-recaptcha': (secret, token) => new Promise((resolve) => {
    const request = { body: { 'g-recaptcha-response': token }, headers: {}, connection: { remoteAddress: '203.0.113.1' } }
    new RecaptchaV2(sitekey, secret, { checkremoteip: true }).verify(request, (error, data) =>
      resolve({ success: !error, errors: error ? [error] : [], hostname: data?.hostname }))
  }),
  hcaptcha: async (secret, token) => {
    const data = await hcaptcha.verify(secret, token, '203.0.113.1', sitekey)
    return { success: data.success, errors: data['error-codes'] ?? [], hostname: data.hostname, at: data.challenge_ts }
  },
  'verify-hcaptcha': async (secretKey, token) => {
    const data = await verifyHcaptchaToken({ secretKey, token, siteKey: sitekey, remoteIp: '203.0.113.1' })
    return { success: data.success, errors: data.errorCodes ?? data['error-codes'] ?? [], hostname: data.hostname, at: data.challengeTimestamp ?? data.challenge_ts }
  },
  'turnstile-verify': async (secret, token) => {
    const data = await new TurnstileVerify({ token: secret }).validate({
      response: token, remoteip: '203.0.113.1', idempotency_key: '4f6cbe08-1b6f-4e2f-9a55-7ff6a9f2f3a1',
    })
    return { success: data.valid, errors: data.valid ? [] : data.messages }
  },
  'cf-turnstile': async (secret, token) => {
    const data = await cfTurnstile(secret)(token, { apiUrl: new URL('/siteverify', target).href, remoteip: '203.0.113.1' })
    return { success: data.success, errors: data.errors, hostname: data.hostname, at: data.timestamp }
  },
}

let failed = false
for (const [name, verify] of Object.entries(libraries)) {
  if (record) {
    console.log('== ' + name)
    await verify('SECRET', 'TOKEN').catch(() => {})
    continue
  }
  const token = await newToken()
  expect(name, 'a fresh token', await verify(secret, token), (r) =>
    r.success && r.errors.length === 0 && ['www.example.com', undefined].includes(r.hostname) && !(Number.isNaN(Date.parse(r.at ?? new Date()))))
  expect(name, 'the same token', await verify(secret, token), (r) => !r.success && String(r.errors) === 'timeout-or-duplicate')
  expect(name, 'a wrong secret', await verify('wrong', token), (r) => !r.success && String(r.errors) === 'invalid-input-secret')
}
process.exit(failed ? 1 : 0)

function expect(name, what, result, isRight) {
  const right = isRight(result)
  failed ||= !right
  console.log(`${right ? 'ok  ' : 'FAIL'} ${name}: ${what}: ${JSON.stringify(result)}`)
}

// newToken goes the widget's way: challenge, work, token.
async function newToken() {
  const challenge = await post('/api/v1/pow/config', { sitekey })
  return (await post('/api/v1/pow/verify', { sitekey, challenge: challenge.challenge, nonce: solve(challenge) })).token
}

async function post(path, body) {
  const response = await realFetch(new URL(path, target), {
    method: 'POST', headers: { Origin: origin, 'Content-Type': 'application/json' }, body: JSON.stringify(body),
  })
  if (!response.ok) throw new Error(`${path}: ${response.status} ${await response.text()}`)
  return response.json()
}

// solve is the work function in its plainest form (dataplane/captcha/pow describes it).
function solve({ challenge, salt, difficulty }) {
  const sha = (...parts) => parts.reduce((hash, part) => hash.update(part), createHash('sha256')).digest()
  const raw = Buffer.from(challenge, 'base64url')
  const searches = raw[2]
  const seed = sha(raw.subarray(0, 48), salt)
  const found = Buffer.alloc(4 * searches)
  const input = Buffer.concat([Buffer.alloc(8), seed])
  for (let i = 0; i < searches; i++) {
    const goal = raw.subarray(48 + 6 * i, 54 + 6 * i)
    input.writeUInt32BE(i, 0)
    for (let n = 0; ; n++) {
      if (n > (2 * difficulty) / searches) throw new Error('no answer')
      input.writeUInt32BE(n, 4)
      if (sha(input).compare(goal, 0, 6, 0, 6) === 0) {
        found.writeUInt32BE(n, 4 * i)
        break
      }
    }
  }
  return Number(sha(seed, found).readBigUInt64BE(0) >> 12n)
}

// recorder is a server that prints each request as it arrived, and refuses it.
async function recorder() {
  const server = http.createServer((request, response) => {
    let body = ''
    request.on('data', (part) => (body += part))
    request.on('end', () => {
      console.log(`${request.method} ${request.url}`)
      for (let i = 0; i < request.rawHeaders.length; i += 2) console.log(`${request.rawHeaders[i]}: ${request.rawHeaders[i + 1]}`)
      console.log(`\n${body}\n`)
      response.setHeader('Content-Type', 'application/json')
      response.end('{"success":false,"error-codes":["internal-error"]}')
    })
  })
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve))
  return new URL(`http://127.0.0.1:${server.address().port}`)
}
