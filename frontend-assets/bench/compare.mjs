// Measures the hash rates of the captcha's engines and of other captchas, in one run of Chromium:
//
//	npm ci && npm start                    in this folder
//	npm start -- --rounds 3 --window 300   faster and less exact; the window is in milliseconds
//	npm start -- --clock cpu               measures processor time, for a busy machine (Linux only)
//
// Each solver runs in one worker, as its package ships it. All solvers take turns within a round, and
// the order rotates from round to round. Only the ratios within a round are comparable with another
// machine. The program needs node and a Chromium on the PATH.
import { spawn } from "node:child_process"
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs"
import { createServer } from "node:http"
import { tmpdir } from "node:os"
import { extname, join, normalize } from "node:path"
import { parseArgs } from "node:util"

const { values: options } = parseArgs({
  options: { rounds: { type: "string", default: "7" }, window: { type: "string", default: "600" }, clock: { type: "string", default: "wall" }, browser: { type: "string", default: "chromium" } },
})
const here = import.meta.dirname
const folders = { "/own/": join(here, "..", "dist"), "/npm/": join(here, "node_modules"), "/page/": join(here, "page") }
const types = { ".js": "text/javascript", ".mjs": "text/javascript", ".wasm": "application/wasm" }

function read(path) {
  const prefix = Object.keys(folders).find((each) => path.startsWith(each))
  const file = prefix && normalize(path.slice(prefix.length))
  if (!file || file.startsWith("..")) return undefined
  // friendly-pow imports its own files without their extension.
  return readFileSync(join(folders[prefix], extname(file) ? file : file + ".js"))
}

// processorTime returns the processor time of all the browser's processes, in milliseconds.
function processorTime() {
  let nanoseconds = 0
  for (const pid of readdirSync("/proc").filter((name) => /^\d+$/.test(name))) {
    try {
      if (!readFileSync(`/proc/${pid}/cmdline`, "utf8").includes(profile)) continue
      for (const thread of readdirSync(`/proc/${pid}/task`)) {
        nanoseconds += +readFileSync(`/proc/${pid}/task/${thread}/schedstat`, "utf8").split(" ")[0]
      }
    } catch {
      // The process has ended meanwhile.
    }
  }
  return nanoseconds / 1e6
}

const finished = Promise.withResolvers?.() ?? (() => {
  const p = {}
  p.promise = new Promise((resolve, reject) => Object.assign(p, { resolve, reject }))
  return p
})()

const server = createServer(async (request, response) => {
  const path = request.url.split("?")[0]
  if (path === "/") {
    response.setHeader("content-type", "text/html")
    return response.end(`<script type="module" src="/page/page.mjs?rounds=${+options.rounds}&window=${+options.window}&clock=${options.clock}"></script>`)
  }
  if (path === "/cpu") return response.end(String(processorTime()))
  if (path === "/result") {
    let body = ""
    for await (const chunk of request) body += chunk
    response.end()
    const { failure, rates } = JSON.parse(body)
    return failure ? finished.reject(new Error(failure)) : finished.resolve(rates)
  }
  try {
    const content = read(path)
    response.statusCode = content ? 200 : 404
    response.setHeader("content-type", types[extname(path)] ?? "text/javascript")
    response.end(content)
  } catch {
    response.statusCode = 404
    response.end()
  }
})
await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve))

const profile = mkdtempSync(join(tmpdir(), "solver-comparison-"))
const browser = spawn(
  options.browser,
  ["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run", "--user-data-dir=" + profile,
    `http://127.0.0.1:${server.address().port}/`],
  { stdio: "ignore" },
)
browser.on("error", (problem) => finished.reject(problem))
for (const signal of ["SIGINT", "SIGTERM"]) process.on(signal, () => finished.reject(new Error(signal)))
browser.on("exit", (code) => finished.reject(new Error("the browser ended with " + code)))

try {
  report(await finished.promise)
} finally {
  const ended = new Promise((resolve) => browser.once("exit", resolve))
  if (browser.kill()) await ended
  rmSync(profile, { recursive: true, force: true, maxRetries: 5, retryDelay: 100 })
  server.close()
}

// report prints the results: { solver: [million hashes per second, one for each round] }.
function report(rates) {
  const names = Object.keys(rates)
  const own = names.filter((name) => name.startsWith("own"))
  const others = names.filter((name) => !name.startsWith("own"))
  const median = (list) => list.toSorted((a, b) => a - b)[list.length >> 1]
  const cell = (text) => String(text).padStart(16)

  console.log(`million hashes per second (${options.clock})`.padEnd(34) + cell("median") + cell("least") + cell("most"))
  for (const name of names) {
    const list = rates[name]
    console.log(name.padEnd(34) + [median(list), Math.min(...list), Math.max(...list)].map((rate) => cell(rate.toFixed(rate < 1 ? 3 : 2))).join(""))
  }
  console.log("\nmedian of the rounds' ratios".padEnd(35) + others.map((name) => cell(name.slice(0, 15))).join(""))
  for (const name of own) {
    const ratios = others.map((other) => median(rates[name].map((rate, round) => rate / rates[other][round])))
    console.log(name.padEnd(34) + ratios.map((ratio) => cell(ratio.toFixed(2))).join(""))
  }
}
