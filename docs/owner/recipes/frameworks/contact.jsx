// React 18 or newer. The widget finds elements that are added later, and keeps its field when React renders again.
import { useState } from 'react'
import { createRoot } from 'react-dom/client'

/** The invisible captcha. A key in place of the attribute would make a new widget. */
export function Captcha({ sitekey }) {
  return <div className="service-captcha" data-sitekey={sitekey} />
}

export function Contact({ sitekey }) {
  const [result, setResult] = useState('')

  async function send(event) {
    event.preventDefault()
    const form = event.currentTarget
    // Read the form when it is sent: the token is renewed before it expires.
    const response = await fetch('/contact', { method: 'POST', body: new URLSearchParams(new FormData(form)) })
    window.serviceCaptcha?.reset(form) // a token works once
    window.svc?.('event', 'signup', { accepted: response.ok })
    setResult(response.ok ? 'Sent' : 'Please send it again')
  }

  return (
    <form onSubmit={send}>
      <textarea name="message" />
      <Captcha sitekey={sitekey} />
      <button id="send">Send</button>
      <output>{result}</output>
    </form>
  )
}

const root = document.querySelector('#app')
createRoot(root).render(<Contact sitekey={root.dataset.sitekey} />)
