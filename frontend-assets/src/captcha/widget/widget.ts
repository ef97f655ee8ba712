import { isFetchOwn } from '../../ownfetch';
import { solve, Unsupported } from '../engine/solver';
import type { Challenge } from '../engine/solver';
import { post, Problem, withTimeout } from './api';
import { bare, page, setting } from './dom';
import { apiOf } from './origin';
import { enqueue } from './queue';
import { newView } from './view';
import type { State } from './view';

/** One widget, as page.ts uses it. */
export interface Widget {
  /** Clears the field, returns to idle and solves again at once. */
  reset(): void;
  /**
   * Adapts to the page: another form, changed attributes, removed content or classes. Called at each
   * change of the page.
   */
  update(): void;
  /** Renews the token when it is due. Called every few seconds, and after a possible sleep. */
  tick(): void;
  /** Returns the token, or an empty string when there is no valid one. */
  response(): string;
  /** Retries at once, if a retry is scheduled. */
  retry(): void;
  /** Discards a token that has probably been used. */
  drop(): void;
  /** Shows an internal error. Never throws. */
  fail(thrown: unknown): void;
  /** Aborts all work and removes everything from the page. */
  end(): void;
}

/** A solved challenge that has not been exchanged for a token yet. */
interface Solution {
  api: string;
  sitekey: string;
  challenge: string;
  nonce: number;
}

// Ages of a token in milliseconds, by the wall clock, because other clocks stop while a computer
// sleeps.
const lifetime = 300_000; // captcha contract, section 8
const renewal = 210_000; // early enough for a hidden tab: its timers run once a minute

// Milliseconds before a retry. The pause doubles each time, with jitter, so that the widgets do not
// overload a server that comes back.
const minBackoff = 1000;
const maxBackoff = 60_000;

/**
 * Multiple of the timeout (api.ts) that each sixteenth of the work may take. Two minutes suffice for
 * the hardest challenge at 20,000 hashes a second.
 */
const workTimeouts = 6;

/**
 * When the server asks for a wait of at most this many milliseconds, the first failure is not shown.
 */
const shortWait = 2000;

/**
 * Milliseconds after a submit event until an interaction obtains a fresh token. Most pages have read the
 * form by then, and have been left or have called reset. A page that reads it later reads either token,
 * both of which are valid.
 */
const submitDelay = 2000;

/**
 * Limit of repairs between two ticks, so that a page that keeps removing the widget does not hang.
 */
const maxRepairs = 100;

// Some pages restore copies of their content. A copied field would submit an old token before the
// new token, so fields that are not in this set are removed.
const fieldClass = 'svc-captcha-field';
const fields = new WeakSet<Element>();

/**
 * Events that count as interaction with a form. Typing usually follows a click or focus, but
 * autofill and autofocus cause neither.
 */
const interactions = ['focusin', 'pointerdown', 'input', 'keydown', 'submit'];

/**
 * Returns whether the visitor entered a form before the script ran. Focus set by the page itself
 * does not count.
 */
const hasFocus = (form: HTMLFormElement): boolean => {
  const active = page.activeElement as HTMLInputElement | null;
  return bare(form).contains(active) && !bare(active!).autofocus;
};

/** Names a possible cause to the page's author: a page that replaces fetch may replace other functions, too. */
const replaced = (): string => (isFetchOwn() ? '' : ' (this page replaces fetch)');

/**
 * Creates the widget of an element. The first update() draws it. It starts at the first interaction
 * with its form, or at once without a form.
 */
export const newWidget = (element: HTMLElement): Widget => {
  const view = newView(element, () => {
    if (state === 'idle' || state === 'error') start();
  });
  const field = page.createElement('input');
  field.type = 'hidden';
  field.className = fieldClass;
  fields.add(field);
  // Without this a browser may restore an old token when the page is reloaded.
  field.autocomplete = 'off';

  let state: State = 'idle';
  let form: HTMLFormElement | null = null;
  let solvedAt = 0;
  // Ages of the token in milliseconds from which it is renewed.
  let renewAt = 0; // in any case; its lifetime while a renewal is in progress
  let interactionAt = 0; // by an interaction
  let notBefore = 0; // no request before this time, as the server asked
  let sitekey: string; // may be empty
  let api = ''; // of the last request
  let solution: Solution | undefined;
  let controller = new AbortController();
  let failed = false; // by an internal error
  let repairs = 0;
  let logged = '';
  let wake = () => {};

  /** Dispatches a bubbling event on the widget's element. */
  const notify = (name: string, detail?: object) =>
    bare(element).dispatchEvent(new CustomEvent('service-captcha:' + name, { bubbles: true, detail }));

  const show = (next: State, problem?: Problem) => {
    const before = state;
    view.show((state = next), problem);
    if (!problem) return;
    const line = 'service-captcha: ' + problem.reason + ': ' + problem.detail;
    // The browser logs network failures itself. A retry that fails for the same reason is not logged
    // again.
    if (problem.detail && problem.reason !== 'unreachable' && line !== logged) console.warn((logged = line));
    if (before !== 'error') notify('error', { reason: problem.reason });
  };

  /** Inserts the field where it belongs. Returns whether it was elsewhere. */
  const placeField = (): boolean => {
    // The scripts for other captchas' pages set "-": their own fields are sent.
    const name = setting(element, 'response-field-name');
    field.name = name === '-' ? '' : name || 'service-captcha-response';
    const holder = form || element;
    if (field.parentNode === holder) return false;
    bare(holder).append(field);
    return true;
  };

  // After the clock was set back the age is unknown; the absolute value makes it old.
  const age = () => Math.abs(Date.now() - solvedAt);

  /** Clears the token and solves again. */
  const discardToken = () => {
    const had = field.value;
    field.value = '';
    show('idle');
    start();
    if (had) notify('expired');
  };

  /** Discards an expired token. Returns the valid token, or an empty string. */
  const currentToken = (): string => {
    if (field.value && age() >= lifetime) discardToken();
    return field.value;
  };

  /** Starts over. A valid token stays in the form until the new one replaces it. */
  const start = () => {
    abort();
    controller = new AbortController();
    failed = false;
    if (state !== 'done') show('verifying');
    void obtainToken(controller.signal);
  };

  /** Obtains a token, with as many retries as it takes. Never rejects. */
  const obtainToken = async (signal: AbortSignal): Promise<void> => {
    let refused = false;
    for (let failures = 0; !signal.aborted;) {
      try {
        return await solveAndVerify(signal);
      } catch (thrown) {
        if (signal.aborted) return;
        const problem = toProblem(thrown);
        const reason = problem.reason;
        if (reason === 'refused' && !refused) {
          refused = true;
          continue;
        }
        const temporary = reason === 'unreachable' || reason === 'busy';
        const pause = Math.min(minBackoff * 2 ** failures, maxBackoff) * (0.5 + Math.random());
        if (problem.wait) notBefore = Date.now() + problem.wait;
        // A first failure may pass soon. While there is a valid token, no failure is shown.
        const passing = temporary && !failures && problem.wait <= shortWait && navigator.onLine;
        if (state !== 'done' && !passing)
          show('error', reason === 'unreachable' ? new Problem(reason, new URL(api).host + replaced()) : problem);
        if (!temporary) return;
        failures++;
        await sleep(Math.max(pause, problem.wait));
      }
    }
  };

  /** Returns a thrown Problem. Anything else is logged as an internal error. */
  const toProblem = (thrown: unknown): Problem => {
    if (thrown instanceof Problem) return thrown;
    console.error('service-captcha:', thrown);
    return new Problem('unsupported');
  };

  /** Fetches a challenge, solves it and stores the token (captcha contract, section 1). */
  const solveAndVerify = async (signal: AbortSignal): Promise<void> => {
    if (Date.now() < notBefore) throw new Problem('busy', '', notBefore - Date.now());
    if (!sitekey) throw new Problem('setup', 'data-sitekey is missing');
    api = apiOf(setting(element, 'api'));
    // After a failure of the network or the server, the previous solution is still valid.
    if (!solution || solution.api !== api || solution.sitekey !== sitekey)
      solution = await enqueue(signal, () => solveChallenge(signal));
    // The server issues the token some time after this.
    const at = Date.now();
    const token = await verifySolution(solution, signal);
    if (signal.aborted) return;
    solution = undefined;
    solvedAt = at;
    renewAt = renewal;
    interactionAt = lifetime;
    placeField();
    field.value = token;
    // A renewal changes nothing for the visitor.
    if (state !== 'done') {
      show('done');
      notify('verified');
    }
    notify('token');
  };

  /** Fetches a challenge and solves it. */
  const solveChallenge = async (signal: AbortSignal): Promise<Solution> => {
    // Browsers that a program drives have true. JSON omits undefined.
    const webdriver = navigator.webdriver === true || undefined;
    const task = (await post(api, 'config', { sitekey, webdriver }, signal)) as unknown as Challenge;
    if (typeof task.challenge !== 'string' || typeof task.salt !== 'string' || typeof task.difficulty !== 'number') {
      throw new Problem('unreachable');
    }
    let working = false;
    const nonce = await withTimeout(signal, (signal, keepAlive) => {
      const progress = (done: number, total: number) => {
        working = true;
        keepAlive(workTimeouts);
        view.progress(done / total);
      };
      return solve(task, api, progress, signal, view.wait);
    }).catch((problem) => {
      // The work itself does not depend on the server, and a browser that is too slow would not be
      // faster the next time.
      throw new Problem(working || problem instanceof Unsupported ? 'unsupported' : 'unreachable');
    });
    return { api, sitekey, challenge: task.challenge, nonce };
  };

  /** Exchanges a solution for a token. A solution that the server rejects is discarded. */
  const verifySolution = async (solved: Solution, signal: AbortSignal): Promise<string> => {
    const body = { sitekey: solved.sitekey, challenge: solved.challenge, nonce: solved.nonce };
    const answer = await post(solved.api, 'verify', body, signal).catch((problem: Problem) => {
      if (problem.reason !== 'unreachable' && problem.reason !== 'busy') solution = undefined;
      throw problem;
    });
    if (typeof answer.token !== 'string' || !answer.token) throw new Problem('unreachable');
    return answer.token;
  };

  /** Waits until the time has passed, or until wake or abort is called. */
  const sleep = (duration: number): Promise<void> =>
    new Promise((resolve) => {
      wake = resolve;
      setTimeout(resolve, duration);
    });

  const abort = () => {
    controller.abort();
    wake();
  };

  /**
   * Obtains a new token in the background from an age of the valid token, which stays in the form until
   * then. Does nothing while a renewal is in progress.
   */
  const renew = (from: number) => {
    if (!currentToken() || age() < from || renewAt === lifetime) return;
    renewAt = lifetime;
    start();
  };

  /**
   * Starts the widget. A form that stays on the page after it was submitted gets a fresh token here, and
   * not at the submit event, because most forms are left and need none.
   */
  const onInteraction = () => {
    if (state === 'idle') start();
    renew(interactionAt);
  };

  /**
   * Prevents a form from submitting a token that expired while the computer slept. A form submitted
   * by a script fires formdata, but no submit event. A form that was reset gets a fresh token, and a
   * submitted one at a later interaction. The scripts for other captchas' pages reset the widget
   * themselves.
   */
  const onSubmit = (event: Event) => {
    const token = field.value;
    const data = (event as FormDataEvent).formData;
    // Listeners of the page may still cancel a reset.
    if (field.name && event.type === 'reset') setTimeout(() => event.defaultPrevented || widget.drop());
    if (field.name && event.type === 'submit') interactionAt = age() + submitDelay;
    if (token === currentToken() || !data) return;
    // The field of another script may have the token under any name.
    const entries = [...data];
    entries.forEach((each) => data.delete(each[0]));
    entries.forEach((each) => each[1] === token || data.append(each[0], each[1] as string));
  };

  const toggleListeners = (change: 'addEventListener' | 'removeEventListener') => {
    if (!form) return;
    const own = bare(form);
    interactions.forEach((type) => own[change](type, onInteraction, true));
    ['submit', 'formdata', 'reset'].forEach((type) => own[change](type, onSubmit, true));
  };

  /** Restores parts that the page has removed from the widget and its form. */
  const repair = () => {
    if (repairs >= maxRepairs) return;
    const restored = view.restore();
    const placed = field.value && placeField();
    if (restored || placed) repairs++;
    const copies = bare<Element>(form || element).querySelectorAll('.' + fieldClass);
    copies.forEach((each) => fields.has(each) || each.remove());
  };

  const widget: Widget = {
    reset() {
      solution = undefined;
      discardToken();
    },
    update() {
      if (failed) return;
      const closest = bare(element).closest('form');
      if (closest !== form) {
        toggleListeners('removeEventListener');
        form = closest;
        toggleListeners('addEventListener');
      }
      repair();
      const before = sitekey;
      sitekey = setting(element, 'sitekey');
      // Solution, token and error belong to the previous sitekey. Without a previous sitekey
      // nothing has started.
      if (sitekey !== before && state !== 'idle') {
        if (before) widget.reset();
        else show('idle');
      }
      if (state !== 'idle' || page.prerendering) return;
      // A missing sitekey is reported at once, for the page's author. And the visitor may have
      // entered the form already.
      if (!form || !sitekey || hasFocus(form)) start();
    },
    tick() {
      repairs = 0;
      renew(renewAt);
    },
    response: currentToken,
    retry: () => wake(),
    drop() {
      if (field.value) widget.reset();
    },
    fail(thrown) {
      if (failed) return;
      abort();
      const problem = toProblem(thrown);
      for (const step of [view.restore, () => show('error', problem)]) {
        try {
          step();
        } catch {
          // If the view cannot be drawn, the element's class may still show the state.
        }
      }
      failed = true;
    },
    end() {
      field.value = '';
      abort();
      toggleListeners('removeEventListener');
      field.remove();
      view.remove();
    },
  };
  return widget;
};
