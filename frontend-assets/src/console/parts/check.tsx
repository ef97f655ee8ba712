// A switch of a form.
import type { ComponentChildren } from 'preact';
import { useContext, useId } from 'preact/hooks';
import { Errors } from '../core/form';

/** Check is a switch that is sent with its form. */
export function Check({
  name,
  label,
  hint,
  checked,
  disabled,
  value,
}: {
  name: string;
  label: string;
  hint?: ComponentChildren;
  checked?: boolean;
  disabled?: boolean;
  value?: string;
}) {
  const id = useId();
  const error = useContext(Errors)[name];
  return (
    <div class="check">
      <input
        type="checkbox"
        id={id}
        name={name}
        value={value ?? 'on'}
        defaultChecked={checked}
        disabled={disabled}
        aria-describedby={hint || error ? id + 'h' : undefined}
        aria-invalid={error ? 'true' : undefined}
      />
      <label for={id}>{label}</label>
      {(error || hint) && (
        <p class={error ? 'error' : 'hint'} id={id + 'h'}>
          {error ?? hint}
        </p>
      )}
    </div>
  );
}
