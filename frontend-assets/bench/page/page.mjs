// Runs in the browser: measures one solver after the other and returns the rates.
import { ownSolver, packagedSolver, altchaSolver } from "./solvers.mjs"

const parameters = new URL(import.meta.url).searchParams
const rounds = +parameters.get("rounds")
const time = +parameters.get("window")

// clock returns milliseconds, of wall time or of the browser's processor time.
const clock = async () => (parameters.get("clock") === "cpu" ? +(await (await fetch("/cpu")).text()) : performance.now())

async function measure() {
  const solvers = {
    "own WebAssembly, SIMD": await ownSolver("/own/captcha.wasm"),
    "own WebAssembly": await ownSolver("/own/captcha-scalar.wasm"),
    "own JavaScript": await ownSolver(),
    "own WebCrypto": await ownSolver(undefined, true),
    "cap WebAssembly": await packagedSolver("cap.mjs"),
    "friendly WebAss.": await packagedSolver("friendly.mjs?wasm"),
    "friendly JS": await packagedSolver("friendly.mjs?js"),
    "altcha WebCrypto": await altchaSolver(),
  }
  const names = Object.keys(solvers)
  const rates = Object.fromEntries(names.map((name) => [name, []]))
  for (const name of names) await solvers[name](time / 2) // warm up
  for (let round = 0; round < rounds; round++) {
    for (let i = 0; i < names.length; i++) {
      const name = names[(i + round) % names.length]
      const began = await clock()
      const hashes = await solvers[name](time)
      rates[name].push(hashes / (await clock() - began) / 1000)
    }
  }
  return rates
}

const result = await measure().then((rates) => ({ rates }), (problem) => ({ failure: String(problem?.stack ?? problem) }))
await fetch("/result", { method: "POST", body: JSON.stringify(result) })
