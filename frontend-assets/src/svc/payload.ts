// The messages that the script sends to collect.php (analytics contract, section 2 "Collection
// payload"). This is the only definition of the wire format on the browser's side; the server
// decodes it in dataplane/analytics.

/** The campaign values in the page's address. Absent keys are left out. */
export interface Campaign {
  /** utm_source … utm_term, in lower case. */
  source?: string;
  medium?: string;
  campaign?: string;
  content?: string;
  term?: string;
  /** Click ids of the advertising platforms, unchanged. */
  gclid?: string;
  gbraid?: string;
  wbraid?: string;
  fbclid?: string;
  msclkid?: string;
}

/** The fields that all messages of one page view share. */
export interface View {
  /** Path of the page, at most 2,048 characters. Never the query string or the fragment. */
  p: string;
  /**
   * Referring address without query and fragment, or null. After a route change: the previous page
   * of the same site.
   */
  r: string | null;
  /**
   * Page view id: 16 random lower-case hexadecimal characters. Ties engagement to its page view.
   */
  i: string;
  /** Campaign values in the page's address. */
  u: Campaign;
}

/** The fields that differ by the type of message. */
export type Message =
  | {
      t: 'pageview';
      /**
       * 1 for a manual page view, by svc('pageview'). The server ignores it within one second of an
       * automatic one.
       */
      x?: 1 | undefined;
    }
  | {
      t: 'event';
      /** Event name. */
      e: string;
      /**
       * Event properties. Absent without properties, or when they exceed a message of 8 KB.
       */
      m?: object | undefined;
    }
  | {
      t: 'engagement';
      /**
       * Milliseconds in view since the last engagement message of this page view, not the total.
       */
      ms: number;
      /** Deepest position seen so far, in percent of the page's current height: 0 to 100. */
      sc: number;
    };

/** A complete message. Keys with the value undefined are not sent. */
export type Payload = View &
  Message & {
    /** Site key: 32 lower-case hexadecimal characters. */
    k: string;
    /** Screen width in CSS pixels. The server stores only a range. */
    w: number;
    /** Browser language, for example en-GB. The server stores only the two-letter code. */
    l: string;
    /** Pseudonymous user id set by svc('identify'): 64 lower-case hexadecimal characters. */
    d?: string | undefined;
    /** "off" when the tag has data-auto="off". The server then refuses automatic events. */
    a?: 'off' | undefined;
  };
