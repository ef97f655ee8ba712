// Groups of a page of settings, which lines divide.
import type { ComponentChildren } from 'preact';
import { useId } from 'preact/hooks';

/** Group has its heading at the left, or above if it is tall, and its fields. As a line, it has a text and then its button. */
export function Group(props: { title: string; hint?: ComponentChildren; line?: boolean; tall?: boolean; children: ComponentChildren }) {
  const id = useId();
  return (
    <section class={`group ${props.line ? 'line' : props.tall ? 'tall' : ''}`} aria-labelledby={id}>
      <div>
        <h2 id={id}>{props.title}</h2>
        {props.hint && <p class="hint">{props.hint}</p>}
      </div>
      <div>{props.children}</div>
    </section>
  );
}

/** Row is a line of a group: a name with its value, and buttons, which narrow windows have below. */
export const Row = (props: { name: ComponentChildren; text?: ComponentChildren; children?: ComponentChildren }) => (
  <li class="inline">
    <div style={{ flexBasis: '12rem' }}>
      {props.name}
      {props.text && <p class="hint">{props.text}</p>}
    </div>
    <span class="inline">{props.children}</span>
  </li>
);
