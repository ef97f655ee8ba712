// The form of a page of settings.
import type { ComponentChildren } from 'preact';
import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks';
import type { UserError } from '../core/api';
import { Dialog } from '../core/dialog';
import { Form, type Values } from '../core/form';
import { t } from '../core/language';
import { guardLeaving } from '../core/router';
import { countChanges, settle } from './changes';

/**
 * SaveForm is the one form of a page. Its buttons stick to the lower edge of the window while a field differs from
 * what is stored. Then it also asks before the page is left.
 */
export function SaveForm(props: {
  onSubmit(values: Values, form: HTMLFormElement): Promise<UserError[]>;
  disabled: boolean;
  children: ComponentChildren;
}) {
  const box = useRef<HTMLDivElement>(null);
  const form = (): HTMLFormElement => box.current!.querySelector('form')!;
  const control = useRef<HTMLInputElement | undefined>(undefined); // the last one with the focus
  const sent = useRef<Values | undefined>(undefined);
  const [, render] = useState({});
  const [discards, setDiscards] = useState(0);
  const [count, setCount] = useState(0);
  const recount = (): void => setCount(countChanges(form()));
  const [leave, setLeave] = useState<() => void>();

  const save = async (values: Values, form: HTMLFormElement): Promise<UserError[]> => {
    const errors = await props.onSubmit(values, form);
    if (errors.length === 0) sent.current = values;
    render({});
    return errors;
  };

  // At once with what is rendered: the question below is about what the page shows.
  useLayoutEffect(() => {
    if (sent.current) settle(form(), sent.current);
    sent.current = undefined;
    recount();
  });

  // The button that had the focus is hidden now.
  useEffect(() => {
    const { activeElement: active } = document;
    if (count || !control.current || !(active === document.body || active?.closest('.saving > .actions'))) return;
    const { name, id } = control.current;
    const again = control.current.isConnected ? control.current : form().elements.namedItem(name || id);
    (again as HTMLElement | null)?.focus();
  }, [count]);

  useEffect(() => {
    let free = false;
    const ask = (go: () => void): boolean => {
      if (free || !countChanges(form())) return false;
      setLeave(() => () => {
        free = true;
        go();
      });
      return true;
    };
    const unload = (event: Event): void => {
      if (!free && countChanges(form())) event.preventDefault();
    };

    guardLeaving(ask);
    addEventListener('beforeunload', unload);
    return () => {
      guardLeaving();
      removeEventListener('beforeunload', unload);
    };
  }, []);

  const changed = t('form.changed', { n: count });
  return (
    <>
      <div
        ref={box}
        onInput={recount}
        onFocusIn={(e) => {
          if (!(e.target as Element).closest('.saving > .actions')) control.current = e.target as HTMLInputElement;
        }}
      >
        <Form
          key={discards}
          submit={t('save')}
          onSubmit={save}
          class={count ? 'saving' : 'saving same'}
          disabled={props.disabled}
          after={[
            <button type="button" onClick={() => setDiscards(discards + 1)}>
              {t('form.discard')}
            </button>,
            <span role="status">{changed}</span>,
          ]}
        >
          {props.children}
        </Form>
      </div>
      {leave && (
        <Dialog title={t('form.leave')} onClose={() => setLeave(undefined)}>
          <Form submit={t('form.leaveNow')} danger onSubmit={async () => leave()}>
            <p>{changed}.</p>
          </Form>
        </Dialog>
      )}
    </>
  );
}
