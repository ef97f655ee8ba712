// Browser features that TypeScript's library lacks, and the one name that the script adds.

/** Arguments of a call to svc. The stub before the tag queues `arguments` objects. */
type Call = ArrayLike<unknown>;

/** The browser function, or the stub that stands in for it until the script has loaded. */
interface Svc {
  (...call: unknown[]): void;
  /** Queue of the stub's calls. Once the script runs, push executes the call. */
  q?: { push(call: Call): unknown };
  /** Set once the script runs. A second copy of the script then does nothing. */
  on?: true;
}

interface Window {
  svc?: Svc;
  doNotTrack?: string | null;
}

interface Navigator {
  globalPrivacyControl?: boolean;
}

interface Document {
  readonly prerendering?: boolean;
}
