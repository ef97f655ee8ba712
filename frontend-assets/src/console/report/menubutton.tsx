// Menus over a report, and what they choose.
import type { ComponentChildren } from 'preact';
import type { View } from '../core/view';

/** Choose changes the period or the comparison. A function returns the changes of the view of that time. */
export type Choose = (changes: (now: View) => Partial<View>) => void;

/** Opens names the menu or dialog that is open over a report. */
export type Opens = '' | 'period' | 'comparison' | 'interval' | 'dates' | 'compare' | 'filter' | 'segments' | 'download';

/** MenuButton opens a menu. Its value is the choice, and children are the open menu. */
export function MenuButton(props: {
  name: Opens;
  value: string;
  label: string;
  text: string;
  disabled?: boolean;
  opens: Opens;
  open(name: Opens): void;
  children: ComponentChildren;
}) {
  const { name, text, opens, open } = props;
  const isOpen = opens === name;
  return (
    <div class="pick">
      <button
        type="button"
        id={name}
        value={props.value}
        disabled={props.disabled}
        aria-haspopup="menu"
        aria-expanded={isOpen}
        aria-label={`${props.label}: ${text}`}
        onClick={() => open(isOpen ? '' : name)}
        onKeyDown={(e) => {
          if (!/^Arrow(Up|Down)$/.test(e.key)) return;
          e.preventDefault();
          open(name);
        }}
      >
        {text}
      </button>
      {isOpen && props.children}
    </div>
  );
}
