// A question before an action.
import type { ComponentChildren } from 'preact';
import { useState } from 'preact/hooks';
import type { UserError } from '../core/api';
import { Dialog } from '../core/dialog';
import { Form } from '../core/form';

/** Ask is a button for an action whose effect its dialog explains. It asks for no name, unlike Confirm. */
export function Ask(props: {
  button: string;
  label: string;
  text: ComponentChildren;
  /** Whether the button is as small as its neighbours. */
  small?: boolean;
  run(): Promise<UserError[]>;
}) {
  const [open, setOpen] = useState(false);
  const run = async (): Promise<UserError[]> => {
    const errors = await props.run();
    if (errors.length === 0) setOpen(false);
    return errors;
  };
  return (
    <>
      <button type="button" class={props.small ? 'small danger' : 'danger'} aria-label={props.label} onClick={() => setOpen(true)}>
        {props.button}
      </button>
      {open && (
        <Dialog title={props.label} onClose={() => setOpen(false)}>
          <p>{props.text}</p>
          <Form submit={props.button} danger onSubmit={run} />
        </Dialog>
      )}
    </>
  );
}
