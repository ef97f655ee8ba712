// What a form changes.
import type { Values } from '../core/form';

/** isChanged reports whether a control differs from the value that the page was loaded with. */
function isChanged(control: unknown): boolean {
  if (control instanceof HTMLSelectElement) return !control.selectedOptions[0]?.defaultSelected;
  const { type, checked, defaultChecked, value, defaultValue } = control as HTMLInputElement;
  return type === 'checkbox' ? checked !== defaultChecked : value !== defaultValue;
}

/** named returns the controls that a form sends. */
const named = (form: HTMLFormElement): HTMLInputElement[] =>
  [...form.elements].filter((control): control is HTMLInputElement => !!(control as HTMLInputElement).name);

/** countChanges returns how many controls of a form were changed. */
export const countChanges = (form: HTMLFormElement): number => named(form).filter(isChanged).length;

/** settle shows the stored values after a save, in the server's words, where nothing was typed since it was sent. */
export function settle(form: HTMLFormElement, sent: Values): void {
  for (const control of named(form)) {
    const isBox = control.type === 'checkbox';
    const isAsSent = isBox ? control.checked === control.name in sent : control.value === sent[control.name];
    if (!isAsSent || !isChanged(control) || control instanceof HTMLSelectElement) continue;

    if (isBox) control.checked = control.defaultChecked;
    else control.value = control.defaultValue;
    control.dispatchEvent(new Event('input', { bubbles: true }));
  }
}

/**
 * changes returns the input without the fields that were not changed in the form. Otherwise a page that was opened
 * earlier would revert what another tab has saved since.
 */
export function changes<T extends object>(form: HTMLFormElement, input: T): Partial<T> {
  const changed = Object.entries(input).filter(([name]) => isChanged(form.elements.namedItem(name)));
  return Object.fromEntries(changed) as Partial<T>;
}

/** checked returns the names of the boxes of a list that are checked, or undefined if none of them was changed. */
export function checked<T extends string>(form: HTMLFormElement, names: readonly T[]): T[] | undefined {
  const boxes = named(form).filter(({ name }) => names.includes(name as T));
  return boxes.some(isChanged) ? boxes.filter((box) => box.checked).map(({ name }) => name as T) : undefined;
}
