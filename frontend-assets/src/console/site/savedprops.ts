// The props of the sections of saved objects.
import type { UserError } from '../core/api';
import type { SavedData } from '../operations';

/** SavedProps are the props of a section: notes, segments or funnels. */
export interface SavedProps {
  site: NonNullable<SavedData['site']>;
  edit: boolean;
  /** Shows the page again after a change, and returns the change's errors. */
  after(payload: { userErrors: UserError[] } | null, done?: string): Promise<UserError[]>;
}
