// A shop's back end reports a purchase, when it is paid, with Node 18 or newer and no package. The
// address and user agent come from the visitor's request to the shop: they find the visit that the
// browser began, and are not stored.
//
//   ANALYTICS_URL=https://stats.example.com SERVER_SECRET=svcs_… node purchase.mjs '{"id": "T-1", …}'
import { realpathSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

/** Returns 'recorded', 'ignored' or 'refused', and throws if the purchase should be sent again later. */
export async function purchase(order) {
  const response = await fetch(`${process.env.ANALYTICS_URL}/server.php`, {
    method: 'POST',
    headers: { Authorization: `Bearer ${process.env.SERVER_SECRET}`, 'Content-Type': 'application/json' },
    body: JSON.stringify({
      event: 'purchase',
      ip: order.ip,
      user_agent: order.userAgent,
      path: '/checkout/thanks',
      meta: { transaction_id: order.id, value: amount(order.total), currency: order.currency, items: order.items },
    }),
    signal: AbortSignal.timeout(10_000),
  })
  const answer = await response.text()
  // A limit or an outage. The same transaction_id counts once, so it can be sent again.
  if (response.status === 429 || response.status >= 500) throw new Error(`send it again later: ${response.status} ${answer}`)
  // Any other refusal is final. The answer may name the field.
  if (!response.ok) {
    console.error(`purchase ${order.id} is refused: ${response.status} ${answer}`)
    return 'refused'
  }
  return JSON.parse(answer).status
}

/** The service takes numbers only. Many shops have texts such as "19.90". */
function amount(total) {
  if (!/^\d+(\.\d+)?$/.test(total)) throw new TypeError(`not an amount: ${total}`)
  return Number(total)
}

if (process.argv[1] && realpathSync(process.argv[1]) === fileURLToPath(import.meta.url)) {
  console.log(await purchase(JSON.parse(process.argv[2])))
}
