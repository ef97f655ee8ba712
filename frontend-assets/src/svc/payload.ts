// What the script sends to collect.php (analytics contract, section 2 "Collection payload"). This
// is the only place where the wire format is written down on the browser's side; the server's
// reader is dataplane/analytics.

/** The campaign values of the page's address. Only those that are present. */
export interface Campaign {
  /** utm_source … utm_term, in lower case. */
  source?: string;
  medium?: string;
  campaign?: string;
  content?: string;
  term?: string;
  /** Click ids of the advertising platforms, as they came. */
  gclid?: string;
  gbraid?: string;
  wbraid?: string;
  fbclid?: string;
  msclkid?: string;
}

/**
 * What stays the same from a page view to the next one, and goes along with everything sent in
 * between.
 */
export interface View {
  /** Path of the page, at most 2,048 characters. Never the query string or the fragment. */
  p: string;
  /**
   * Referring address up to its path, or null when there is none. After a route change: the
   * previous page of the same site.
   */
  r: string | null;
  /**
   * Page view id: 16 lower-case hexadecimal characters, random, new for each page view. Ties
   * engagement to it.
   */
  i: string;
  /** Campaign values of the page's address. */
  u: Campaign;
}

/** The part that differs by the kind of message. */
export type Message =
  | {
      t: 'pageview';
      /**
       * 1 when the page asked for it by svc('pageview'); the server then ignores it within a second
       * of an automatic one.
       */
      x?: 1 | undefined;
    }
  | {
      t: 'event';
      /** Event name. */
      e: string;
      /**
       * Event properties; left out when there are none, or when they do not fit into a message of 8
       * KB.
       */
      m?: object | undefined;
    }
  | {
      t: 'engagement';
      /**
       * Milliseconds in view since the last engagement message of this page view (not the total).
       */
      ms: number;
      /** Deepest point seen so far, in percent of the page's present height: 0 to 100. */
      sc: number;
    };

/** The whole message. Keys whose value is undefined are not sent. */
export type Payload = View &
  Message & {
    /** Site key: 32 lower-case hexadecimal characters. */
    k: string;
    /** Screen width in CSS pixels; the server keeps a range only. */
    w: number;
    /** Browser language, for example en-GB; the server keeps the two-letter part only. */
    l: string;
    /** Pseudonymous user id set by svc('identify'): 64 lower-case hexadecimal characters. */
    d?: string | undefined;
    /** "off" when the tag has data-auto="off"; the server then refuses automatic events. */
    a?: 'off' | undefined;
  };
