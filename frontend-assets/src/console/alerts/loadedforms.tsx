// The forms of channels, which are loaded on demand.
import type { ComponentChildren } from 'preact';
import { useQuery } from '../core/data';
import { loadModule } from '../core/modules';
import { Loaded } from '../core/states';

type Forms = typeof import('../alertform');

/** forms loads the forms of channels. */
export const forms = (): Promise<Forms> => loadModule(() => import('../alertform'));

/** LoadedForms shows fields of a form once they are loaded. */
export function LoadedForms({ children }: { children(forms: Forms): ComponentChildren }) {
  return <Loaded query={useQuery(forms, {})}>{children}</Loaded>;
}
