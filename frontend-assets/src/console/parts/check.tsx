// A switch of a form.
import type { ComponentChildren } from 'preact';
import { useContext, useId } from 'preact/hooks';
import { Errors } from '../core/form';

/** Check is a switch that is sent with its form. */
export function Check(props: {
  name: string;
  label: string;
  hint?: ComponentChildren;
  checked?: boolean;
  disabled?: boolean;
  value?: string;
}) {
  const id = useId();
  const error = useContext(Errors)[props.name];
  const text = error ?? props.hint;
  return (
    <div class="check">
      <input
        type="checkbox"
        id={id}
        name={props.name}
        value={props.value ?? 'on'}
        defaultChecked={props.checked}
        disabled={props.disabled}
        aria-describedby={text ? id + 'h' : undefined}
        aria-invalid={error ? 'true' : undefined}
      />
      <label for={id}>{props.label}</label>
      {text && <p class={error ? 'error' : 'hint'} id={id + 'h'}>{text}</p>}
    </div>
  );
}
