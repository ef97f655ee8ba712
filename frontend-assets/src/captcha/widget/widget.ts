import { solve, Unsupported } from '../engine/solver';
import type { Challenge } from '../engine/solver';
import { bounded, post, Problem } from './api';
import { bare, page, setting } from './dom';
import { apiOf } from './origin';
import { inTurn } from './turn';
import { draw } from './view';
import type { State } from './view';

/** One widget of the page, as the page's keeper (page.ts) sees it. */
export interface Widget {
  /** Clears the field, goes back to idle and solves again at once. */
  reset(): void;
  /**
   * Follows the page: another form, other attributes, content or classes taken away. Called at each
   * change of the page.
   */
  follow(): void;
  /**
   * Renews the token when its time has come. Called every few seconds, and whenever time may have
   * been lost.
   */
  tick(): void;
  /** Returns the token, or an empty string when there is none that is still good. */
  response(): string;
  /** Tries again at once, if it waits for a retry. */
  retry(): void;
  /** Gives up a token that has probably been used. */
  spent(): void;
  /** Shows an error of our own. Never throws. */
  fail(thrown: unknown): void;
  /** Ends all work and takes everything back out of the page. */
  end(): void;
}

/** The work of a challenge that has not become a token yet. */
interface Work {
  api: string;
  sitekey: string;
  challenge: string;
  nonce: number;
}

// In milliseconds, by the wall clock: other clocks stand still while a computer sleeps.
const lifetime = 300_000; // of a token (captcha contract, section 8)
const renewal = 210_000; // early enough for a hidden tab, whose timers run once a minute

// Pauses before a retry, in milliseconds: doubled each time, and spread so that a server that comes
// back is not overrun.
const firstPause = 1000;
const longestPause = 60_000;

/**
 * How many times the usual patience (api.ts) each sixteenth of the work may take. Two minutes are
 * enough for the hardest one at 20,000 hashes a second.
 */
const workPatience = 6;

/**
 * A server that asks for no longer wait than this, in milliseconds, is not reported to be in
 * trouble at its first failure.
 */
const passingWait = 2000;

/**
 * How often what the page takes away is put back between two ticks. A page that keeps taking it
 * away must not hang.
 */
const mostRepairs = 100;

// Some pages keep copies of themselves to go back to. A copied field would send an old token before
// the new one.
const fieldClass = 'svc-captcha-field';
const fields = new WeakSet<Element>();

/**
 * What counts as interaction with a form. Typing needs a click or focus first, but autofill and
 * autofocus give neither.
 */
const interactions = ['focusin', 'pointerdown', 'input', 'keydown', 'submit'];

/**
 * Returns whether the visitor went into a form before the script ran. Where the page itself has put
 * the focus does not count.
 */
const isUsed = (form: HTMLFormElement): boolean => {
  const active = page.activeElement as HTMLInputElement | null;
  return bare(form).contains(active) && !bare(active!).autofocus;
};

/**
 * Makes the widget of an element. The first follow() draws it. It starts at the first interaction
 * with its form, or at once if it is in none.
 */
export const mount = (element: HTMLElement): Widget => {
  const view = draw(element, () => state === 'idle' || state === 'error' ? run() : undefined);
  const input = page.createElement('input');
  input.type = 'hidden';
  input.className = fieldClass;
  fields.add(input);
  // A reload must not bring an old token back.
  input.autocomplete = 'off';

  let state: State = 'idle';
  let form: HTMLFormElement | null = null;
  let solvedAt = 0;
  let renewAt = 0; // age of the token in milliseconds
  let notBefore = 0; // the server wants no request until then
  let sitekey: string; // empty when there is none
  let api = ''; // where the last exchange went
  let solved: Work | undefined;
  let work = new AbortController();
  let broken = false; // by an error of our own
  let repairs = 0;
  let logged = '';
  let wake = () => {};

  /** Fires an event on the widget's element. It bubbles. */
  const notify = (name: string, detail?: object) =>
    bare(element).dispatchEvent(new CustomEvent('service-captcha:' + name, { bubbles: true, detail }));

  const show = (next: State, problem?: Problem) => {
    const before = state;
    view.show((state = next), problem);
    if (!problem) return;
    const line = 'service-captcha: ' + problem.reason + ': ' + problem.detail;
    // The network's failures are in the console already. A retry that fails for the same reason is
    // no news.
    if (problem.detail && problem.reason !== 'unreachable' && line !== logged) console.warn((logged = line));
    if (before !== 'error') notify('error', { reason: problem.reason });
  };

  /** Puts the field where it belongs and returns whether it was elsewhere. */
  const place = (): boolean => {
    input.name = setting(element, 'response-field-name') || 'service-captcha-response';
    const holder = form || element;
    if (input.parentNode === holder) return false;
    bare(holder).append(input);
    return true;
  };

  // A clock that was set back makes the age unknown, so old.
  const age = () => Math.abs(Date.now() - solvedAt);

  /** Takes the token out of the form and solves again. */
  const giveUp = () => {
    const had = input.value;
    input.value = '';
    show('idle');
    run();
    if (had) notify('expired');
  };

  /** Gives up a token that is past its lifetime, and returns the one that is left. */
  const current = (): string => {
    if (input.value && age() >= lifetime) giveUp();
    return input.value;
  };

  /** Starts over. A token that is still good stays in the form until the new one replaces it. */
  const run = () => {
    work.abort();
    work = new AbortController();
    broken = false;
    if (state !== 'done') show('verifying');
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
        const problem = known(thrown);
        const reason = problem.reason;
        if (reason === 'refused' && !refused) {
          refused = true;
          continue;
        }
        const temporary = reason === 'unreachable' || reason === 'busy';
        const pause = Math.min(firstPause * 2 ** failures, longestPause) * (0.5 + Math.random());
        if (problem.wait) notBefore = Date.now() + problem.wait;
        // A first failure may pass soon, and while there is a good token it concerns no visitor.
        const passing = temporary && !failures && problem.wait <= passingWait && navigator.onLine;
        if (state !== 'done' && !passing) show('error', reason === 'unreachable' ? new Problem(reason, new URL(api).host) : problem);
        if (!temporary) return;
        failures++;
        await sleep(Math.max(pause, problem.wait), signal);
      }
    }
  };

  /** Returns the problem that was thrown. Anything else is an internal error. */
  const known = (thrown: unknown): Problem => {
    if (thrown instanceof Problem) return thrown;
    console.error('service-captcha:', thrown);
    return new Problem('unsupported');
  };

  /** Challenge, work, token (captcha contract, section 1). */
  const exchange = async (signal: AbortSignal): Promise<void> => {
    if (Date.now() < notBefore) throw new Problem('busy', '', notBefore - Date.now());
    if (!sitekey) throw new Problem('setup', 'data-sitekey is missing');
    api = apiOf(setting(element, 'api'));
    // After a failure of the network or the server, the work of the try before is still good.
    if (!solved || solved.api !== api || solved.sitekey !== sitekey) solved = await inTurn(signal, () => workOut(signal));
    // The token's life begins at the server, sometime after this.
    const at = Date.now();
    const token = await redeem(solved, signal);
    if (signal.aborted) return;
    solved = undefined;
    solvedAt = at;
    renewAt = renewal;
    place();
    input.value = token;
    // A renewal changes nothing for the visitor.
    if (state === 'done') return;
    show('done');
    notify('verified');
  };

  /** Takes a challenge and does its work. */
  const workOut = async (signal: AbortSignal): Promise<Work> => {
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
      // Once it works, it no longer depends on the server. And a browser that is too slow would be
      // no faster the next time.
      throw new Problem(working || problem instanceof Unsupported ? 'unsupported' : 'unreachable');
    });
    return { api, sitekey, challenge: task.challenge, nonce };
  };

  /** Exchanges work for a token. Work that the server has rejected is forgotten. */
  const redeem = async (done: Work, signal: AbortSignal): Promise<string> => {
    const body = { sitekey: done.sitekey, challenge: done.challenge, nonce: done.nonce };
    const answer = await post(done.api, 'verify', body, signal).catch((problem: Problem) => {
      if (problem.reason !== 'unreachable' && problem.reason !== 'busy') solved = undefined;
      throw problem;
    });
    if (typeof answer.token !== 'string' || !answer.token) throw new Problem('unreachable');
    return answer.token;
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

  /**
   * Keeps a form from sending a token that grew old while the computer slept. Sent by script, it
   * fires no submit event.
   */
  const sending = (event: Event) => {
    const token = input.value;
    if (token === current()) return;
    const data = (event as FormDataEvent).formData;
    if (!data) return;
    const name = input.name;
    const others = data.getAll(name).filter((each) => each !== token);
    data.delete(name);
    others.forEach((each) => data.append(name, each));
  };

  const listen = (change: 'addEventListener' | 'removeEventListener') => {
    if (!form) return;
    const own = bare(form);
    interactions.forEach((type) => own[change](type, interacted, true));
    ['submit', 'formdata'].forEach((type) => own[change](type, sending, true));
  };

  /** Puts back what the page has taken out of the widget and its form. */
  const repair = () => {
    if (repairs >= mostRepairs) return;
    const viewed = view.restore();
    const placed = input.value && place();
    if (viewed || placed) repairs++;
    const copies = bare<Element>(form || element).querySelectorAll('.' + fieldClass);
    copies.forEach((each) => fields.has(each) || each.remove());
  };

  const widget: Widget = {
    reset() {
      solved = undefined;
      giveUp();
    },
    follow() {
      if (broken) return;
      const now = bare(element).closest('form');
      if (now !== form) {
        listen('removeEventListener');
        form = now;
        listen('addEventListener');
      }
      repair();
      const before = sitekey;
      sitekey = setting(element, 'sitekey');
      // Work, token and error are those of the sitekey before. Where there was none, nothing has
      // begun.
      if (sitekey !== before && state !== 'idle') {
        if (before) widget.reset();
        else show('idle');
      }
      if (state !== 'idle' || page.prerendering) return;
      // The page's author sees at once that the sitekey is missing. And the visitor may be in the
      // form already.
      if (!form || !sitekey || isUsed(form)) run();
    },
    tick() {
      repairs = 0;
      if (!current() || age() < renewAt) return;
      renewAt = lifetime;
      run();
    },
    response: current,
    retry: () => wake(),
    spent: () => (input.value ? widget.reset() : undefined),
    fail(thrown) {
      if (broken) return;
      work.abort();
      const problem = known(thrown);
      for (const step of [view.restore, () => show('error', problem)]) {
        try {
          step();
        } catch {
          // The view cannot be drawn; the class may say it all the same.
        }
      }
      broken = true;
    },
    end() {
      work.abort();
      listen('removeEventListener');
      input.remove();
      view.remove();
    },
  };
  return widget;
};
