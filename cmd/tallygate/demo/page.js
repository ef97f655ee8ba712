// The script of the demo's pages: it polls the stored page views or received webhooks once a second while the page is
// visible, and sells a kettle.
const byId = (id) => document.getElementById(id)
const shown = 30

// follow polls JSON from an address, passes it to show, and displays the returned text.
async function follow(address, show) {
  let text
  try {
    if (document.hidden) return
    const response = await fetch(address())
    if (!response.ok) throw new Error(`the shop responded ${response.status}`)
    text = show(await response.json())
  } catch (error) {
    text = `Not reachable: ${error.message}`
  } finally {
    if (text && byId('state').textContent !== text) byId('state').textContent = text
    setTimeout(follow, 1000, address, show)
  }
}

function line(cells, fresh) {
  const tr = document.createElement('tr')
  tr.append(...cells.map((text) => Object.assign(document.createElement('td'), { textContent: text })))
  tr.classList.toggle('fresh', fresh)
  return tr
}

const campaign = (from) => [from.utm_source, from.utm_medium, from.utm_campaign].filter(Boolean).join(' / ') || '–'

// Page views: the owner's download. Only new rows are requested; later engagement appears after reloading the page.
function followPageviews(rows) {
  let last
  let count = 0
  const cells = (row) => [
    row.time.slice(11, 19),
    row.path,
    row.visit_id.slice(-6),
    row.channel,
    campaign(row),
    row.engaged_ms ? `${(row.engaged_ms / 1000).toFixed(1)} s` : '–',
    `${row.scroll_percent} %`,
  ]
  let first = true
  follow(
    () => '/demo/latest.json' + (last ? `?cursor=${last.row_id}` : ''),
    (fresh) => {
      last = fresh.at(-1) ?? last
      count += fresh.length
      rows.prepend(...fresh.slice(-shown).reverse().map((row) => line(cells(row), !first)))
      while (rows.children.length > shown) rows.lastChild.remove()
      first = false
      return count ? `${count} today` : 'None yet today.'
    },
  )
}

// Webhooks: the calls that the shop's back end received.
function followCalls(rows) {
  let newest
  const cells = ({ time, valid, body }) => [
    time.slice(11, 19),
    body?.event ?? body?.type ?? '–',
    body?.transaction_id ?? '–',
    body?.value === undefined ? '–' : `${body.value} ${body.currency}`,
    body?.attribution?.channel ?? '–',
    campaign(body?.attribution ?? {}),
    valid ? 'valid' : 'wrong, refused',
  ]
  follow(
    () => '/demo/webhooks.json',
    (calls) => {
      if (calls[0] && calls[0].time !== newest) {
        const fresh = (call) => newest !== undefined && call.time > newest
        rows.replaceChildren(...calls.map((call) => line(cells(call), fresh(call))))
        byId('body').textContent = JSON.stringify(calls.find((call) => call.valid)?.body ?? 'refused', null, 2)
      }
      newest = calls[0]?.time ?? ''
      return calls.length ? `${calls.length} since the start` : 'None yet.'
    },
  )
}

// Each click buys another kettle. A shop sends this event on its confirmation page, with the order's number.
function sell(button) {
  button.addEventListener('click', () => {
    const id = 'T-' + Date.now().toString(36).toUpperCase()
    const bought = byId('bought')
    bought.hidden = false
    if (!window.svc) {
      bought.textContent = 'The script was not loaded, so nothing was sent.'
      return
    }
    window.svc('event', 'purchase', { transaction_id: id, value: 39.9, currency: 'EUR', items: [{ item_id: 'kettle', quantity: 1 }] })
    const link = Object.assign(document.createElement('a'), { href: '/webhooks', textContent: 'the shop’s received webhooks' })
    bought.replaceChildren(`Bought as ${id}. See `, link, '.')
  })
}

if (byId('rows')) followPageviews(byId('rows'))
if (byId('calls')) followCalls(byId('calls'))
if (byId('buy')) sell(byId('buy'))
