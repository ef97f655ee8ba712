import { Unsupported } from './failures';
import type { Answer, Port, Rate, Request } from './protocol';
import { serverKey } from './protocol';

/** Path of the script with the engines, below {captcha_url}. */
export const workerScript = '/captcha-worker.js';

/** A member of the pool, a worker or the page itself, which executes requests one at a time. */
export interface Member {
  /**
   * Sends a request and returns its result. `onRate` gets the member's hashes per millisecond while
   * it searches. Rejects if the worker was refused or has failed.
   */
  send(request: Request, onRate?: (rate: Rate) => void): Promise<number>;
  end(): void;
}

/**
 * Returns the number of workers. One processor is left to the page. A browser that hides the number
 * of processors is assumed to have three.
 */
const poolSize = (): number => Math.min(Math.max((navigator.hardwareConcurrency || 3) - 1, 1), 4);

/**
 * Starts a pool of workers from the script's source. It throws if the page must not have workers.
 * Some browsers report that only later; then send rejects.
 */
export const startWorkers = (source: string): Member[] => {
  // Workers start from a blob because a worker's script must have the page's origin, and the
  // captcha has another origin.
  const url = URL.createObjectURL(new Blob([source], { type: 'text/javascript' }));
  const started: Member[] = [];
  const start = () => {
    const worker = new Worker(trustedURL(url));
    const end = () => {
      worker.terminate();
      // Not earlier, because some browsers resolve the address late.
      URL.revokeObjectURL(url);
    };
    started.push(newMember(worker, worker, end));
  };
  try {
    for (let i = poolSize(); i; i--) start();
  } catch (problem) {
    started.forEach((each) => each.end());
    URL.revokeObjectURL(url);
    throw problem;
  }
  return started;
};

/**
 * Loads the script into the page, for pages that must not have workers. The returned member yields
 * to the page every few milliseconds.
 */
export const startInPage = async (api: string): Promise<Member> => {
  // A script element would need a trusted type. import() does not, and works under a
  // Content-Security-Policy that trusts this script with its imports, its nonce or the captcha's
  // origin.
  if (!window[serverKey]) await import(api + workerScript);
  const channel = new MessageChannel();
  const port = channel.port1;
  window[serverKey]!(channel.port2, true);
  return newMember(port, null, () => {
    port.postMessage(null);
    port.close();
  });
};

const newMember = (port: Port, worker: Worker | null, end: () => void): Member => {
  const broken = new Promise<never>((_, reject) => {
    if (worker) {
      // The Content-Security-Policy's refusal arrives as this event, possibly before any request.
      worker.onerror = (event) => {
        event.preventDefault();
        reject(new Unsupported());
      };
    }
  });
  // Callers of send get the rejection. Without a caller it must not be reported as unhandled.
  broken.catch(() => {});
  const post = (request: Request, onRate?: (rate: Rate) => void) =>
    new Promise<number>((resolve, reject) => {
      port.onmessage = (event: MessageEvent<Answer | Rate>) => {
        const message = event.data;
        if (typeof message === 'number') return onRate && onRate(message);
        const result = message[0];
        if (result === null) reject(new Unsupported());
        else resolve(result);
      };
      port.postMessage(request);
    });
  return { send: (request, onRate) => Promise.race([broken, post(request, onRate)]), end };
};

/** The part of the Trusted Types API used here, which TypeScript's library lacks. */
interface TrustedTypes {
  createPolicy(name: string, rules: { createScriptURL(url: string): string }): { createScriptURL(url: string): string };
}

let policy: { createScriptURL(url: string): string } | undefined;

/**
 * Returns the worker's address as a trusted type, which pages with require-trusted-types-for need,
 * if the page allows the policy.
 */
const trustedURL = (url: string): string => {
  const types = (window as { trustedTypes?: TrustedTypes }).trustedTypes;
  try {
    // A policy of the same name can be created only once.
    policy = policy || types?.createPolicy('service-captcha', { createScriptURL: (own) => own });
  } catch {
    // The page allows other policies only. It may still accept a plain address.
  }
  return policy ? policy.createScriptURL(url) : url;
};
