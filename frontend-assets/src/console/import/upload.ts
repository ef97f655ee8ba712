// The upload of files in pieces, which a server that restarts or a lost connection only delays.
import { Failure } from '../core/api';

const path = '/products/analytics/api/import.php';
const piece = 1 << 20; // bytes of a call
const mostFailures = 8; // in a row

/** wait resolves after some seconds, or rejects when signal is aborted. */
const wait = (seconds: number, signal: AbortSignal): Promise<void> =>
  new Promise((resolve, reject) => {
    setTimeout(resolve, seconds * 1000);
    signal.addEventListener('abort', () => reject(signal.reason));
  });

/**
 * upload sends files from an offset on, one piece at a time, and reports how many bytes the server has. A piece
 * is read from the disk when it is sent. Failures that may pass are tried again for a minute.
 */
export async function upload(
  job: string,
  files: File[],
  from: number,
  report: (received: number) => void,
  signal: AbortSignal,
): Promise<void> {
  const whole = new Blob(files);
  let offset = from;
  for (let failures = 0; offset < whole.size; ) {
    try {
      offset = await send(job, offset, whole.slice(offset, offset + piece), signal);
      failures = 0;
      report(offset);
    } catch (error) {
      if (!(error instanceof Failure) || error.retryAfter === undefined || ++failures > mostFailures) throw error;
      await wait(Math.max(error.retryAfter, failures * 2), signal);
    }
  }
}

/** send sends a piece and returns the offset of the next one. */
async function send(job: string, offset: number, body: Blob, signal: AbortSignal): Promise<number> {
  let response: Response;
  try {
    const query = new URLSearchParams({ job_id: job, offset: String(offset) });
    response = await fetch(`${path}?${query}`, { method: 'PUT', body, signal });
  } catch (error) {
    if (signal.aborted) throw error;
    throw new Failure('OFFLINE', 'The server could not be reached.', 1);
  }

  if (response.ok) return ((await response.json()) as { received: number }).received;
  if (response.status === 401) throw new Failure('UNAUTHENTICATED', 'Sign in again.');
  if (response.status === 429 || response.status >= 500) {
    throw new Failure('UNAVAILABLE', `The server answered with status ${response.status}.`, Number(response.headers.get('Retry-After')) || 1);
  }
  throw new Failure('UPLOAD', `The server answered with status ${response.status}.`);
}
