// Next, app/layout.jsx: the scripts of all pages. The analytics script counts the changes of routes by itself. A form is that of
// contact.jsx, with 'use client' in its first line; its token is verified in a route handler, as siteverify.mjs does.
import Script from 'next/script'

export default function Layout({ children }) {
  return (
    <html lang="en">
      <body>
        {children}
        <Script src={`${process.env.ANALYTICS_URL}/svc.js`} data-site={process.env.SITE_KEY} strategy="afterInteractive" />
        <Script src={`${process.env.CAPTCHA_URL}/captcha.js`} strategy="lazyOnload" />
      </body>
    </html>
  )
}
