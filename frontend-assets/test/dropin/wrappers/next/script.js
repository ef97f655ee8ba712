// Appends a script when the component is mounted, as the component of Next.js does by default.
import { useEffect } from 'react';

export default function Script({ dangerouslySetInnerHTML: inline, ...attributes }) {
  useEffect(() => {
    const script = document.createElement('script');
    for (const [name, value] of Object.entries(attributes)) if (value !== undefined) script[name] = value;
    if (inline) script.innerHTML = inline.__html;
    document.body.append(script);
  }, []);
  return null;
}
