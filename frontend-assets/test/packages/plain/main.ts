import { CaptchaError, execute, render } from '@tallygate/captcha';
import { measure, send, sitekey, url } from '../settings';

const app = document.querySelector('#app')!;
app.innerHTML =
  '<form><textarea name="message"></textarea><div id="captcha"></div><button id="send">Send</button><output></output></form>' +
  '<button id="direct">Send without a form</button><button id="wrong">Wrong sitekey</button>';

const form = app.querySelector('form')!;
const output = app.querySelector('output')!;
const widget = render(app.querySelector('#captcha')!, { url, sitekey, lang: 'de' });

form.addEventListener('submit', async (submitted) => {
  submitted.preventDefault();
  const answer = await send(new FormData(form));
  widget.reset();
  output.textContent = answer;
});
app.querySelector('#direct')!.addEventListener('click', async () => {
  output.textContent = await send(await execute({ url, sitekey }));
});
app.querySelector('#wrong')!.addEventListener('click', async () => {
  const refused: unknown = await execute({ url, sitekey: 'svck_000000000000000000000000' }).catch((error) => error);
  output.textContent = refused instanceof CaptchaError ? refused.reason : String(refused);
});

measure();
