// The page that mCaptcha's clients put into a frame (/widget?sitekey=…): one widget, and each of its
// tokens as a message to the page around the frame. docs/owner/captcha-dropin.md describes it.

const widget = document.createElement('div');
widget.className = 'service-captcha';
// The server knows by this folder that the widget's calls come from here.
widget.dataset.api = '/widget';
// The server states the sitekey that its policy belongs to. Read from the address, it could be another
// one: the server and the browser decode some addresses differently.
widget.dataset.sitekey = document.body.dataset.sitekey;

/**
 * Sends the token. The page around the frame may have any origin: the server's frame-ancestors
 * decides which pages may frame this one, and the token is for them.
 */
const send = () => parent.postMessage({ token: window.serviceCaptcha!.getResponse(widget) }, '*');
widget.addEventListener('service-captcha:token', send);

document.body.style.margin = '0';
document.body.append(widget);
// The widget chooses the language when it is drawn, which this call does at once.
window.serviceCaptcha!.getResponse(widget);
document.documentElement.lang = widget.querySelector<HTMLElement>('[lang]')!.lang;
