/**
 * Returns the reason why nothing may be sent, or undefined: the visitor has opted out, or the
 * document is not a page of a website.
 */
export const optOutReason = () =>
  [
    /^(1|yes)$/.test((navigator.doNotTrack || window.doNotTrack)!) && 'Do Not Track',
    navigator.globalPrivacyControl && 'Global Privacy Control',
    // Local files, and frames without an address of their own.
    !/^http/.test(location.protocol) && location.protocol,
  ].find(Boolean);
