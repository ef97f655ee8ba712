// Verifies the token of a form, with Node 18 or newer and no package.
//
//   CAPTCHA_URL=https://captcha.example.com CAPTCHA_SECRET=svcc_… node siteverify.mjs TOKEN
import { realpathSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

export async function verify(token) {
  const response = await fetch(`${process.env.CAPTCHA_URL}/siteverify`, {
    method: 'POST',
    body: new URLSearchParams({ secret: process.env.CAPTCHA_SECRET, response: token }),
    signal: AbortSignal.timeout(10_000), // an outage throws: refuse, and ask to send again later
  })
  const answer = await response.json()
  return { ok: answer.success, codes: answer['error-codes'] ?? [] }
}

if (process.argv[1] && realpathSync(process.argv[1]) === fileURLToPath(import.meta.url)) {
  const { ok, codes } = await verify(process.argv[2])
  console.log(ok, codes.join(' '))
}
