// Dialogs that have an entry of the history, so that "back" closes them.
import { useLayoutEffect } from 'preact/hooks';
import { go } from '../core/router';

/**
 * useBack calls onClose when the user goes back, which then stays on the page. The entry is made with the
 * dialog: after an effect that waits for the next frame, "back" could leave the page instead.
 */
export function useBack(onClose: () => void): void {
  useLayoutEffect(() => {
    history.pushState({ dialog: true }, '');
    addEventListener('popstate', onClose);
    return () => {
      removeEventListener('popstate', onClose);
      // Closed otherwise, and not by an address that has replaced the entry of the dialog.
      if (history.state?.dialog) history.back();
    };
  }, []);
}

/** leave shows another address in place of the dialog's entry of the history. */
export function leave(address: string, onClose: () => void): void {
  go(address, true);
  onClose();
}
