import { Captcha } from '@tallygate/captcha/react';
import type { CaptchaHandle } from '@tallygate/captcha/react';
import { useRef, useState } from 'react';
import type { FormEvent, ReactElement } from 'react';
import { send, sitekey, url } from '../settings';

export const App = (): ReactElement => {
  const captcha = useRef<CaptchaHandle>(null);
  const [verified, setVerified] = useState(0);
  const [answer, setAnswer] = useState('');

  const submit = async (submitted: FormEvent<HTMLFormElement>) => {
    submitted.preventDefault();
    const answer = await send(new FormData(submitted.currentTarget));
    captcha.current?.reset();
    setAnswer(answer);
  };
  const direct = async () => {
    const answer = await send(await captcha.current!.execute());
    captcha.current?.reset();
    setAnswer(answer);
  };

  return (
    <form onSubmit={submit}>
      <textarea name="message" />
      <Captcha ref={captcha} url={url} sitekey={sitekey} lang="de" className="human" onVerified={() => setVerified((n) => n + 1)} />
      <button id="send">Send</button>
      <button id="direct" type="button" onClick={direct}>
        Send the token
      </button>
      <output>{answer}</output>
      <i id="verified">{verified}</i>
    </form>
  );
};

// @ts-expect-error: the sitekey is missing
export const wrong = <Captcha url={url} />;
