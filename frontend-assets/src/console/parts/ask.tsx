// A question before an action, and the fields that it needs.
import type { ComponentChildren } from 'preact';
import { useState } from 'preact/hooks';
import type { UserError } from '../core/api';
import { Dialog } from '../core/dialog';
import { Form, type Values } from '../core/form';

/** Ask is a button whose dialog explains an action and has its fields. It asks for no name, unlike Confirm. */
export function Ask(props: {
  button: string;
  /** The title of the dialog, if that is not the text of the button. */
  label?: string;
  text?: ComponentChildren;
  danger?: boolean;
  /** Whether it is the first thing to do on its page. */
  main?: boolean;
  /** The text of the dialog's button, if it is another one. */
  submit?: string;
  children?: ComponentChildren;
  run(values: Values, form: HTMLFormElement): Promise<UserError[]>;
}) {
  const { button, label = button, danger = false } = props;
  const [open, setOpen] = useState(false);
  const run = async (values: Values, form: HTMLFormElement): Promise<UserError[]> => {
    const errors = await props.run(values, form);
    if (errors.length === 0) setOpen(false);
    return errors;
  };
  return (
    <>
      <button type="button" class={props.main ? 'main' : danger ? 'small danger' : 'small'} aria-label={label} onClick={() => setOpen(true)}>{button}</button>
      {open && (
        <Dialog title={label} onClose={() => setOpen(false)}>
          {props.text && <p>{props.text}</p>}
          <Form submit={props.submit ?? button} danger={danger} onSubmit={run}>{props.children}</Form>
        </Dialog>
      )}
    </>
  );
}
