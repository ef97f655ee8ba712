import { endpoint } from './tag';

/**
 * Returns the reason why nothing may be sent, or undefined: the visitor has opted out, the document
 * is not a page of a website, or the script has no address to send to.
 */
export const optOutReason = () =>
  [
    /^(1|yes)$/.test((navigator.doNotTrack || window.doNotTrack)!) && 'Do Not Track',
    navigator.globalPrivacyControl && 'Global Privacy Control',
    // Local files, and frames without an address of their own.
    !/^http/.test(location.protocol) && location.protocol,
    !endpoint && 'script without address',
  ].find(Boolean);
