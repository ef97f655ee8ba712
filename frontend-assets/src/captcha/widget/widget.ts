import { solve, Unsupported } from '../engine/solver';
import type { Challenge } from '../engine/solver';
import { bounded, post, Problem } from './api';
import { apiOf } from './origin';
import { draw } from './view';
import type { State } from './view';

/** One widget of the page, as the page's keeper (page.ts) sees it. */
export interface Widget {
  /** Clears the field, goes back to idle and solves again at once. */
  reset(): void;
  /** Follows what became of the element in the page: another form, a sitekey, content taken away. */
  follow(): void;
  /** Renews the token when its time has come. Called every few seconds, and whenever time may have been lost. */
  tick(): void;
  /** Tries again at once, if it waits for another try. */
  retry(): void;
  /** Gives up a token that has probably been used. */
  spent(): void;
  /** Ends all work and takes everything back out of the page. */
  end(): void;
}

// In milliseconds, by the wall clock: other clocks stand still while a computer sleeps.
const lifetime = 300_000; // of a token (captcha contract, section 8)
const renewal = 210_000; // early enough for a hidden tab, whose timers run once a minute

// Pauses before another try, in milliseconds: doubled each time, and spread so that a server that comes back is not overrun.
const firstPause = 1000;
const longestPause = 60_000;

/**
 * How many times the usual patience (api.ts) each sixteenth of the work may take. Two minutes are enough for the hardest one at
 * 20,000 hashes a second.
 */
const workPatience = 6;

/** A server that asks for no longer wait than this, in milliseconds, is not reported to be in trouble at its first failure. */
const passingWait = 2000;

// Some pages keep copies of themselves to go back to. A copied field would send an old token before the new one.
const fieldClass = 'svc-captcha-field';
const fields = new WeakSet<Element>();

/** What counts as interaction with a form. Typing needs a click or focus first, but autofill and autofocus give neither. */
const interactions = ['focusin', 'pointerdown', 'input', 'keydown', 'submit'];

/** Whether somebody has gone into a form before we came. Where the page itself has put the focus does not count. */
const isUsed = (form: HTMLFormElement): boolean => {
  const active = document.activeElement as HTMLInputElement | null;
  return form.contains(active) && !active!.autofocus;
};

/** Makes a widget of an element. It starts at the first interaction with its form, or at once if it is in none. */
export const mount = (element: HTMLElement): Widget => {
  const view = draw(element, () => state === 'idle' || state === 'error' ? run() : undefined);
  const input = document.createElement('input');
  input.type = 'hidden';
  input.className = fieldClass;
  fields.add(input);
  input.autocomplete = 'off'; // a reload must not bring an old token back

  let state: State;
  let form: HTMLFormElement | null = null;
  let solvedAt = 0;
  let renewAt = 0; // age of the token in milliseconds
  let notBefore = 0; // the server wants no request until then
  let sitekey: string; // empty when there is none
  let api = ''; // where the last exchange went
  let work = new AbortController();
  let wake = () => {};

  const show = (next: State, reason?: string) => view.show((state = next), reason);
  const setToken = (token: string) => {
    input.name = element.dataset.responseFieldName || 'service-captcha-response';
    input.value = token;
    if (token) (form || element).append(input);
  };

  /** Starts over. A token that is still good stays in the form until the new one replaces it. */
  const run = () => {
    work.abort();
    work = new AbortController();
    if (!input.value) show('verifying');
    void obtain(work.signal);
  };

  /** Gets a token, however many tries it takes. Never rejects. */
  const obtain = async (signal: AbortSignal): Promise<void> => {
    let refused = false;
    for (let failures = 0; !signal.aborted; ) {
      try {
        return await exchange(signal);
      } catch (thrown) {
        if (signal.aborted) return;
        const problem = thrown instanceof Problem ? thrown : new Problem('unsupported');
        const reason = problem.reason;
        if (reason === 'refused' && !refused) {
          refused = true;
          continue;
        }
        const temporary = reason === 'unreachable' || reason === 'busy';
        const pause = Math.min(firstPause * 2 ** failures, longestPause) * (0.5 + Math.random());
        if (problem.wait) notBefore = Date.now() + problem.wait;
        // A first failure may be gone in a moment, and while there is a good token it is nobody's trouble.
        const passing = temporary && !failures && problem.wait <= passingWait && navigator.onLine;
        if (!input.value && !passing) show('error', explain(problem));
        if (!temporary) return;
        failures++;
        await sleep(Math.max(pause, problem.wait), signal);
      }
    }
  };

  /** Challenge, work, token (captcha contract, section 1). */
  const exchange = async (signal: AbortSignal): Promise<void> => {
    if (Date.now() < notBefore) throw new Problem('busy', '', notBefore - Date.now());
    if (!sitekey) throw new Problem('setup', 'data-sitekey is missing');
    api = apiOf(element.dataset.api);
    const given = await post(api, 'config', { sitekey }, signal);
    const task = { challenge: given.challenge, salt: given.salt, difficulty: given.difficulty } as Challenge;
    if (typeof task.challenge !== 'string' || typeof task.salt !== 'string' || typeof task.difficulty !== 'number') {
      throw new Problem('unreachable');
    }
    let working = false;
    const nonce = await bounded(signal, (signal, alive) => {
      const progress = (done: number, total: number) => {
        working = true;
        alive(workPatience);
        view.progress(done / total);
      };
      return solve(task, api, progress, signal);
    }).catch((problem) => {
      // Once it works, it no longer depends on the server. And a browser that is too slow would be no faster the next time.
      throw new Problem(working || problem instanceof Unsupported ? 'unsupported' : 'unreachable');
    });
    const at = Date.now(); // the token's life begins at the server, sometime after this
    const token = (await post(api, 'verify', { sitekey, challenge: task.challenge, nonce }, signal)).token;
    if (typeof token !== 'string' || !token) throw new Problem('unreachable');
    if (signal.aborted) return;
    solvedAt = at;
    renewAt = renewal;
    const first = !input.value;
    setToken(token);
    if (first) show('done');
  };

  /** What to tell about a problem, in the visitor's language as far as it is for the visitor. */
  const explain = (problem: Problem): string => {
    const reason = problem.reason;
    const detail = reason === 'unreachable' ? new URL(api).host : problem.detail;
    if (reason === 'refused') return detail;
    return view.texts[reason] + (detail && reason !== 'busy' ? ': ' + detail : '');
  };

  const sleep = (duration: number, signal: AbortSignal): Promise<void> =>
    new Promise((resolve) => {
      const end = () => {
        clearTimeout(timer);
        signal.removeEventListener('abort', end);
        resolve();
      };
      const timer = setTimeout(end, duration);
      signal.addEventListener('abort', (wake = end));
    });

  const interacted = () => {
    if (state === 'idle') run();
  };
  const listen = (change: 'addEventListener' | 'removeEventListener') =>
    interactions.forEach((type) => form && form[change](type, interacted, true));

  const widget: Widget = {
    reset() {
      setToken('');
      show('idle');
      run();
    },
    follow() {
      const now = element.closest('form');
      if (now !== form) {
        listen('removeEventListener');
        form = now;
        listen('addEventListener');
      }
      view.restore();
      (form || element).querySelectorAll('.' + fieldClass).forEach((each) => fields.has(each) || each.remove());
      const before = sitekey;
      sitekey = element.dataset.sitekey || '';
      // Work, token and error are those of the sitekey before. Where there was none, nothing has begun.
      if (sitekey !== before && state !== 'idle') {
        if (before) widget.reset();
        else show('idle');
      }
      // Whoever made the page sees at once that the sitekey is missing. And somebody may be in the form already.
      if (state === 'idle' && (!form || !sitekey || isUsed(form))) run();
      if (input.value && input.parentNode !== (form || element)) (form || element).append(input);
    },
    tick() {
      if (!input.value) return;
      const age = Math.abs(Date.now() - solvedAt); // a clock that was set back makes the age unknown, so old
      if (age < renewAt) return;
      renewAt = lifetime;
      if (age >= lifetime) setToken('');
      run();
    },
    retry: () => wake(),
    spent: () => (input.value ? widget.reset() : undefined),
    end() {
      work.abort();
      listen('removeEventListener');
      input.remove();
      view.remove();
    },
  };
  show('idle');
  widget.follow();
  return widget;
};
