// Calls of the GraphQL API. The console uses it as any script could, with the session cookie.
import { language } from './language';

/** UserError is an error in a mutation's input, which the user can correct. */
export interface UserError {
  field: string[] | null;
  code: string;
  message: string;
}

/** Failure is a request or field that was not run. code is one of the schema's ErrorCode, or OFFLINE. */
export class Failure extends Error {
  constructor(
    readonly code: string,
    message: string,
    /** Seconds to wait before the next attempt, if the server names them. */
    readonly retryAfter?: number,
    readonly requestId?: string,
  ) {
    super(message);
  }
}

/**
 * Operation runs one GraphQL operation. It rejects with a Failure, or with an AbortError after signal. With
 * onPart, the failure of a field below the top level is passed to it, and the data has null there.
 */
export type Operation<V, D> = (
  variables: V,
  signal?: AbortSignal,
  onPart?: (failure: Failure) => void,
) => Promise<D>;

/** operation returns the function that runs a document with its fragments; operations.ts holds one of each. */
export function operation<V, D>(document: string, ...fragments: string[]): Operation<V, D> {
  const query = document + fragments.join('');
  return (variables, signal, onPart) => {
    const call = (): Promise<D> => run<D>(JSON.stringify({ query, variables }), signal, onPart);
    return query.startsWith('mutation') ? inOrder(call) : call();
  };
}

/**
 * isFramed reports whether the page shows a shared report in a frame of another site. Such a page has no session:
 * it sends no cookies, and it stays the page of its link, so that no page around it can lead a click to anything else.
 */
export const isFramed = location.pathname.startsWith('/embed/');

let bearer = '';

/** authorize sends a token with all later calls, instead of the session. An empty one ends that. */
export const authorize = (token: string): void => void (bearer = token);

/** previous ends with the last mutation. */
let previous: Promise<unknown> = Promise.resolve();

/** inOrder runs mutations one after another, so that an older answer cannot replace a newer answer on the page. */
function inOrder<D>(call: () => Promise<D>): Promise<D> {
  const result = previous.then(call);
  previous = result.catch(() => undefined);
  return result;
}

async function run<D>(
  request: string,
  signal: AbortSignal | undefined,
  onPart: ((failure: Failure) => void) | undefined,
): Promise<D> {
  const { data, errors } = await body(await send(request, signal));

  if (errors?.length) {
    const { message, extensions = {}, path = [] } = errors[0]!;
    const failure = new Failure(extensions.code ?? 'INTERNAL', message, extensions.retryAfter, extensions.requestId);
    if (!onPart || !data || path.length < 2) throw failure;
    onPart(failure);
  }

  return data as D;
}

async function send(body: string, signal: AbortSignal | undefined): Promise<Response> {
  try {
    const headers = {
      'Content-Type': 'application/json',
      'Accept-Language': language(), // of the mails that the call causes
      ...(bearer && { Authorization: 'Bearer ' + bearer }),
    };
    const credentials = bearer || isFramed ? 'omit' : 'same-origin';
    return await fetch('/graphql', { method: 'POST', headers, body, credentials, signal: signal ?? null });
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new Failure('OFFLINE', 'The server could not be reached.');
  }
}

interface Body {
  data?: unknown;
  errors?: { message: string; path?: unknown[]; extensions?: { code?: string; retryAfter?: number; requestId?: string } }[];
}

async function body(response: Response): Promise<Body> {
  try {
    return (await response.json()) as Body;
  } catch {
    // A proxy in front answers with a page of its own while the service restarts.
    throw new Failure('UNAVAILABLE', `The server answered with status ${response.status}.`);
  }
}
