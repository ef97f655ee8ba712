'use client';
import { createElement, forwardRef, useEffect, useImperativeHandle, useRef } from 'react';
import type { ForwardRefExoticComponent, RefAttributes } from 'react';
import { handleOf } from './handle.js';
import type { CaptchaHandle } from './handle.js';
import { render } from './index.js';
import type { Captcha as Widget, Options } from './index.js';

export type { CaptchaHandle };

/** Props of the component. */
export interface CaptchaProps extends Options {
  /** Class of the element that contains the widget. */
  className?: string | undefined;
}

/**
 * The widget as a component, with its handle as ref. On a server it renders an empty element, which
 * the browser fills, so hydration changes nothing.
 */
export const Captcha: ForwardRefExoticComponent<CaptchaProps & RefAttributes<CaptchaHandle>> = /* @__PURE__ */ forwardRef<
  CaptchaHandle,
  CaptchaProps
>((props, ref) => {
  const { url, sitekey, lang, fieldName, className } = props;
  const container = useRef<HTMLDivElement>(null);
  const widget = useRef<Widget | undefined>(undefined);
  const latest = useRef(props);

  useEffect(() => {
    latest.current = props;
  });

  // Runs again for another url only: the script that is loaded depends on it.
  useEffect(() => {
    const created = render(container.current!, {
      ...latest.current,
      onVerified: (token) => latest.current.onVerified?.(token),
      onExpired: () => latest.current.onExpired?.(),
      onError: (reason) => latest.current.onError?.(reason),
    });
    widget.current = created;
    return () => {
      widget.current = undefined;
      created.remove();
    };
  }, [url]);

  useEffect(() => widget.current?.update({ sitekey, lang, fieldName }), [sitekey, lang, fieldName]);
  useImperativeHandle(ref, () => handleOf(() => widget.current), []);

  return createElement('div', { ref: container, className });
});
