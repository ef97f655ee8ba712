package browsertest

// ObserveFetch returns a script that puts a function in the place of the page's fetch, and lets it
// pass for the browser's own. The JavaScript expression may call the browser's as get.
func ObserveFetch(function string) string {
	return `{ const get = window.fetch, observed = ` + function + `, text = Function.prototype.toString;
		Function.prototype.toString = function () { return text.call(this === observed ? get : this) };
		window.fetch = observed }`
}

// ReplacedFetch has scripts by which pages replace fetch, and with which it no longer does what the
// browser's own does.
var ReplacedFetch = map[string]string{
	"adds a header":        `{ const get = fetch; window.fetch = (url, init = {}) => get(url, {...init, headers: {...init.headers, "X-Requested-With": "app"}}) }`,
	"is a proxy":           `window.fetch = new Proxy(fetch, {apply: (get, page, [url, init]) => get(url, {...init, headers: {"X-Trace": "1"}})})`,
	"sends cookies":        `{ const get = fetch; window.fetch = (url, init) => get(url, {...init, headers: {"X-Trace": "1"}, credentials: "include"}) }`,
	"repeats":              `{ const get = fetch; window.fetch = async (...call) => { await get(...call); await get(...call); return get(...call) } }`,
	"waits":                `{ const get = fetch; window.fetch = async (...call) => { await new Promise((end) => setTimeout(end, 400)); return get(...call) } }`,
	"never answers":        `window.fetch = () => new Promise(() => {})`,
	"rejects":              `window.fetch = () => Promise.reject(new Error("no"))`,
	"throws":               `window.fetch = () => { throw new Error("no") }`,
	"returns nothing":      `window.fetch = () => {}`,
	"is missing":           `window.fetch = undefined`,
	"answers what is sent": `{ const get = fetch; window.fetch = async (...call) => (await get(...call)).json() }`,
}
