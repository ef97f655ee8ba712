// Lists of short texts.
import type { ComponentChildren } from 'preact';
import { useContext, useRef, useState } from 'preact/hooks';
import { Errors } from '../core/form';
import { t } from '../core/language';

/** rowsOf returns the texts of a list as its form sends it. */
export const rowsOf = (text = ''): string[] => text.split('\n').map((row) => row.trim()).filter(Boolean);

/**
 * Rows has a field for each text of a list, and an empty one for the next text. The form has the list as one text area
 * with a line for each text, so that it counts, keeps and discards the list like any field. An error of the server for
 * one text is at its field. The id of that field is the name with the index.
 */
export function Rows(props: {
  name: string;
  /** What one text is. */
  label: string;
  values: string[];
  /** The text of the empty field. */
  add: string;
  disabled?: boolean;
  /** Whether only lines separate texts that are pasted together: the texts have spaces and commas. */
  lines?: boolean;
  /** Rows that cannot be changed. */
  children?: ComponentChildren;
}) {
  const { name, disabled } = props;
  const stored = useRef<HTMLTextAreaElement>(null);
  const [text, setText] = useState(props.values.join('\n'));
  const rows = text ? text.split('\n') : [];

  // An error belongs to a text that was sent, also when another text before it is removed.
  const errors = useContext(Errors);
  const sent = useRef({ errors, rows });
  if (sent.current.errors !== errors) sent.current = { errors, rows: rowsOf(text) };

  const replace = (i: number, by: string[]): void => {
    stored.current!.value = [...rows.slice(0, i), ...by, ...rows.slice(i + 1)].join('\n').replace(/\n+$/, '');
    stored.current!.dispatchEvent(new Event('input', { bubbles: true }));
  };
  const focus = (i: number): void => document.getElementById(`${name}.${i}`)!.focus();

  const row = (value: string, i: number) => {
    const id = `${name}.${i}`;
    const error = errors[`${name}.${sent.current.rows.indexOf(value.trim())}`];
    return (
      <li key={i}>
        <input
          id={id}
          aria-label={`${props.label} ${i + 1}`}
          aria-invalid={error ? 'true' : undefined}
          aria-describedby={error && id + 'e'}
          value={value}
          placeholder={i === rows.length ? props.add : undefined}
          disabled={disabled}
          autocomplete="off"
          autocapitalize="off"
          spellcheck={false}
          onInput={(e) => replace(i, [e.currentTarget.value])}
          onPaste={(e) => {
            const pasted = (e.clipboardData?.getData('text') ?? '').split(props.lines ? /\n/ : /[\s,]/);
            const texts = pasted.filter((one) => one.trim());
            if (texts.length < 2) return;
            e.preventDefault();
            replace(i, value ? [value, ...texts] : texts);
          }}
          onKeyDown={(e) => {
            if (e.key !== 'Enter') return;
            e.preventDefault(); // it would send the form
            focus(Math.min(i + 1, rows.length));
          }}
        />
        {!disabled && i < rows.length && (
          <button
            type="button"
            class="link"
            aria-label={t('settings.removeNamed', { name: value })}
            onClick={() => {
              replace(i, []);
              focus(i); // it has the next text
            }}
          >
            ×
          </button>
        )}
        {error && <p class="error" id={id + 'e'}>{error}</p>}
      </li>
    );
  };
  const shown = disabled ? rows : [...rows, ''];
  return (
    <div>
      <textarea
        ref={stored}
        hidden
        name={name}
        defaultValue={props.values.join('\n')}
        disabled={disabled}
        onInput={(e) => setText(e.currentTarget.value)}
      />
      {shown[0] === undefined && !props.children ? <p class="none">–</p> : <ul class="entries">{props.children}{shown.map(row)}</ul>}
      {errors[name] && <p class="error">{errors[name]}</p>}
    </div>
  );
}
