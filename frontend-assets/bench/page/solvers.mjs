// Each solver is a function that works for about the given milliseconds and returns its number of hashes.

function asker(worker) {
  return (message) =>
    new Promise((resolve, reject) => {
      worker.onmessage = (event) => resolve(event.data)
      worker.onerror = (event) => reject(new Error(event.message ?? "a worker was refused"))
      worker.postMessage(message)
    })
}

// ownSolver runs the worker's script as browsers load it. It selects its WebCrypto engine only where
// JavaScript is slow, so slowClock makes that worker's clock run fast.
export async function ownSolver(modulePath, slowClock = false) {
  const module = modulePath && (await (await fetch(modulePath)).arrayBuffer())
  let source = await (await fetch("/own/captcha-worker.js")).text()
  if (slowClock) source = "{ let added = 0; const now = performance.now.bind(performance); performance.now = () => now() + (added += 50) }" + source
  const ask = asker(new Worker(URL.createObjectURL(new Blob([source], { type: "text/javascript" }))))
  // A challenge of one search without a solution: each request takes exactly twice its difficulty in hashes.
  const bytes = Uint8Array.from({ length: 70 }, (_, i) => [1, 0, 1, 0][i] ?? 255)
  const challenge = btoa(String.fromCharCode(...bytes)).replaceAll("/", "_").replaceAll("+", "-").replace(/=+$/, "")
  const count = slowClock ? 1 << 15 : 1 << 19
  await ask({ challenge: { challenge, salt: "", difficulty: count / 2 }, module })
  await ask(0)
  const expected = slowClock ? "subtle" : module ? "wasm" : "js"
  return async (time) => {
    let hashes = 0
    const began = performance.now()
    while (performance.now() - began < time) {
      const [found, engine] = await ask(0)
      if (found !== -1 || engine !== expected) throw new Error(`expected ${expected}, ran ${engine} and found ${found}`)
      hashes += count
    }
    return hashes
  }
}

// packagedSolver runs a worker of this folder around a package.
export async function packagedSolver(name) {
  return asker(new Worker("/page/" + name, { type: "module" }))
}

// altchaSolver runs the package's own worker: SHA-256 with cost 1, for a hash that begins with two given bytes.
export async function altchaSolver() {
  const ask = asker(new Worker("/npm/altcha/dist/workers/sha.js"))
  let salt = 0x10000000
  return async (time) => {
    let hashes = 0
    const began = performance.now()
    while (performance.now() - began < time) {
      const parameters = { algorithm: "SHA-256", cost: 1, keyLength: 32, keyPrefix: "abcd", nonce: "00".repeat(16), salt: (salt++).toString(16) }
      const solution = await ask({ type: "work", challenge: { parameters }, counterStart: 0, counterStep: 1 })
      if (!solution || solution.error) throw new Error("altcha: " + solution?.error)
      hashes += solution.counter + 1
    }
    return hashes
  }
}
