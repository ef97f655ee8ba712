// Shows today's stored page views: what the owner would download, asked for once a second while the page is in view. Only
// rows that the page does not have yet are asked for; engagement that comes later shows when the page is loaded again.
const rows = document.getElementById('rows')
const state = document.getElementById('state')
const shown = 30
let list = []
let first = true

function cells(row) {
  return [
    row.time.slice(11, 19),
    row.path,
    row.visit_id.slice(-6),
    row.channel,
    [row.utm_source, row.utm_medium, row.utm_campaign].filter(Boolean).join(' / ') || '–',
    row.engaged_ms ? `${(row.engaged_ms / 1000).toFixed(1)} s` : '–',
    `${row.scroll_percent} %`,
  ]
}

function line(row) {
  const tr = document.createElement('tr')
  tr.append(...cells(row).map((text) => Object.assign(document.createElement('td'), { textContent: text })))
  tr.classList.toggle('fresh', !first)
  return tr
}

function add(fresh) {
  list = list.concat(fresh)
  rows.prepend(...fresh.slice(-shown).reverse().map(line))
  while (rows.children.length > shown) rows.lastChild.remove()
  state.textContent = list.length ? `${list.length} today` : 'None yet today.'
  first = false
}

async function refresh() {
  try {
    if (!document.hidden) {
      const last = list.at(-1)
      const response = await fetch('/demo/latest.json' + (last ? `?cursor=${last.row_id}` : ''))
      if (!response.ok) throw new Error(`the export answered ${response.status}`)
      add(await response.json())
    }
  } catch (error) {
    state.textContent = `Not reachable: ${error.message}`
  }
  setTimeout(refresh, 1000)
}

refresh()
