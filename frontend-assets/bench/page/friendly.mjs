// A worker around friendly-pow: 20,000 hashes at a time, with a threshold that no hash is below.
import { getJSSolver } from "/npm/friendly-pow/api/js.js"
import { getWasmSolver } from "/npm/friendly-pow/api/wasm.js"

const make = async () => {
  self.ASC_TARGET = 0 // selects JavaScript instead of AssemblyScript
  if (import.meta.url.endsWith("?js")) return getJSSolver()
  return getWasmSolver(await WebAssembly.compileStreaming(fetch("/npm/friendly-pow/wasm/optimized.wasm")))
}
const made = make()
const count = 20_000

const work = async (time) => {
  const solve = await made
  let hashes = 0
  const began = performance.now()
  while (performance.now() - began < time) {
    const puzzle = new Uint8Array(128)
    new DataView(puzzle.buffer).setUint32(120, hashes)
    solve(puzzle, 0, count)
    hashes += count
  }
  return hashes
}

onmessage = ({ data: time }) => work(time).then(postMessage, (problem) => reportError(problem))
