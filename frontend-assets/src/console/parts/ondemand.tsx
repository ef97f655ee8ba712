// Forms that a button opens.
import type { ComponentChildren } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';

/** OnDemand is a button until it is pressed, and then its form, with the focus in the first field. */
export function OnDemand({ button, children }: { button: string; children: ComponentChildren }) {
  const [open, setOpen] = useState(false);
  const box = useRef<HTMLDivElement>(null);
  useEffect(() => {
    if (open) box.current!.querySelector<HTMLElement>('input, select')!.focus();
  }, [open]);
  return (
    <div ref={box}>{open ? children : <button type="button" class="main" onClick={() => setOpen(true)}>{button}</button>}</div>
  );
}
