// A choice between a few things on one page.
import type { ComponentChildren } from 'preact';

/** Choice is a row of buttons, and one of them is pressed. */
export function Choice<T extends string>(props: {
  label: string;
  options: [value: T, text: ComponentChildren][];
  chosen: T;
  choose(value: T): void;
}) {
  return (
    <div class="actions" role="group" aria-label={props.label}>
      {props.options.map(([value, text]) => (
        <button key={value} type="button" class="small" aria-pressed={value === props.chosen} onClick={() => props.choose(value)}>{text}</button>
      ))}
    </div>
  );
}
