// A worker around @cap.js/wasm with the challenges of its core: a target of four hexadecimal digits.
import init, { solve_pow } from "/npm/@cap.js/wasm/browser/cap_wasm.js"

const ready = init({ module_or_path: "/npm/@cap.js/wasm/browser/cap_wasm_bg.wasm" })
let salt = 0

const work = async (time) => {
  await ready
  let hashes = 0
  const began = performance.now()
  while (performance.now() - began < time) hashes += Number(solve_pow((salt++).toString(16).padStart(32, "0"), "abcd")) + 1
  return hashes
}

onmessage = ({ data: time }) => work(time).then(postMessage, (problem) => reportError(problem))
