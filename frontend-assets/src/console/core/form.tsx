// Forms: fields with their errors, a button that waits, and throttles that count down.
import { createContext, type ComponentChildren } from 'preact';
import { useContext, useEffect, useId, useLayoutEffect, useRef, useState } from 'preact/hooks';
import { Failure, type UserError } from './api';
import { toSignIn } from './data';
import { t, translated } from './language';
import { failureText, useCountdown } from './states';
import { viewer } from './store';

export const Errors = createContext<Record<string, string>>({});

/** userErrorText explains an error in the input in the user's language. */
export const userErrorText = (e: UserError): string => translated('error', e.code, e.message);

/** Values are a form's fields by name. A checkbox without a check has no value. */
export type Values = Record<string, string>;

/** Kept has the values of the form that was being sent when the session ended. */
interface Kept {
  form: string;
  user: string | undefined;
  values: Values;
}

/** kept is in the memory of this page only. The form takes it once its user has signed in again. */
let kept: Kept | undefined;

/** keepsForm reports whether a form waits for its user to sign in again. */
export const keepsForm = (): boolean => !!kept;

/** restore sets the controls of a form that are not in done to their kept values. Passwords are not kept. */
function restore(form: HTMLFormElement, { values }: Kept, done: Set<Element>): void {
  for (const control of form.elements) {
    const input = control as HTMLInputElement;
    if (done.has(input) || !input.name || input.type === 'password') continue;

    done.add(input);
    if (input.type === 'checkbox') input.checked = input.name in values;
    else input.value = values[input.name] ?? '';
    input.dispatchEvent(new Event('input', { bubbles: true }));
  }
}

/** useKept keeps the values of a form while its user signs in, and restores them. It reports whether they are restored. */
function useKept(form: { current: HTMLFormElement | null }, label: string) {
  const [mine, take] = useState<Kept>();
  const done = useRef(new Set<Element>());
  const identify = (): string => location.pathname + label + (form.current!.elements[0] as HTMLInputElement).name;

  // Fields that appear later, such as further steps of a funnel, are restored then.
  useEffect(() => {
    const user = viewer.get()?.id;
    if (kept && user && user !== kept.user) kept = undefined;
    if (user && kept?.form === identify()) {
      take(kept);
      kept = undefined;
      form.current!.closest('details')?.toggleAttribute('open', true);
    }
    if (mine) restore(form.current!, mine, done.current);
  });

  const keep = (values: Values): void => {
    kept = { form: identify(), user: viewer.get()?.id, values };
  };
  return { restored: mine, keep, forget: () => take(undefined) };
}

/** Form calls onSubmit with its values. It shows the errors at their fields, and keeps the values. */
export function Form(props: {
  submit: string;
  /** Gets the form, too, for the helper of parts/changes that leaves out what was not changed. */
  onSubmit(values: Values, form: HTMLFormElement): Promise<UserError[] | void>;
  class?: string;
  danger?: boolean;
  label?: string;
  disabled?: boolean;
  children?: ComponentChildren;
  after?: ComponentChildren;
}) {
  const form = useRef<HTMLFormElement>(null);
  const [busy, setBusy] = useState(false);
  const [errors, setErrors] = useState<Record<string, string>>({});
  const [failure, setFailure] = useState<Failure>();
  const left = useCountdown(failure?.retryAfter ?? 0, failure);
  const { restored, keep, forget } = useKept(form, props.label ?? props.submit);

  const send = async (event: Event): Promise<void> => {
    event.preventDefault();
    if (busy || left > 0) return;
    setBusy(true);
    setFailure(undefined);

    const values: Values = {};
    for (const [name, value] of new FormData(form.current!)) {
      if (typeof value === 'string') values[name] = value;
    }

    try {
      const found = (await props.onSubmit(values, form.current!)) ?? [];
      if (found.length === 0) forget();
      setErrors(byField(found, form.current));
    } catch (error) {
      if (!(error instanceof Failure)) throw error;
      if (error.code === 'UNAUTHENTICATED') {
        keep(values);
        return toSignIn();
      }
      setErrors({});
      setFailure(error);
    } finally {
      setBusy(false);
    }
  };

  // The first field with an error gets the focus, so that screen readers read its error.
  useEffect(() => form.current?.querySelector<HTMLElement>('[aria-invalid=true]')?.focus(), [errors]);

  const general = failure ? failureText(failure) : errors[''];
  return (
    <form ref={form} class={props.class} onSubmit={send} aria-label={props.label}>
      {restored && (
        <p class="notice" role="status">
          {t('form.kept')}
        </p>
      )}
      <Errors.Provider value={errors}>{props.children}</Errors.Provider>
      {general && (
        <p class="error" role="alert">
          {general}
        </p>
      )}
      <div class="actions">
        <button class={props.danger ? 'danger' : 'main'} disabled={props.disabled || left > 0} aria-busy={busy}>
          {left > 0 ? t('state.retryIn', { n: left }) : props.submit}
        </button>
        {props.after}
      </div>
    </form>
  );
}

/** byField sorts errors to the form's fields and to the rows of its lists; errors of no shown field have the empty name. */
function byField(list: UserError[], form: HTMLFormElement | null): Record<string, string> {
  const found: Record<string, string> = {};
  for (const error of list) {
    const [, path = '', index] = error.field ?? [];
    const name = [`${path}.${index}`, path].find((one) => form?.elements.namedItem(one)) ?? '';
    const text = userErrorText(error);
    found[name] = found[name] ? found[name] + ' ' + text : text;
  }
  return found;
}

interface FieldProps {
  name: string;
  label: string;
  hint?: ComponentChildren;
  value?: string;
  required?: boolean;
  autoComplete?: string;
  autoFocus?: boolean;
  disabled?: boolean;
  minLength?: number;
  maxLength?: number;
  placeholder?: string;
  /** The id of a datalist with values to choose from. */
  list?: string;
}

/** Described wraps a control with its label, hint and error. */
function Described(props: FieldProps & { children: (aria: object) => ComponentChildren }) {
  const id = useId();
  const error = useContext(Errors)[props.name];
  const described = [props.hint && id + 'h', error && id + 'e'].filter(Boolean).join(' ');

  // Before a user can click on another field.
  useLayoutEffect(() => {
    if (props.autoFocus) document.getElementById(id)!.focus();
  }, []);
  return (
    <div class="field">
      <label for={id}>{props.label}</label>
      {props.hint && (
        <p class="hint" id={id + 'h'}>
          {props.hint}
        </p>
      )}
      {props.children({
        id,
        name: props.name,
        required: props.required,
        disabled: props.disabled,
        autocomplete: props.autoComplete ?? 'off',
        minLength: props.minLength,
        maxLength: props.maxLength,
        placeholder: props.placeholder,
        'aria-describedby': described || undefined,
        'aria-invalid': error ? 'true' : undefined,
      })}
      {error && (
        <p class="error" id={id + 'e'}>
          {error}
        </p>
      )}
    </div>
  );
}

/** Field is a line of text. */
export function Field(
  props: FieldProps & { type?: string; inputMode?: 'email' | 'url'; min?: string; max?: string; step?: string; multiple?: boolean },
) {
  return (
    <Described {...props}>
      {(aria) => (
        <input
          {...aria}
          {...({ type: props.type ?? 'text' } as object)}
          inputMode={props.inputMode}
          list={props.list}
          min={props.min}
          max={props.max}
          step={props.step}
          multiple={props.multiple}
          defaultValue={props.value}
          spellcheck={false}
          autocapitalize="off"
        />
      )}
    </Described>
  );
}

/** TextArea is a text of several lines. */
export function TextArea(props: FieldProps & { rows?: number }) {
  return (
    <Described {...props}>
      {(aria) => <textarea {...aria} rows={props.rows ?? 4} defaultValue={props.value} spellcheck={false} />}
    </Described>
  );
}

/** Select is a choice from a list of values and their texts. */
export function Select(props: FieldProps & { options: [value: string, text: string][]; onChange?(value: string): void }) {
  return (
    <Described {...props}>
      {(aria) => (
        <select {...aria} onChange={(e) => props.onChange?.(e.currentTarget.value)}>
          {props.options.map(([value, text]) => (
            <option key={value} value={value} {...({ defaultSelected: value === props.value } as object)}>
              {text}
            </option>
          ))}
        </select>
      )}
    </Described>
  );
}

/** Password is a password field that can show its text. Password managers recognise it by autoComplete. */
export function Password(props: FieldProps & { autoComplete: 'current-password' | 'new-password' }) {
  const [shown, setShown] = useState(false);
  return (
    <Described {...props}>
      {(aria) => (
        <span class="password">
          <input
            {...aria}
            {...({ type: shown ? 'text' : 'password' } as object)}
            spellcheck={false}
            autocapitalize="off"
          />
          <button type="button" class="small" aria-pressed={shown} onClick={() => setShown(!shown)}>
            {t('password.show')}
          </button>
        </span>
      )}
    </Described>
  );
}
