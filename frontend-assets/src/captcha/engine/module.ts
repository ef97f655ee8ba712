import { request } from '../request';

/**
 * A WebAssembly module with a SIMD instruction, used to detect support. Its first eight bytes are an
 * empty module.
 */
const probe = Uint8Array.of(
  ...[0, 97, 115, 109, 1, 0, 0, 0], // magic number, version
  ...[1, 5, 1, 96, 0, 1, 123], // a type: function without parameters that returns a v128
  ...[3, 2, 1, 0], // a function of this type
  ...[10, 8, 1, 6, 0, 65, 0, 253, 17, 11], // i32.const 0, i32x4.splat
);

/**
 * Fetches the fastest WebAssembly engine that the page may run. Returns undefined if it may not run
 * any, and never rejects.
 */
export const fetchModule = async (api: string): Promise<ArrayBuffer | undefined> => {
  try {
    const simd = WebAssembly.validate(probe);
    // This throws under a Content-Security-Policy without 'wasm-unsafe-eval'. Tested here, the
    // browser reports the violation once instead of once for each worker.
    new WebAssembly.Module(simd ? probe : probe.slice(0, 8));
    const response = await request(api + (simd ? '/captcha.wasm' : '/captcha-scalar.wasm'));
    return response.ok ? await response.arrayBuffer() : undefined;
  } catch {
    return undefined;
  }
};
