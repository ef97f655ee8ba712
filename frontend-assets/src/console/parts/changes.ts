// What a form changes.

/** isChanged reports whether a control differs from the value that the page was loaded with. */
function isChanged(control: unknown): boolean {
  if (control instanceof HTMLSelectElement) return !control.selectedOptions[0]?.defaultSelected;
  const { type, checked, defaultChecked, value, defaultValue } = control as HTMLInputElement;
  return type === 'checkbox' ? checked !== defaultChecked : value !== defaultValue;
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
  const boxes = names.map((name) => form.elements.namedItem(name) as HTMLInputElement);
  return boxes.some(isChanged) ? names.filter((_, i) => boxes[i]!.checked) : undefined;
}
