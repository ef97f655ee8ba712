// The choices of theme and language, which are all that the console stores.

/** remembered reads a choice of the user. Browsers that forbid storage forget it. */
export function remembered(name: 'theme' | 'language'): string {
  try {
    return localStorage.getItem('tallygate.' + name) ?? '';
  } catch {
    return '';
  }
}

/** remember stores a choice of the user; an empty value removes it. */
export function remember(name: 'theme' | 'language', value: string): void {
  try {
    if (value) localStorage.setItem('tallygate.' + name, value);
    else localStorage.removeItem('tallygate.' + name);
  } catch {
    // The choice holds until the page is closed.
  }
}

/** applyTheme sets the colours: light, dark, or the system's for an empty value. */
export function applyTheme(theme: string): void {
  if (theme) document.documentElement.dataset['theme'] = theme;
  else delete document.documentElement.dataset['theme'];
}
