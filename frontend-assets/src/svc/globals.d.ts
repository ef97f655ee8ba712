// What browsers have and TypeScript's library does not list, and the one name that the script adds.

/** Arguments of a call to svc; the stub of the tag queues `arguments` objects. */
type Call = ArrayLike<unknown>;

/** The browser function, or the stub that stands in for it until the script has loaded. */
interface Svc {
  (...call: unknown[]): void;
  /** Where stubs put their calls. Once the script runs, pushing is calling. */
  q?: { push(call: Call): unknown };
  /** Set once the script runs; a second copy of the script then leaves at once. */
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
