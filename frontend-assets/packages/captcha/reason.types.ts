// Checked by the types only: the package's reasons are those of the widget.
import type { Reason as Source } from '../../src/captcha/widget/api';
import type { Reason } from './error.js';

export const known: Record<Source, Reason> & Record<Reason, Source> = {
  unreachable: 'unreachable',
  busy: 'busy',
  setup: 'setup',
  refused: 'refused',
  unsupported: 'unsupported',
};
