// Passkeys: the browser's credentials as JSON. Browsers of 2024 lack the functions that do the same.
import type { UserError } from '../core/api';
import { t } from '../core/language';

interface Descriptor {
  id: string;
}

const bytes = (text: string): Uint8Array<ArrayBuffer> =>
  Uint8Array.from(atob(text.replace(/-/g, '+').replace(/_/g, '/')), (c) => c.charCodeAt(0));

const text = (buffer: ArrayBuffer | null): string | undefined =>
  buffer
    ? btoa(String.fromCharCode(...new Uint8Array(buffer)))
        .replace(/\+/g, '-')
        .replace(/\//g, '_')
        .replace(/=+$/, '')
    : undefined;

const described = (list: Descriptor[] = []): PublicKeyCredentialDescriptor[] =>
  list.map((one) => ({ ...one, id: bytes(one.id) }) as unknown as PublicKeyCredentialDescriptor);

/** serialized returns a credential as its method toJSON would. */
function serialized(credential: Credential | null, response: (of: any) => object): string {
  const { id, rawId, type, response: answer } = credential as PublicKeyCredential;
  return JSON.stringify({
    id,
    rawId: text(rawId),
    type,
    clientExtensionResults: {},
    response: { clientDataJSON: text(answer.clientDataJSON), ...response(answer) },
  });
}

/** usePasskey asks for a passkey with a request's options. */
export async function usePasskey(options: string): Promise<string> {
  const publicKey = JSON.parse(options);
  publicKey.challenge = bytes(publicKey.challenge);
  publicKey.allowCredentials = described(publicKey.allowCredentials);
  return serialized(await navigator.credentials.get({ publicKey }), (answer: AuthenticatorAssertionResponse) => ({
    authenticatorData: text(answer.authenticatorData),
    signature: text(answer.signature),
    userHandle: text(answer.userHandle),
  }));
}

/** createPasskey makes a passkey with a request's options. */
export async function createPasskey(options: string): Promise<string> {
  const publicKey = JSON.parse(options);
  publicKey.challenge = bytes(publicKey.challenge);
  publicKey.user.id = bytes(publicKey.user.id);
  publicKey.excludeCredentials = described(publicKey.excludeCredentials);
  return serialized(await navigator.credentials.create({ publicKey }), (answer: AuthenticatorAttestationResponse) => ({
    attestationObject: text(answer.attestationObject),
    transports: answer.getTransports(),
  }));
}

/** withPasskey runs a use of a passkey. The browser's refusal, for instance a cancelled dialog, is an error to show. */
export async function withPasskey(run: () => Promise<UserError[]>): Promise<UserError[]> {
  try {
    return await run();
  } catch (error) {
    if (!(error instanceof DOMException)) throw error;
    const known = error.name === 'InvalidStateError';
    const message = t(known ? 'passkey.exists' : 'passkey.failed');
    return [{ field: null, code: error.name, message }];
  }
}
