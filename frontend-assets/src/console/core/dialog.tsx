// Dialogs, and actions that cannot be undone.
import type { ComponentChildren } from 'preact';
import { useId, useLayoutEffect, useRef, useState } from 'preact/hooks';
import { Failure, type UserError } from './api';
import { toSignIn } from './data';
import { Field, Form, userErrorText } from './form';
import { t } from './language';
import { failureText } from './states';
import { announce } from './store';

/** Dialog is a modal dialog. Escape and the close button call onClose; the focus returns to its opener. */
export function Dialog(props: { title: string; onClose(): void; wide?: boolean; children: ComponentChildren }) {
  const { title, onClose, children } = props;
  const dialog = useRef<HTMLDialogElement | null>(null);
  const opener = useRef<Element | null>(null);
  const id = useId();

  // A reference is set before the effects of the content, so that a field can take the focus from the close button.
  const show = useRef((element: HTMLDialogElement | null): void => {
    if (!element) return;
    opener.current = document.activeElement;
    dialog.current = element;
    element.showModal();
  });
  useLayoutEffect(
    () => () => {
      dialog.current!.remove(); // while it is modal, nothing else can have the focus
      if (opener.current instanceof HTMLElement) opener.current.focus();
    },
    [],
  );
  return (
    <dialog ref={show.current} class={props.wide ? 'wide' : undefined} aria-labelledby={id} onClose={onClose}>
      <div class="title">
        <h2 id={id}>{title}</h2>
        <button type="button" class="small" onClick={() => dialog.current!.close()}>
          {t('close')}
        </button>
      </div>
      {children}
    </dialog>
  );
}

/** Confirm is a button for an action that cannot be undone. Its dialog asks for the name of the thing. */
export function Confirm(props: {
  button: string;
  title: string;
  text: string;
  name: string;
  run(values: Record<string, string>): Promise<UserError[] | void>;
  children?: ComponentChildren;
}) {
  const [open, setOpen] = useState(false);
  const [typed, setTyped] = useState('');
  const run = async (values: Record<string, string>): Promise<UserError[]> => {
    const errors = (await props.run(values)) ?? [];
    if (errors.length === 0) setOpen(false);
    return errors;
  };

  return (
    <>
      <button
        type="button"
        class="danger"
        onClick={() => {
          setTyped('');
          setOpen(true);
        }}
      >
        {props.button}
      </button>
      {open && (
        <Dialog title={props.title} onClose={() => setOpen(false)}>
          <p>{props.text}</p>
          <div
            onInput={(e) =>
              'name' in e.target! && e.target.name === 'confirm' && setTyped((e.target as HTMLInputElement).value)
            }
          >
            <Form submit={props.button} danger disabled={typed.trim() !== props.name} onSubmit={run}>
              <Field name="confirm" label={t('confirm.type', { name: props.name })} required autoFocus />
              {props.children}
            </Form>
          </div>
        </Dialog>
      )}
    </>
  );
}

/** Action is a button that runs a mutation at once. It announces its result or what went wrong. */
export function Action(props: {
  children: ComponentChildren;
  label?: string;
  run(): Promise<UserError[] | void>;
  done?: string;
  danger?: boolean;
  disabled?: boolean;
}) {
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState('');
  const run = async (): Promise<void> => {
    if (busy) return;
    setBusy(true);
    setError('');
    try {
      const errors = (await props.run()) ?? [];
      if (errors.length > 0) setError(errors.map(userErrorText).join(' '));
      else if (props.done) announce(props.done);
    } catch (failure) {
      if (!(failure instanceof Failure)) throw failure;
      if (failure.code === 'UNAUTHENTICATED') return toSignIn();
      setError(failureText(failure));
    } finally {
      setBusy(false);
    }
  };
  return (
    <>
      <button
        type="button"
        class={props.danger ? 'small danger' : 'small'}
        aria-busy={busy}
        aria-label={props.label}
        disabled={props.disabled}
        onClick={run}
      >
        {props.children}
      </button>
      {error && (
        <span class="error" role="alert">
          {error}
        </span>
      )}
    </>
  );
}
