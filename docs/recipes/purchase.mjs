// A shop's back end reports a purchase, when it is paid, with Node 18 or newer and no package. The
// address and user agent come from the visitor's request to the shop: they find the visit that the
// browser began, and are not stored.
//
//   ANALYTICS_URL=https://stats.example.com SERVER_SECRET=svcs_… node purchase.mjs '{"id": "T-1", …}'
export async function purchase(order) {
  const response = await fetch(`${process.env.ANALYTICS_URL}/server.php`, {
    method: 'POST',
    headers: { Authorization: `Bearer ${process.env.SERVER_SECRET}`, 'Content-Type': 'application/json' },
    body: JSON.stringify({
      event: 'purchase',
      ip: order.ip,
      user_agent: order.userAgent,
      path: '/checkout/thanks',
      meta: { transaction_id: order.id, value: order.total, currency: order.currency, items: order.items },
    }),
    signal: AbortSignal.timeout(10_000),
  })
  // A 503 is temporary. The same transaction_id counts once, so it can be sent again.
  if (!response.ok) throw new Error(`${response.status} ${await response.text()}`)
  return response.json()
}

console.log((await purchase(JSON.parse(process.argv[2]))).status)
