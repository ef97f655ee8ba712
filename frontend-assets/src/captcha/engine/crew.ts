import { Unsupported } from './failures';
import type { Answer, Port, Request } from './protocol';
import { server } from './protocol';

/** The file that holds the engines, below the captcha's origin. */
export const script = '/captcha-worker.js';

/** A worker, or the page itself, that does what it is asked. */
export interface Member {
  /** Rejects when the worker was refused or has broken. */
  ask(request: Request): Promise<number>;
  end(): void;
}

/**
 * How many workers share the work: one processor is left to the page. Browsers that keep the number
 * secret have two at least.
 */
const size = (): number => Math.min(Math.max((navigator.hardwareConcurrency || 3) - 1, 1), 4);

/**
 * Starts workers from the script's source. Throws when the page may have none; where it only
 * becomes clear later, asking rejects.
 */
export const workers = (source: string): Member[] => {
  // From a blob, since the captcha has another origin than the page.
  const url = URL.createObjectURL(new Blob([source], { type: 'text/javascript' }));
  const started: Member[] = [];
  const start = () => {
    const worker = new Worker(trusted(url));
    const end = () => {
      worker.terminate();
      URL.revokeObjectURL(url); // not before, as some browsers look it up late
    };
    started.push(member(worker, worker, end));
  };
  try {
    for (let i = size(); i; i--) start();
  } catch (problem) {
    started.forEach((each) => each.end());
    URL.revokeObjectURL(url);
    throw problem;
  }
  return started;
};

/**
 * Makes the page itself a member: it runs the script, and gets its turn every few milliseconds
 * while it works.
 */
export const page = async (api: string): Promise<Member> => {
  // Not by a script element: import() works where the Content-Security-Policy trusts this script
  // and whatever it loads, or its nonce, or the captcha's origin, and asks for no trusted type.
  if (!window[server]) await import(api + script);
  const channel = new MessageChannel();
  const port = channel.port1;
  window[server]!(channel.port2, true);
  return member(port, null, () => {
    port.postMessage(null);
    port.close();
  });
};

const member = (port: Port, worker: Worker | null, end: () => void): Member => {
  const broken = new Promise<never>((_, reject) => {
    if (worker) {
      // So comes the Content-Security-Policy's refusal, perhaps before anything is asked.
      worker.onerror = (event) => {
        event.preventDefault();
        reject(new Unsupported());
      };
    }
  });
  // Callers of ask get the rejection; without a caller it must not be reported as unhandled.
  broken.catch(() => {});
  const ask = (request: Request) =>
    new Promise<number>((resolve, reject) => {
      port.onmessage = (event: MessageEvent<Answer>) => {
        const result = event.data[0];
        if (result === null) reject(new Unsupported());
        else resolve(result);
      };
      port.postMessage(request);
    });
  return { ask: (request) => Promise.race([broken, ask(request)]), end };
};

/** TypeScript does not know the Trusted Types API. */
interface TrustedTypes {
  createPolicy(name: string, rules: { createScriptURL(url: string): string }): { createScriptURL(url: string): string };
}

let policy: { createScriptURL(url: string): string } | undefined;

/**
 * The worker's address in the form that pages with require-trusted-types-for ask for, if they allow
 * the policy.
 */
const trusted = (url: string): string => {
  const types = (window as { trustedTypes?: TrustedTypes }).trustedTypes;
  try {
    // A policy of a name can be made once.
    policy = policy || types?.createPolicy('service-captcha', { createScriptURL: (own) => own });
  } catch {
    // The page allows other policies only. It may still allow the plain address.
  }
  return policy ? policy.createScriptURL(url) : url;
};
